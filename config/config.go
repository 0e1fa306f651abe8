// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/pins"
)

// Config is the content of a configuration file. The zero value of each field means its
// documented default, and reading a Config does not change it. Effective returns a copy
// with the defaults filled in.
//
// In limits and times a negative value means no limit, for which a file has "none".
type Config struct {
	// Schema is the URL of a JSON Schema, for editors. It has no other use.
	Schema string `json:"$schema"`

	// Servers are the backends, in the order of the file.
	Servers []Backend `json:"mcpServers"`
	// Profiles are parts of what the servers offer, each with a path of its own.
	Profiles []Profile `json:"profiles"`

	// Listen is the address to serve HTTP on, as host:port.
	Listen string `json:"listen"`
	// Path is the URL path of the MCP endpoint.
	Path string `json:"path"`
	// TLS is the certificate of the listener. Without it, the listener serves plain HTTP.
	TLS *TLS `json:"tls"`
	// PublicURL is the scheme and host at which clients reach the gateway.
	PublicURL string `json:"publicURL"`
	// AllowedHosts are additional accepted values of the Host header.
	AllowedHosts []string `json:"allowedHosts"`
	// AllowedOrigins are the accepted values of the Origin header.
	AllowedOrigins []string `json:"allowedOrigins"`
	// AllowUnauthenticated permits a listener beyond loopback without Auth.
	// It is a separate key, so that no gateway is opened to a network by leaving
	// something out.
	AllowUnauthenticated bool `json:"allowUnauthenticated"`
	// Auth configures authentication. If it is zero, every request is accepted.
	Auth Auth `json:"auth"`
	// Operators is the condition, in CEL, for callers that may read the status and the
	// metrics; "" is the default of docs/config.md.
	Operators string `json:"operators"`
	// Quotas bound how many calls may be made in a time.
	Quotas []Quota `json:"quotas"`

	// Name and Version are the gateway's own, sent to clients.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Instructions are sent to clients instead of the joined instructions of the
	// backends.
	// Clients show them to a model before any request, which justifies a setting.
	Instructions string `json:"instructions"`

	// Conflict decides which backend gets a name that several offer.
	Conflict Conflict `json:"conflict"`

	// Reload decides which changes of the file are applied automatically.
	Reload ReloadPolicy `json:"reload"`

	// StreamLife is how long one response carries a stream before the client has to
	// resume it with another request.
	StreamLife time.Duration `json:"streamLife"`

	// Pins is what becomes of definitions that were not approved.
	Pins Pins `json:"pins"`
	// Apps is what becomes of MCP Apps.
	Apps Apps `json:"apps"`
	// Search is when ViewAuto lists all tools.
	Search Search `json:"search"`
	// Results is what becomes of large results of tools.
	Results Results `json:"results"`
	// Limits bounds the resources that clients and backends can use.
	Limits Limits `json:"limits"`
	// State configures the protection of state that clients keep for the gateway.
	State State `json:"state"`
	// Credentials configures where the credentials of backends are kept.
	Credentials Credentials `json:"credentials"`
	// Drain configures the shutdown.
	Drain Drain `json:"drain"`
	// Log configures the log of the command. A program sets a Logger instead.
	Log Log `json:"log"`
	// Metrics configures the metrics.
	Metrics Metrics `json:"metrics"`
	// Audit configures the record of calls and of security events.
	Audit Audit `json:"audit"`
	// Policy decides which callers may use and see an item.
	Policy Policy `json:"policy"`
	// Filters are applied to arguments and results, in this order.
	Filters []Filter `json:"filters"`

	// Notes are remarks on what has no effect, such as a key for another program or a
	// pattern that another one covers. They are meant for the operator. Only Parse and
	// Load fill them.
	Notes Problems `json:"-"`

	source *source // nil if the Config is not from a file
}

// source is the file of a Config.
type source struct {
	file      string
	positions map[string]configfile.Position // of the values, by path
	secrets   string                         // the path of the file with secrets, if it exists and was read
	files     []string                       // the paths of the files that ${file:} refers to
	lock      *pins.Lock                     // nil without a lock file
}

// server returns the server with a name, or nil.
func (c *Config) server(name string) *Backend {
	i := slices.IndexFunc(c.Servers, func(s Backend) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Servers[i]
}

// Problem returns a problem with the value of a path, such as mcpServers.github. It has the
// position of the value, or of what the value is missing from, if the Config is from a file.
func (c *Config) Problem(path, message, hint string) Problem {
	r := reader{}
	if c.source != nil {
		r.file, r.positions = c.source.file, c.source.positions
	}
	return r.problem(place{path: path}, hint, message)
}

// Conflict is the policy for a name that several backends offer.
type Conflict string

const (
	// ConflictHide hides the name. It is the default.
	ConflictHide Conflict = "hide"
	// ConflictFirst assigns it to the first backend in file order.
	ConflictFirst Conflict = "first"
)

// ReloadPolicy is the policy for applying changes of the file automatically.
type ReloadPolicy string

const (
	// ReloadGuarded applies a change that runs nothing new, and any change if only the
	// operator can write the file. It is the default.
	ReloadGuarded ReloadPolicy = "guarded"
	// ReloadAuto applies every change.
	ReloadAuto ReloadPolicy = "auto"
	// ReloadManual applies no change.
	ReloadManual ReloadPolicy = "manual"
)

// Auth configures authentication.
type Auth struct {
	// Tokens are the accepted bearer tokens.
	Tokens []Token `json:"tokens"`
	// Issuers are identity providers: their access tokens are accepted.
	Issuers []Issuer `json:"issuers"`
	// Certificates is how client certificates identify callers, or nil.
	Certificates *Certificates `json:"certificates"`
	// Proxy is a proxy that identifies callers by plain headers, or nil.
	Proxy *AuthProxy `json:"proxy"`
	// Browser is how the pages of the gateway identify their user, or nil.
	Browser *Browser `json:"browser"`
}

// IsZero reports whether there is no authentication.
func (a *Auth) IsZero() bool {
	return len(a.Tokens) == 0 && len(a.Issuers) == 0 && a.Certificates == nil && a.Proxy == nil
}

// Token is one bearer token. Several tokens may have one principal, so that a token can be
// replaced without an interruption.
type Token struct {
	// Principal is the identity of a caller with this token.
	Principal string `json:"principal"`
	// Env is the environment variable, and File the file, from which the token was
	// read. One of them is set.
	Env  string `json:"env"`
	File string `json:"file"`
	// Profiles are the only profiles that a caller with this token can use; nil means that
	// it can use everything.
	Profiles []string `json:"profiles"`
	// Value is the token itself.
	// It is left out when a Config is printed or encoded as JSON.
	Value Secret `json:"-"`
}

// State configures the protection of state that clients keep for the gateway: the states
// of requests that wait for input, and task IDs.
type State struct {
	// Keys are secrets of at least 32 bytes. The first one seals, and all of
	// them open. Without keys a random one is used, which no other process has.
	Keys []Secret `json:"keys"`
}

// Credentials configures where the gateway keeps what authorization servers have given it:
// grants of persons, and registrations of clients.
type Credentials struct {
	// Dir is the folder of the records. "" is one in the state folder of the user.
	Dir string `json:"dir"`
	// Keys are secrets of at least 32 bytes. The first one seals, and all of them open.
	// Without keys, one is made and kept by the keyring of the system, or else in a file.
	Keys []Secret `json:"keys"`
	// Orphans is whether to start where the folder has records that none of the keys opens:
	// "refuse", the default, or "allow", which signs their owners out.
	Orphans string `json:"orphans"`
}

// OrphansAllow is the value of Credentials.Orphans that allows them.
const OrphansAllow = "allow"

// Limits bounds the resources that clients and backends can use. Zero means the default of
// docs/config.md, and a negative value means no limit. Sizes are in bytes.
type Limits struct {
	// RequestBody and RequestHeaders are the sizes of a client's request.
	RequestBody    int64 `json:"requestBody"`
	RequestHeaders int64 `json:"requestHeaders"`
	// BackendMessage is the size of a message of a backend.
	BackendMessage int64 `json:"backendMessage"`
	// Schema is the size of the schema of a tool.
	Schema int64 `json:"schema"`
	// LogLine is the length of a line that a backend writes to standard error.
	LogLine int64 `json:"logLine"`

	// EventLog is the size of the events kept of one session's streams for a client that
	// resumes them, and EventLogs that of all sessions.
	EventLog  int64 `json:"eventLog"`
	EventLogs int64 `json:"eventLogTotal"`

	// Pending is the size of all responses that clients have not read yet, and
	// PendingPerPrincipal that of the responses for one principal.
	Pending             int64 `json:"pending"`
	PendingPerPrincipal int64 `json:"pendingPerPrincipal"`

	// Depth is how deep the values of a message may nest, and Members how many members
	// all its objects may have together.
	Depth   int `json:"depth"`
	Members int `json:"members"`
	// Batch is the number of messages in a batch.
	Batch int `json:"batch"`
	// ToolsPerBackend is the number of tools of one backend, and likewise of its
	// resources, templates and prompts. Pages is the number of pages of such a list.
	ToolsPerBackend int `json:"toolsPerBackend"`
	Pages           int `json:"pages"`
	// Rounds is how many times a backend may ask for input during one call.
	Rounds int `json:"rounds"`

	// Sessions is the number of sessions of legacy clients, and SessionsPerPrincipal that
	// of one principal.
	Sessions             int `json:"sessions"`
	SessionsPerPrincipal int `json:"sessionsPerPrincipal"`
	// StreamsPerSession is the number of GET requests that carry streams of one session.
	StreamsPerSession int `json:"streamsPerSession"`
	// InFlightPerSession is the number of requests of one session in flight, and
	// InFlightPerPrincipal that of one principal without a session.
	InFlightPerSession   int `json:"inFlightPerSession"`
	InFlightPerPrincipal int `json:"inFlightPerPrincipal"`
	// Parked is the number of requests of modern clients that wait for input.
	Parked int `json:"parked"`
	// Subscriptions is the number of resources that one session subscribes to.
	Subscriptions int `json:"subscriptions"`
	// BackendSessions is the number of sessions of one backend for clients without
	// sessions, and Processes the number of its processes for all clients.
	BackendSessions int `json:"backendSessions"`
	Processes       int `json:"processes"`

	// SessionIdle is how long a session lives without a request or an open stream, and
	// SessionUninitialized how long it lives without a completed handshake.
	SessionIdle          time.Duration `json:"sessionIdle"`
	SessionUninitialized time.Duration `json:"sessionUninitialized"`
	// EventRetention is how long the stream of a completed request is kept.
	EventRetention time.Duration `json:"eventRetention"`
	// CallIdle is how long a call may take without a message from the backend, and CallMax
	// how long it may take in total. They do not run while a client is asked for input.
	CallIdle time.Duration `json:"callIdle"`
	CallMax  time.Duration `json:"callMax"`
	// InputWait is how long a client may take to answer a question of a backend.
	InputWait time.Duration `json:"inputWait"`
	// FirstList is how long a list waits for backends that are starting. The default is
	// Handshake.
	FirstList time.Duration `json:"firstList"`
	// Connect is how long connecting to a backend may take, and Handshake how long its
	// handshake may take after that.
	Connect   time.Duration `json:"connect"`
	Handshake time.Duration `json:"handshake"`
	// Write is how long a client may take to read 16 KiB of a response.
	Write time.Duration `json:"write"`
	// HeaderRead is how long a client may take to send the header of a request.
	HeaderRead time.Duration `json:"headerRead"`
}

// Drain configures the shutdown.
type Drain struct {
	// Delay is how long requests are still accepted after the gateway has begun to
	// report that it is not ready, so that load balancers notice.
	Delay time.Duration `json:"delay"`
	// Spread is the time over which open streams are closed.
	Spread time.Duration `json:"spread"`
	// Timeout is how long running calls may take to end.
	Timeout time.Duration `json:"timeout"`
}

// Log configures the log on standard error.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `json:"level"`
	// Format is text or json.
	Format string `json:"format"`
	// Calls writes a record for each call. Nil means only where the log is a terminal.
	Calls *bool `json:"calls"`
}

// Metrics configures the metrics.
type Metrics struct {
	// Tools adds the names of tools to the durations of calls.
	Tools bool `json:"tools"`
}

// Audit configures the record of calls and of security events, such as access to what
// belongs to another principal. Unlike the log it is kept, and so has a file of its own.
type Audit struct {
	// File is the path of the file to which the record is appended. If it is empty,
	// security events are logged and calls are not recorded. A relative path in a file
	// has been joined to the folder of the file.
	File string `json:"file"`
}

// Effective returns a copy of c with the defaults filled in for fields that are zero. The
// copy shares slices and maps with c.
func (c *Config) Effective() *Config {
	// A copy: the original is compared with the next Config to find changes, and has to
	// differ from one with a configured value.
	filled := *c
	fill(configKeys(), reflect.ValueOf(&filled).Elem())
	filled.Limits.FirstList = cmp.Or(filled.Limits.FirstList, filled.Limits.Handshake)
	for i := range filled.Quotas { // a copy, which fill has made
		q := &filled.Quotas[i]
		q.Burst = cmp.Or(q.Burst, q.Calls.Calls)
	}
	return &filled
}
