// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Config configures a Client. The zero value is ready to use. A Client keeps a copy and
// does not change what the Config refers to. A limit of zero means its default, and a
// negative limit means none.
type Config struct {
	// Name is the configured name of the backend. It appears in every error.
	Name string

	// Header is sent with every HTTP request. Headers that the protocol defines take
	// precedence.
	Header http.Header

	// Credentials gives what is sent with an HTTP request beside Header. It may be nil.
	Credentials Credentials

	// Redact are texts that are removed from logs and errors, besides the credentials in
	// Header, in variables and in the URL. Texts of fewer than eight bytes stay.
	Redact []string

	// Transport sends the HTTP requests. If nil, the Client makes its own, with the
	// time limits below. Redirects are never followed.
	Transport http.RoundTripper

	// Version fixes the revision, and with it the era: the server is not probed.
	Version mcp.Version

	// Share declares that the server keeps no state for a session. All clients then use
	// one session, or one process, of a legacy server. It has no effect if Credentials are
	// per principal.
	Share bool

	// OneClient declares that all requests come from one client, as on stdio. Requests
	// without a scope, and requests in a scope that has no address of its own, such as
	// those that fetch lists, then share one session, except for calls that run
	// concurrently.
	OneClient bool

	// Info is the gateway's Implementation object, sent for requests without a client
	// that identifies itself. If empty, it names Signalbox. If it is not a JSON object,
	// every request fails before anything is sent.
	Info []byte

	// Connect limits the time to connect (0: 10 s), Handshake the time to a server's
	// first response (0: 30 s), and Write the time of each write (0: 10 s).
	Connect, Handshake, Write time.Duration

	// Stop is how long a child process may take at each step of its shutdown: after its
	// input is closed, and after it is asked to terminate (0: 5 s).
	Stop time.Duration

	// MaxMessage is the size in bytes of the largest message that the server may send
	// (0: 16 MiB).
	MaxMessage int

	// MaxSessions limits the open legacy sessions without a scope (0: 64), IdleSessions
	// how many of them are kept idle for later requests (0: all), and IdleTime how long
	// (0: 1 min). If fewer are kept than requests run concurrently, each request costs
	// a handshake. If Credentials are per principal, IdleSessions limits those of each
	// principal, and MaxSessions all.
	MaxSessions, IdleSessions int
	IdleTime                  time.Duration

	// MaxProcesses limits the open child processes, or pipes, whatever their purpose
	// (0: 64). One more may be open for requests of the gateway itself. At the limit an
	// idle one is closed to make room: first one without a scope, then the one with the
	// least recently used scope, if the scope's owner agrees (mcp.Scope.Yield).
	MaxProcesses int

	// MaxRounds limits how often a modern server may request input during one request
	// (0: 10).
	MaxRounds int

	// MaxLogLine is how many bytes of a line on a child's standard error are logged (0:
	// 8 KiB). The rest is counted.
	MaxLogLine int

	// LoginPath returns the PATH of the user's login shell, or "". A Command's program that
	// is not in the PATH of this process is looked for there, and gets the folders of that
	// PATH before those of this process, unless Command.Env sets PATH. It is called for each
	// start of such a program, and may block until ctx ends. If nil, the PATH of this
	// process is the only one.
	LoginPath func(ctx context.Context) string

	// ProcessLevel is the level of the log records about a process: its start, its end,
	// and its standard error. 0 is [slog.LevelInfo].
	ProcessLevel slog.Level

	// RestSessions makes Rest end also the sessions in which a client has made calls.
	RestSessions bool

	// Announced is called when a legacy server notifies a session of one client that a
	// list has changed, and, with ended set, when that session ends and its own list
	// items are gone. scope is the client's. It is nil for a session that is lent to
	// requests without a scope; the end of such a session is reported only with
	// OneClient. Some servers notify only the session in which the change was made,
	// though it concerns all; others mean that session alone.
	//
	// Announced is called before later messages of the same stream are delivered, so
	// that the result of a call arrives after the changes that the call made. It must
	// return quickly and must not call the Client. It may be nil.
	Announced func(scope *mcp.Scope, ended bool)

	// SessionEnded is called with the duration of a session with a legacy server that has
	// ended. It must not block. It may be nil.
	SessionEnded func(time.Duration)

	// Logger may be nil.
	Logger *slog.Logger
}

// Command is a server that is started as a child process and uses its standard input
// and output.
//
// The server ends with the process that was started: what that process leaves behind in
// its process group is killed at once. A wrapper must therefore run for as long as the
// server that it starts, or replace itself by it (exec). A daemon in a session of its
// own is neither killed nor used.
type Command struct {
	Path string   // as for os/exec: a path, or a name to look up in PATH
	Args []string // without the program name
	Dir  string   // "" means the current directory

	// Env holds variables in the form "KEY=value" for the child, in addition to the few
	// variables of this process that every program needs. The child gets no other
	// variables.
	Env []string

	// Memory is how much resident memory, in bytes, a process may use together with what
	// it has started. One that uses more is killed. Zero is no limit. The limit applies
	// where [MeasuresMemory] reports true.
	Memory int64

	// Direct starts the program of an npm package without npx, where npx has installed it
	// and would do nothing else. A process that ends without output is started by npx the
	// next time.
	Direct bool
}

func (c Config) setup() *call.Setup { return call.NewSetup(c.below()) }

// below returns the configuration for the packages below; its type there has the same fields.
func (c Config) below() call.Config {
	below := call.Config{
		Name: c.Name, Header: c.Header, Redact: c.Redact, Transport: c.Transport,
		Version: c.Version, Share: c.Share, OneClient: c.OneClient, Info: c.Info,
		Connect: c.Connect, Handshake: c.Handshake, Write: c.Write, Stop: c.Stop,
		MaxMessage: c.MaxMessage, MaxSessions: c.MaxSessions, IdleSessions: c.IdleSessions, IdleTime: c.IdleTime,
		MaxProcesses: c.MaxProcesses, MaxRounds: c.MaxRounds, MaxLogLine: c.MaxLogLine,
		LoginPath: c.LoginPath, ProcessLevel: c.ProcessLevel, RestSessions: c.RestSessions,
		Announced: c.Announced, SessionEnded: c.SessionEnded, Logger: c.Logger,
	}
	if c.Credentials != nil {
		below.Credentials = credentialsOf{c.Credentials}
	}
	return below
}
