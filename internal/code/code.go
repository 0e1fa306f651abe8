// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package code names the causes of failures. A code is stable: it is never renamed and
// never reused, while the texts around it may change.
package code

// The codes of a process that does not start.
const (
	StartNotFound   = "SB_START_NOT_FOUND"
	StartFolder     = "SB_START_FOLDER"
	StartForbidden  = "SB_START_FORBIDDEN"
	StartOneString  = "SB_START_ONE_STRING"
	StartPackage    = "SB_START_PACKAGE"
	StartNeedsValue = "SB_START_NEEDS_VALUE"
	StartInstall    = "SB_START_INSTALL"
)

// The codes of a server that is reached and does not speak MCP.
const (
	TalkSilent      = "SB_TALK_SILENT"
	TalkOtherOutput = "SB_TALK_OTHER_OUTPUT"
	TalkExited      = "SB_TALK_EXITED"
	TalkRevision    = "SB_TALK_REVISION"
	TalkNotMCP      = "SB_TALK_NOT_MCP"
)

// The codes of a server that is not reached over the network.
const (
	NetDNS      = "SB_NET_DNS"
	NetRefused  = "SB_NET_REFUSED"
	NetTLS      = "SB_NET_TLS"
	NetTimeout  = "SB_NET_TIMEOUT"
	NetRedirect = "SB_NET_REDIRECT"
	NetStatus   = "SB_NET_STATUS"
	NetProxy    = "SB_NET_PROXY"
)

// The codes of a server that refuses the credentials.
const (
	AuthSignIn  = "SB_AUTH_SIGN_IN"
	AuthWrong   = "SB_AUTH_WRONG"
	AuthScope   = "SB_AUTH_SCOPE"
	AuthLater   = "SB_AUTH_LATER"
	AuthBackend = "SB_AUTH_BACKEND"
)

// The codes of notes on a configuration file.
const (
	FilePlaceholder = "SB_FILE_PLACEHOLDER"
	FileLiteral     = "SB_FILE_LITERAL_SECRET"
	FileTilde       = "SB_FILE_TILDE"
	FileRelative    = "SB_FILE_RELATIVE"
	FileUnpinned    = "SB_FILE_UNPINNED"
	FileDialect     = "SB_FILE_DIALECT"
)

// The codes of names that are not offered as configured.
const (
	NameConflict   = "SB_NAME_CONFLICT"
	NameLong       = "SB_NAME_LONG"
	NameUnusedRule = "SB_NAME_UNUSED_RULE"
	NameReserved   = "SB_NAME_RESERVED"
)

// The codes of apps of servers.
const (
	AppName = "SB_APP_NAME"
	AppURI  = "SB_APP_URI"
)

// The codes of skills of servers.
const (
	SkillShared = "SB_SKILL_SHARED"
)

// The codes of definitions that differ from the approved ones.
const (
	ItemFrozen     = "SB_ITEM_FROZEN"
	ItemHeld       = "SB_ITEM_HELD"
	ItemHiddenText = "SB_ITEM_HIDDEN_TEXT"
	ItemTooLarge   = "SB_ITEM_TOO_LARGE"
)

// The code of what lists of tools cost.
const (
	CostHigh = "SB_COST_HIGH"
)

// The codes of calls that the policy refuses.
const (
	PolicyDenied  = "SB_POLICY_DENIED"
	PolicyScopes  = "SB_POLICY_SCOPES"
	PolicyConfirm = "SB_POLICY_CONFIRM"
)

// The codes of calls that filters refuse, and of results that they cannot change.
const (
	FilterRefused = "SB_FILTER_REFUSED"
	FilterFailed  = "SB_FILTER_FAILED"
)

// The codes of a process that runs.
const (
	ChildMemory   = "SB_CHILD_MEMORY"
	ChildCopies   = "SB_CHILD_COPIES"
	ChildRestarts = "SB_CHILD_RESTARTS"
	ChildLeft     = "SB_CHILD_LEFT"
)

// The codes of the gateway's own machine.
const (
	FilesLimit    = "SB_FILES_LIMIT"
	OldGateway    = "SB_OLD_GATEWAY"
	PortTaken     = "SB_PORT_TAKEN"
	StateReadonly = "SB_STATE_READONLY"
	Clock         = "SB_CLOCK"
)

// IsNotStarted reports whether the code is of a process that was never started. To try
// again costs little.
func IsNotStarted(code string) bool {
	switch code {
	case StartNotFound, StartFolder, StartForbidden, StartOneString, FilesLimit:
		return true
	default:
		return false
	}
}

// Entry describes a code.
type Entry struct {
	Code   string
	Text   string // what is wrong
	Cause  string // the usual cause
	Cure   string
	Passes bool // it may pass without a change of the configuration or the machine
}

// All returns the table, ordered by area.
func All() []Entry {
	return []Entry{
		{
			StartNotFound, "The program of a server does not exist.",
			"It is not installed, its name has a typing error, or it is in a folder that is neither in the gateway's PATH nor in that of the login shell; or the interpreter or loader that it names does not exist.",
			"Install it, or write its whole path in `command`.", false,
		}, {
			StartFolder, "The working directory of a server does not exist or is not a directory.",
			"`cwd` names a folder of another machine, or one that was moved.",
			"Create it, or correct `cwd`.", false,
		}, {
			StartForbidden, "The program of a server may not or cannot be executed.",
			"It has no execute permission, is a folder, or was built for another system.",
			"`chmod +x` it, or install the build for this system.", false,
		}, {
			StartOneString, "The command of a server is a whole command line in one string.",
			"The line was copied as it is typed into a shell. There is no shell, and no program has that name.",
			"Write the first word in `command`, and each word after it as one of `args`.", false,
		}, {
			StartPackage, "npm, uv or docker does not know the package of a server.",
			"Its name has a typing error, or it is private, withdrawn, or of another registry.",
			"Correct the name in `args`; try the command by hand.", false,
		}, {
			StartNeedsValue, "A server ended because it needs a variable, as its last lines on stderr say.",
			"A variable is not set in `env` or `envFile`. A process inherits few variables of the gateway.",
			"Set it in `env`; `${NAME}` takes the value from `signalbox secret set NAME`, or from the gateway's environment.", false,
		}, {
			StartInstall, "The package of a server is installed in part.",
			"npx was ended while it installed the package, for example by a time limit, and does not install the rest at the next start.",
			"Remove the folder below `_npx` that the message names, and try again: npx then installs the package anew. If it fails as before, the package lacks a dependency: report that to its author.", false,
		}, {
			TalkSilent, "A server did not answer in time.",
			"It still installs something, waits for something else, or is not an MCP server.",
			"`signalbox logs NAME` has what it writes meanwhile. If it is only slow, raise `limits.handshake`; otherwise start it by hand and watch it.", true,
		}, {
			TalkOtherOutput, "A server wrote to its output what is not a message, and did not answer.",
			"It is not an MCP server, or not told to use stdio, or prints its log to the standard output.",
			"Correct `args`; a server that listens over HTTP may need `--stdio`. A log belongs on the standard error.", false,
		}, {
			TalkExited, "The process of a server ended, or closed its output.",
			"It crashed, was killed, or ends because of its arguments. Its last lines on stderr usually say why.",
			"Read these lines with `signalbox logs NAME`; start it by hand with the same arguments and variables.", true,
		}, {
			TalkRevision, "A server speaks no revision of MCP that is known here.",
			"It is newer or older than this gateway.",
			"Update the one that is older.", false,
		}, {
			TalkNotMCP, "A server answers, and not as MCP specifies.",
			"The address is that of a web page or of another service, or the server has a defect.",
			"Correct `url`; often its path is missing (`/mcp`).", false,
		}, {
			NetDNS, "The name of a server's host cannot be resolved.",
			"It has a typing error, or is known only in another network.",
			"Correct `url`, or connect to that network.", true,
		}, {
			NetRefused, "Nothing accepts connections at the address of a server.",
			"The server does not run, its port is another one, or its host is unreachable.",
			"Start it, or correct `url`.", true,
		}, {
			NetTLS, "There is no TLS connection to a server that can be trusted.",
			"Its certificate has expired, is for another host, or is signed by an unknown authority; or the port does not speak TLS.",
			"Correct the scheme in `url`, renew the certificate, or install its authority on this machine.", false,
		}, {
			NetTimeout, "There is no connection to a server in time.",
			"A firewall drops the packets, or the host is down.",
			"Look at the network in between; `limits.connect` is the time.", true,
		}, {
			NetRedirect, "A server redirects to another address.",
			"It has moved, or wants another scheme or a trailing slash. Redirects are not followed, because credentials would go along.",
			"Write the address that the message names in `url`.", false,
		}, {
			NetStatus, "A server answers with an HTTP status that means a failure.",
			"The path in `url` is wrong (404), or the server or a proxy before it fails (5xx).",
			"Correct `url`, or look at the server's own log.", true,
		}, {
			NetProxy, "The proxy on the way to a server cannot be reached.",
			"HTTPS_PROXY or HTTP_PROXY in the environment of the gateway names one that does not run, or that is in another network.",
			"Correct the variable, or except the server's host with NO_PROXY.", true,
		}, {
			AuthSignIn, "A server requires a sign-in (OAuth).",
			"It answered 401 and named its metadata (RFC 9728).",
			"Run `signalbox login NAME`, or write an Authorization header in `headers`.", false,
		}, {
			AuthWrong, "A server rejects the credentials, or requires some.",
			"The Authorization header in `headers` is missing, expired or withdrawn (401).",
			"Correct it in `headers`, or add `oauth: {}` if users sign in to the server.", false,
		}, {
			AuthScope, "The credentials for a server are not sufficient.",
			"The token lacks a scope, or its owner a right (403).",
			"Get a token with more rights.", false,
		}, {
			AuthLater, "A server is busy, or its quota is used up.",
			"It answered 429, or 503 with Retry-After.",
			"Wait; or raise the quota at the server.", true,
		}, {
			AuthBackend, "The gateway has no valid credential for a server.",
			"The authorization server gave none, or the server refuses the one that it gave. The request was not sent, or refused.",
			"The reason names the key of `oauth` to correct, or the authorization server that cannot be reached.", true,
		}, {
			FilePlaceholder, "A value in the configuration was copied from an example.",
			"`<YOUR_TOKEN>`, `/path/to/folder` or the like was not replaced.",
			"Write the real value.", false,
		}, {
			FileLiteral, "A credential is written into the configuration.",
			"A value has the form of a token of a known service.",
			"Write `${NAME}`, and run `signalbox secret set NAME`.", false,
		}, {
			FileTilde, "A path in the configuration begins with `~`.",
			"A shell would replace it. There is no shell, so the server gets the letter.",
			"Write the whole path, or `${HOME}`.", false,
		}, {
			FileRelative, "A relative path exists in the folder of the configuration, and not where the server runs.",
			"Paths in `args` are relative to `cwd`, or to the gateway's working directory without one.",
			"Write the whole path, or set `cwd`.", false,
		}, {
			FileUnpinned, "A server is started by npx or uvx without a version.",
			"The newest version is installed, which may change at every start.",
			"Run `signalbox pin NAME`, or write the version: `package@1.2.3`, `package==1.2.3`.", false,
		}, {
			FileDialect, "A key in the configuration is another program's.",
			"The file was copied from a client. The note says whether the key is read as another one, or ignored.",
			"Nothing, if the note is as intended.", false,
		}, {
			NameConflict, "Several servers offer the same name, and some of them do not get it.",
			"They have the same prefix or none, or a `rename` gives the name of another one.",
			"Give one of them a `prefix`, rename one of the items, or set `conflict: first`.", false,
		}, {
			NameLong, "A tool's name is not accepted by model providers.",
			"With the prefix of its server it has more than 64 characters, or has characters other than letters, digits, `_` and `-`.",
			"Give the server a short `prefix`, or the tool another name with `rename`.", false,
		}, {
			NameUnusedRule, "A rule of a server, profile, policy or filter matches nothing that is listed.",
			"A name in `include`, `exclude`, `rename` or `on` has a typing error, or the server has renamed the item.",
			"Correct the rule, or remove it.", false,
		}, {
			NameReserved, "A tool of a server has the name of a tool of the gateway, and is not offered, or not in a profile.",
			"The profile has `view: search` or `view: auto`, and with it `find_tool` and `call_tool`; or results are cut, and there is `read_result`. The server has no prefix, or a `rename` gives one of these names.",
			"Give the server a `prefix`, or the tool another name with `rename`.", false,
		}, {
			ItemFrozen, "The text of a definition has changed since it was approved, and the approved one is offered.",
			"The server has another description, title, annotation or icon, for example since its update, or because an attacker tries to instruct the model.",
			"Look at the difference with `signalbox approve SERVER`, and approve it or leave the server.", false,
		}, {
			ItemHeld, "A tool, prompt, template or the HTML of an app is not the approved one, and is neither listed nor called or read.",
			"The server has added it, or has changed its input schema or the HTML, since `signalbox lock` was run. With `pins.changed: warn` it is offered.",
			"Look at the difference with `signalbox approve SERVER`, and approve it.", false,
		}, {
			ItemHiddenText, "A definition has characters that people do not see, and is neither listed nor called.",
			"Text was hidden in it, which a model would read; or it was copied from a page with such characters.",
			"Look at it with `signalbox approve SERVER`, which spells them out. `pins: {hidden: allow}` offers all of them.", false,
		}, {
			CostHigh, "The definitions of the tools are large.",
			"Many servers, or servers with many tools or long descriptions. A client that lists all tools sends them to the model with each request.",
			"`exclude` what is not used, make a profile for each purpose, or let the client search: `signalbox connect CLIENT --view search`. `signalbox tools --cost` shows the largest.", false,
		}, {
			ItemTooLarge, "A definition, or a list of them, is larger than its limit, and is left out or cut.",
			"The schema of a tool is larger than `limits.schema`, or the server lists more than `limits.toolsPerBackend`, `limits.pages` or 32 MiB.",
			"Raise the limit, or `exclude` what is not needed.", false,
		}, {
			AppName, "An app has called a tool by a name that tools of several servers have.",
			"The page of an app calls the tools of its server by their names there, without a prefix. Two servers at one endpoint have such a tool.",
			"Give each of these servers a profile of its own.", false,
		}, {
			AppURI, "A pattern of the policy matches the URI of an app or a skill as its server writes it, and is not about it.",
			"Clients see `ui://page` of the server `maps` as `ui://maps/page`, and rules are about that.",
			"Write the name of the server into the pattern, such as `ui://maps/*`.", false,
		}, {
			SkillShared, "Several servers serve a skill under one URI, and only that of the first is listed.",
			"The URI has another scheme than `skill`, so that it is the same through the gateway; or the servers have `prefix: \"\"`.",
			"Put the server that is to have it first in the file, or give the servers prefixes if the URIs begin with `skill:`.", false,
		}, {
			PolicyDenied, "The policy of the gateway refuses a request for an item that is listed.",
			"By a rule of `policy`, which the message names, these arguments or this resource are not allowed for the caller.",
			"Other arguments. `signalbox policy why` shows the operator the value of each rule.", false,
		}, {
			PolicyScopes, "The caller lacks scopes that the policy of the gateway needs.",
			"The token was issued without them. The message names them, and so does the `WWW-Authenticate` header over HTTP.",
			"A client that can do so asks its user for a token with these scopes, and tries again.", false,
		}, {
			PolicyConfirm, "The user has not agreed to a request about which the policy of the gateway asks.",
			"The user declined, gave no answer in time (`limits.inputWait`), or uses a client that cannot ask.",
			"A client with the capability `elicitation`. `signalbox policy why` shows the operator which rule asks.", false,
		}, {
			FilterRefused, "A filter of the gateway refuses a request by its arguments.",
			"`refuse` of an entry of `filters`, which the message names, is true for the arguments, or has no value for them.",
			"Other arguments. If the expression has no value for arguments that should pass, test with `has` for what it reads.", false,
		}, {
			FilterFailed, "A result is withheld because filters could not be applied to it. The request was executed.",
			"The replacements and marks of `filters` would add more than `limits.backendMessage`.",
			"Shorten `with`, or let the pattern match longer texts.", false,
		}, {
			ChildMemory, "A process was killed because it used more memory than `memory` in its entry permits.",
			"The server loads too much, or does not free what it no longer needs.",
			"Raise `memory` if it needs that much; otherwise use it for less at a time, or update it.", true,
		}, {
			ChildCopies, "Four or more processes of one server run.",
			"A server of a legacy revision has a process for each client that uses it, because it may keep something for the client.",
			"If it keeps nothing for its clients, `share: true` in its entry lets all of them use one process.", false,
		}, {
			ChildRestarts, "The process of a server has ended unexpectedly five times or more within an hour.",
			"It crashes, is killed, as by `memory`, or ends when it has nothing to do. Each end loses what it kept for its clients, and the next call starts it again.",
			"Read what it wrote before with `signalbox logs NAME`.", true,
		}, {
			ChildLeft, "The process of a server has ended, and others that it has started were still running.",
			"A wrapper script has started the server and not waited for it, or the process that was started was killed. Or an earlier gateway of the file was killed, and such a process has left its process group.",
			"Nothing, if the gateway reports it: it has ended them. Let a wrapper script `exec` its server. `signalbox doctor` prints the process ids of those that are left.", true,
		}, {
			FilesLimit, "The gateway may not open more files.",
			"Its limit of open files, or that of the machine, is reached. Each process and each connection needs some.",
			"Raise the limit (`ulimit -n`, `LimitNOFILE`).", true,
		}, {
			PortTaken, "The port that the gateway shall listen on is in use.",
			"Another gateway runs, or another program uses the port.",
			"Stop that program, or choose another port with `--listen`.", true,
		}, {
			OldGateway, "The running gateway is of another version than the command.",
			"Signalbox was updated while the gateway was running.",
			"Nothing, if the gateway was started by `attach`: it ends when its last client has left. Otherwise restart it.", true,
		}, {
			StateReadonly, "The state folder cannot be used.",
			"It is on a file system that is read-only or full, it belongs to another user, or the user has no home folder.",
			"Set `XDG_STATE_HOME` to a folder that the user of the gateway may write, or correct its owner.", false,
		}, {
			Clock, "The clock of this machine is wrong.",
			"The certificate of a server is not valid yet by this clock; or the certificate is new, and made by a machine with a wrong clock.",
			"Set the clock (`timedatectl`), and let it be set by the network.", false,
		},
	}
}
