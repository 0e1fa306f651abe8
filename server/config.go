// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Config configures a [Server]. The zero value serves loopback only, without
// authentication and with the documented limits. [New] reads it once, and it never
// changes.
type Config struct {
	// AllowedHosts are the values of the Host header that are accepted besides the names
	// and addresses of loopback and the address that the connection was made to. An entry
	// without a port matches any port; "*" matches every host, for an endpoint behind a
	// proxy that makes this check.
	AllowedHosts []string

	// AllowedOrigins are the origins of pages that may call, such as
	// "https://app.example", besides the endpoint's own. Their browsers are informed by
	// preflights and by the CORS headers of each response. A request without an Origin
	// header does not come from a page and passes.
	AllowedOrigins []string

	// Authenticate returns the identity of the sender of a request. Any error is answered
	// with 401, or as specified if it is a [Denial]. It is called for each request,
	// concurrently, and may return the same identity for several. If Authenticate is nil,
	// or returns nil, the request belongs to the anonymous principal. When an identity
	// expires, the streams that its sender has open for notifications end. A request under
	// way goes on.
	Authenticate func(*http.Request) (*mcp.Identity, error)

	// Challenge returns the WWW-Authenticate header for a request that is refused before
	// Authenticate is called, because of a token in its URL or credentials that are too
	// long. It is called concurrently. If nil, it is "Bearer".
	Challenge func(*http.Request) string

	// HasProfile reports whether the Handler has a profile of that name, which is not empty;
	// see WithProfile. It is called for each request to a profile, concurrently. If nil,
	// there are none.
	HasProfile func(name string) bool

	// NotFound answers requests to profiles that the Handler does not have, or that their
	// sender may not use. It should answer as the program does for a path at which nothing
	// is served. If nil, it is that of [http.NotFound].
	NotFound http.Handler

	// Limits bound what clients can make the server spend.
	Limits Limits

	// StateKeys seal the state that a modern client keeps while its request waits for
	// input, so that no other client can use it. They have no other use. Each has at
	// least 32 bytes. The first one seals and all of them open; servers that share them
	// accept each other's states. Without keys, a random one is used. The state that a
	// Handler returns to such a client is sealed, too, if there are keys, or
	// Authenticate.
	StateKeys [][]byte

	// KeepAlive is how long an open stream is idle before a comment is sent. Zero is
	// DefaultKeepAlive, negative is for ever.
	KeepAlive time.Duration

	// Grace is how long the header of a response is delayed so that the response can be
	// one JSON object with its own status. Zero is DefaultGrace, negative is no limit.
	Grace time.Duration

	// WriteTimeout is how long one write of a response may take before the client counts
	// as gone. The response as a whole may take any time. Zero is DefaultWriteTimeout,
	// negative is no limit.
	WriteTimeout time.Duration

	// StreamLife is how long one response carries a stream that its client can resume;
	// then the client is asked to reconnect for the rest. It applies to clients of
	// 2025-11-25. Zero or negative is no limit.
	StreamLife time.Duration

	// Spread is the time over which Shutdown ends listens and standalone streams, one
	// after another, so that their clients do not all reconnect at once. Zero or negative
	// is at once.
	Spread time.Duration

	// Remembers declares that the Handler remembers the lists that it reported to each
	// scope, and reports to one that listens again what has changed since. With any other
	// Handler, a client that resumes its standalone stream is notified that everything
	// may have changed.
	Remembers bool

	// PassArriving writes large results to clients over HTTP while they still arrive from
	// the backend of the Handler, if nothing in them has to change. It must not be set
	// for a Handler that inspects or changes the results of another Handler to which it
	// passes its own Caller: the result has been sent by then.
	PassArriving bool

	// Observe receives the events at the edge that the Handler does not see. It is called
	// on the goroutine that serves, concurrently, and must not block. It must take the
	// same time for a session of another principal as for an unknown one, so that clients
	// cannot distinguish them. If nil, events go to the Logger: requests of foreign pages
	// as warnings, all others at debug level.
	Observe func(context.Context, Event)

	// SessionEnded is called with the duration of a session that has ended. It must not
	// block. It may be nil.
	SessionEnded func(time.Duration)

	// Logger may be nil.
	Logger *slog.Logger
}

// The defaults of Config.
const (
	// DefaultKeepAlive is a quarter of the minute after which common proxies close an
	// idle connection.
	DefaultKeepAlive = 15 * time.Second

	// DefaultGrace is less than the time that any known client or proxy waits for a
	// header, and more than most calls take.
	DefaultGrace = 5 * time.Second

	// DefaultWriteTimeout ends a client that has stopped reading.
	DefaultWriteTimeout = 10 * time.Second
)

// Limits bound what clients can make a [Server] spend. A zero field is its default, a
// negative one is no limit.
type Limits struct {
	RequestBody          int64         // bytes of a request, and of a line on stdio: 4 MiB
	RequestHeaders       int           // bytes of a request's header: 64 KiB
	Depth, Members       int           // of a message's JSON: 128 and 100,000
	Batch                int           // messages in a batch (2025-03-26): 100
	Sessions             int           // legacy sessions: 20,000
	SessionsPerPrincipal int           // of one named principal: 100
	InFlightPerSession   int           // requests: 64
	InFlightPerPrincipal int           // requests without a session on HTTP, and as many listens: 1,024
	Subscriptions        int           // resources that a session is subscribed to: 1,000
	Parked               int           // requests of modern clients that wait for input: 1,000
	Rounds               int           // how often one request waits for input: 10
	StreamsPerSession    int           // GETs for one stream of a session: 16
	SessionIdle          time.Duration // life without activity: 30 min
	SessionUninitialized time.Duration // life without a first message: 30 s
	InputWait            time.Duration // for a client to answer a question: 10 min
	EventLog             int64         // bytes that a session retains for a client that resumes: 1 MiB
	EventLogs            int64         // bytes that all sessions retain: 256 MiB
	Pending              int64         // bytes of answers that clients have not read: 128 MiB
	PendingPerPrincipal  int64         // bytes of those of one principal: 64 MiB
	EventRetention       time.Duration // how long these are retained once the request has ended: 5 min
}

// effective returns the configuration with all defaults filled in.
func (c Config) effective() Config {
	c.KeepAlive = limit(c.KeepAlive, DefaultKeepAlive, never)
	c.Grace = limit(c.Grace, DefaultGrace, never)
	// A large piece has several times as long, which must not overflow.
	c.WriteTimeout = min(limit(c.WriteTimeout, DefaultWriteTimeout, never), never/(largePiece/slowPiece))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.NotFound == nil {
		c.NotFound = http.NotFoundHandler()
	}
	if c.Challenge == nil {
		c.Challenge = func(*http.Request) string { return bearer }
	}
	if c.SessionEnded == nil {
		c.SessionEnded = func(time.Duration) {}
	}
	if c.Observe == nil {
		c.Observe = logEvents(c.Logger)
	}
	l, table, sess := &c.Limits, session.DefaultTableLimits(), session.DefaultLimits()
	l.RequestBody = limit(l.RequestBody, 4<<20, noCount)
	l.RequestHeaders = limit(l.RequestHeaders, 64<<10, noCount)
	l.Batch = limit(l.Batch, 100, noCount)
	l.Sessions = limit(l.Sessions, table.Total, noCount)
	l.SessionsPerPrincipal = limit(l.SessionsPerPrincipal, table.PerPrincipal, noCount)
	l.InFlightPerSession = limit(l.InFlightPerSession, sess.Exchanges, noCount)
	// Generous, because without authentication all clients are one principal.
	l.InFlightPerPrincipal = limit(l.InFlightPerPrincipal, 1024, noCount)
	// More than any user interface shows.
	l.Subscriptions = limit(l.Subscriptions, 1000, noCount)
	l.Parked = limit(l.Parked, 1000, noCount)
	l.Rounds = limit(l.Rounds, 10, noCount)
	l.StreamsPerSession = limit(l.StreamsPerSession, sess.Streams, noCount)
	l.SessionIdle = limit(l.SessionIdle, table.Idle, never)
	l.SessionUninitialized = limit(l.SessionUninitialized, table.Fresh, never)
	l.InputWait = limit(l.InputWait, 10*time.Minute, never)
	l.EventLog = limit(l.EventLog, int64(sess.LogBytes), noCount)
	// A quarter of the memory of a small machine.
	l.EventLogs = limit(l.EventLogs, 256<<20, math.MaxInt64)
	// This leaves as much again to the garbage collector of a process that has 1 GiB. One
	// principal may have four of the largest answers.
	l.Pending = limit(l.Pending, 128<<20, math.MaxInt64)
	l.PendingPerPrincipal = limit(l.PendingPerPrincipal, 64<<20, math.MaxInt64)
	l.EventRetention = limit(l.EventRetention, sess.LogKeep, never)
	return c
}

func (l *Limits) table() session.TableLimits {
	rest := session.DefaultTableLimits()
	return session.TableLimits{
		Total:        l.Sessions,
		PerPrincipal: l.SessionsPerPrincipal,
		Idle:         l.SessionIdle,
		Fresh:        l.SessionUninitialized,
		Rest:         min(rest.Rest, l.SessionIdle),
		FreshRest:    min(rest.FreshRest, l.SessionUninitialized),
	}
}

func (l *Limits) session() session.Limits {
	sl := session.DefaultLimits()
	sl.Exchanges = l.InFlightPerSession
	sl.Streams = l.StreamsPerSession
	sl.LogBytes = int(l.EventLog)
	sl.LogKeep = l.EventRetention
	return sl
}

// principalShare is the fraction of the parked requests that one principal may have, so
// that a client that leaves its questions unanswered does not block the others.
const principalShare = 4

func (l *Limits) parked() session.ParkedLimits {
	return session.ParkedLimits{
		Total:        l.Parked,
		PerPrincipal: max(l.Parked/principalShare, 1),
		Rounds:       l.Rounds,
		Asks:         session.DefaultLimits().Asks,
		Wait:         l.InputWait,
	}
}

func (l *Limits) message() mcp.Limits {
	return mcp.Limits{Depth: limit(l.Depth, 0, noCount), Members: limit(l.Members, 0, noCount)}
}

// The values for no limit: they are never reached, and can be added to without overflow.
const (
	noCount = math.MaxInt32
	never   = 100 * 365 * 24 * time.Hour
)

// limit returns the limit for the configured value v.
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
