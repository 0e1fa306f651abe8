// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

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

// Config has the fields of client.Config, which documents them.
type Config struct {
	Name        string
	Header      http.Header
	Credentials Credentials
	Redact      []string
	Transport   http.RoundTripper

	Version   mcp.Version
	Share     bool
	OneClient bool
	Info      []byte

	Connect, Handshake, Write time.Duration
	Stop                      time.Duration

	MaxMessage                int
	MaxSessions, IdleSessions int
	IdleTime                  time.Duration
	MaxProcesses              int
	MaxRounds                 int
	MaxLogLine                int
	LoginPath                 func(context.Context) string
	ProcessLevel              slog.Level
	RestSessions              bool

	Announced    func(scope *mcp.Scope, ended bool)
	SessionEnded func(time.Duration)
	Logger       *slog.Logger
}

// Setup is a Config with the defaults applied.
type Setup struct {
	Config
	Log     *slog.Logger
	Secrets *redact.Redactor // must not be logged; set before the first request
	BadInfo error            // why Info is not a JSON object, or nil

	recent *redact.Recent // what Credentials have given; part of Secrets

	// AwaitRetry waits before the n-th resend of a request that was not sent. It
	// reports false if the request must not be sent again. All protocols share the
	// Client's retry budget.
	AwaitRetry func(ctx context.Context, n int) bool

	// Recheck starts a probe of the server on behalf of the sender of a request, without
	// waiting for it. Set by the Client.
	Recheck func(*mcp.Request)

	// OtherOutput is the first line of a process's standard output that was not a
	// message, redacted. It is nil if every line was a message. It concerns the process
	// started last.
	OtherOutput atomic.Pointer[string]

	// Starts is how many processes were started.
	Starts atomic.Uint64

	// Opened is how the latest process became ready. It is nil before the first.
	Opened atomic.Pointer[Opening]

	// Hurried is closed when processes must end without further delay.
	Hurried chan struct{}
}

// NewSetup returns the setup of cfg. A negative limit means no limit, and zero is its default.
func NewSetup(cfg Config) *Setup {
	s := &Setup{Config: cfg, Log: cfg.Logger, Recheck: func(*mcp.Request) {}, Hurried: make(chan struct{})}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Announced == nil {
		s.Announced = func(*mcp.Scope, bool) {}
	}
	if s.SessionEnded == nil {
		s.SessionEnded = func(time.Duration) {}
	}
	if cfg.Credentials != nil {
		s.recent = new(redact.Recent)
	}
	s.SetSecrets(redact.New(cfg.Header, nil))
	s.Log = slog.New(redact.Around(s.Log.Handler(), func() *redact.Redactor { return s.Secrets })).With(slog.String("backend", cfg.Name))
	s.Header = cfg.Header.Clone()
	if len(s.Info) == 0 {
		s.Info = []byte(`{"name":"signalbox","version":"dev"}`)
	}
	_, s.BadInfo = mcp.ParseObject(s.Info)
	s.Connect = limit(cfg.Connect, 10*time.Second, Never)
	s.Handshake = limit(cfg.Handshake, 30*time.Second, Never)
	s.Stop = limit(cfg.Stop, 5*time.Second, Never)
	s.Write = limit(cfg.Write, 10*time.Second, Never)
	s.MaxMessage = limit(cfg.MaxMessage, 16<<20, noCount)
	s.MaxSessions = limit(cfg.MaxSessions, 64, noCount)
	s.IdleSessions = limit(cfg.IdleSessions, s.MaxSessions, noCount)
	s.MaxProcesses = limit(cfg.MaxProcesses, 64, noCount)
	s.MaxRounds = limit(cfg.MaxRounds, 10, noCount)
	s.MaxLogLine = limit(cfg.MaxLogLine, 8<<10, noCount)
	s.IdleTime = limit(cfg.IdleTime, time.Minute, Never)
	return s
}

// SetSecrets sets Secrets to r and what is to be removed in any case. It must be called before
// the first request.
func (s *Setup) SetSecrets(r *redact.Redactor) {
	s.Secrets = r.With(s.Config.Redact...).And(s.recent)
}

// Values of a limit that does not exist. No count or duration reaches them, and adding
// to them does not overflow.
const (
	noCount = math.MaxInt32
	Never   = 100 * 365 * 24 * time.Hour
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

// Self returns the peer for requests of the gateway itself.
func (s *Setup) Self() *mcp.Peer { return &mcp.Peer{Version: mcp.LatestModern, Info: s.Info} }

// InfoOf returns the Implementation object to present for a client.
func (s *Setup) InfoOf(p *mcp.Peer) []byte {
	if p == nil || len(p.Info) == 0 {
		return s.Info
	}
	return p.Info
}

// CapabilitiesOf returns the capabilities object to present for a client to a server of
// the revision.
func CapabilitiesOf(p *mcp.Peer, v mcp.Version) []byte {
	if p == nil {
		return []byte("{}")
	}
	caps := revision.ClientCapabilities(p.Version, v, p.Capabilities)
	if p.PassesExtensions {
		return revision.WithExtensions(caps, p.Capabilities)
	}
	return caps
}

// OtherOutputText describes the first invalid line of a process's output, or is empty.
func (s *Setup) OtherOutputText() string {
	line := s.OtherOutput.Load()
	if line == nil {
		return ""
	}
	return "it wrote \"" + *line + "\" to its output, which is not a message"
}
