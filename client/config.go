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

// Config says how a Client speaks to its server. The zero value is ready; a
// Client keeps a copy and never changes what it refers to. A limit that is zero
// has its default, and one that is negative does not exist.
type Config struct {
	// Name is the configured name of the backend. It stands in every error.
	Name string

	// Header is sent with every HTTP request. What the protocol itself needs to
	// say in a header wins.
	Header http.Header

	// Transport carries the HTTP requests. nil is one of the Client's own, with
	// the time limits below. Redirects are never followed.
	Transport http.RoundTripper

	// Version retained the revision, and with it the era: the server is not probed.
	Version mcp.Version

	// Share is the operator's word that the server keeps no state for a session:
	// a legacy server gets one session, or one process, for everybody.
	Share bool

	// OneClient says that all requests come from one client, as on stdio. What it does
	// without a scope, and what is done in a scope without an address of its own, as lists
	// are fetched, is then done in one session, but for calls beside each other.
	OneClient bool

	// Info is our Implementation object, for requests whose client says nothing of
	// itself. None names Signalbox. With one that is no JSON object nothing is asked,
	// and each request fails.
	Info []byte

	// Connect bounds the making of a connection (0: 10 s), Handshake the first
	// answer of a server (0: 30 s), Write each write (0: 10 s).
	Connect, Handshake, Write time.Duration

	// Stop is how long a child process is given at each step of its end: after
	// its input was closed, and after it was asked to end. 0 is 5 s.
	Stop time.Duration

	// MaxMessage is the size in bytes of the largest message that is taken from
	// the server. 0 is 16 MiB.
	MaxMessage int

	// MaxSessions bounds the legacy sessions without a scope that are open at a
	// time (0: 64), IdleSessions how many of them are kept for the next
	// request (0: all), and IdleTime for how long (0: 1 min). With fewer kept than
	// requests are under way at a time, each request costs a handshake.
	MaxSessions, IdleSessions int
	IdleTime                  time.Duration

	// MaxProcesses bounds the child processes, or pipes, that are open at a time,
	// whatever for (0: 64); one more may be there for what no client has asked for.
	// At the bound an idle one makes room: one without a scope first, then that of
	// the scope which was longest unused, if its owner yields (mcp.Scope.Yield).
	MaxProcesses int

	// MaxRounds bounds how often a modern server may ask for input during one
	// request (0: 10).
	MaxRounds int

	// MaxLogLine is how many bytes of a line on a child's standard error are
	// logged (0: 8 KiB); the others are counted.
	MaxLogLine int

	// ProcessLevel is the level of the log records about what a process writes to its
	// standard error, and about its start and end. 0 is [slog.LevelInfo].
	ProcessLevel slog.Level

	// Announced is called when a legacy server tells a session of one client that a
	// list has changed, and, with ended set, when that session ends: what it alone had
	// is gone. The scope is the client's; nil if the session is one of those that are
	// lent to requests without a scope, whose end is told of with OneClient alone. Some
	// servers tell only the session in which something was done, and mean all; others mean
	// that session alone.
	//
	// It is called before the messages that follow on the same stream are handed on:
	// who has the result of a call was announced what the call has changed. It must
	// return at once, and must not call the Client. May be nil.
	Announced func(scope *mcp.Scope, ended bool)

	// Logger may be nil.
	Logger *slog.Logger
}

// setup is a Config with the defaults applied.
type setup struct {
	Config
	log     *slog.Logger
	secrets *redact.Redactor // what no log may hold; set before the first request
	badInfo error            // why Info is no JSON object, or nil

	// again waits until a request that never left may be sent again, for the n-th
	// time, and reports false when it may not. It is the Client's, who has one
	// budget for all of them.
	awaitRetry func(ctx context.Context, n int) bool

	// recheck has the server probed, without waiting. It is the Client's too.
	recheck func()

	// otherOutput is the first line on a process's output that was no message, as it may be
	// redactPrefix; nil where there was none. It is of the process that was started last.
	otherOutput atomic.Pointer[string]

	// hurried is closed when the processes get no more time to end.
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

// What stands for no limit: nothing reaches it, and it can be added to without
// overflow.
const (
	noCount = math.MaxInt32
	never   = 100 * 365 * 24 * time.Hour
)

// limit returns the limit that v stands for.
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

// self is what we say of ourselves when a request has no client.
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
