// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/internal/revision"
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

	// Transport sends the HTTP requests. If nil, the Client makes its own, with the
	// time limits below. Redirects are never followed.
	Transport http.RoundTripper

	// Version fixes the revision, and with it the era: the server is not probed.
	Version mcp.Version

	// Share declares that the server keeps no state for a session. All clients then use
	// one session, or one process, of a legacy server.
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
	// a handshake.
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

	// ProcessLevel is the level of the log records about a process: its start, its end,
	// and its standard error. 0 is [slog.LevelInfo].
	ProcessLevel slog.Level

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

	// Logger may be nil.
	Logger *slog.Logger
}

// setup is a Config with the defaults applied.
type setup struct {
	Config
	log     *slog.Logger
	secrets *redact.Redactor // must not be logged; set before the first request
	badInfo error            // why Info is not a JSON object, or nil

	// awaitRetry waits before the n-th resend of a request that was not sent. It
	// reports false if the request must not be sent again. All protocols share the
	// Client's retry budget.
	awaitRetry func(ctx context.Context, n int) bool

	// recheck starts a probe of the server, without waiting for it. Set by the Client.
	recheck func()

	// otherOutput is the first line of a process's standard output that was not a
	// message, redacted. It is nil if every line was a message. It concerns the process
	// started last.
	otherOutput atomic.Pointer[string]

	// hurried is closed when processes must end without further delay.
	hurried chan struct{}
}

func newSetup(cfg Config) *setup {
	s := &setup{Config: cfg, log: cfg.Logger, recheck: func() {}, hurried: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.Announced == nil {
		s.Announced = func(*mcp.Scope, bool) {}
	}
	s.secrets = redact.New(cfg.Header, nil)
	s.log = slog.New(redact.Around(s.log.Handler(), func() *redact.Redactor { return s.secrets })).With(slog.String("backend", cfg.Name))
	s.Header = cfg.Header.Clone()
	if len(s.Info) == 0 {
		s.Info = []byte(`{"name":"signalbox","version":"dev"}`)
	}
	_, s.badInfo = mcp.ParseObject(s.Info)
	s.Connect = limit(cfg.Connect, 10*time.Second, never)
	s.Handshake = limit(cfg.Handshake, 30*time.Second, never)
	s.Stop = limit(cfg.Stop, 5*time.Second, never)
	s.Write = limit(cfg.Write, 10*time.Second, never)
	s.MaxMessage = limit(cfg.MaxMessage, 16<<20, noCount)
	s.MaxSessions = limit(cfg.MaxSessions, 64, noCount)
	s.IdleSessions = limit(cfg.IdleSessions, s.MaxSessions, noCount)
	s.MaxProcesses = limit(cfg.MaxProcesses, 64, noCount)
	s.MaxRounds = limit(cfg.MaxRounds, 10, noCount)
	s.MaxLogLine = limit(cfg.MaxLogLine, 8<<10, noCount)
	s.IdleTime = limit(cfg.IdleTime, time.Minute, never)
	return s
}

// Values of a limit that does not exist. No count or duration reaches them, and adding
// to them does not overflow.
const (
	noCount = math.MaxInt32
	never   = 100 * 365 * 24 * time.Hour
)

// limit returns v, or def if v is zero, or none if v is negative.
func limit[T ~int | ~int64](v, def, none T) T {
	switch {
	case v < 0:
		return none
	case v == 0:
		return def
	default:
		return v
	}
}

// self returns the peer for requests of the gateway itself.
func (s *setup) self() *mcp.Peer { return &mcp.Peer{Version: mcp.LatestModern, Info: s.Info} }

// infoOf returns the Implementation object to present for a client.
func (s *setup) infoOf(p *mcp.Peer) []byte {
	if p == nil || len(p.Info) == 0 {
		return s.Info
	}
	return p.Info
}

// capabilitiesOf returns the capabilities object to present for a client to a server of
// the revision.
func capabilitiesOf(p *mcp.Peer, v mcp.Version) []byte {
	if p == nil {
		return []byte("{}")
	}
	return revision.ClientCapabilities(p.Version, v, p.Capabilities)
}
