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

// Config says how a [Server] serves. The zero value serves loopback only, to
// anybody on it, with the documented limits. It is read once, by [New], and never
// changed.
type Config struct {
	// AllowedHosts are the values of the Host header that are served besides
	// the names and addresses of loopback and the address that the connection
	// was made to. An entry without a port goes with any port; "*" is every
	// host, for an endpoint behind a proxy that checks by itself.
	AllowedHosts []string

	// AllowedOrigins are the origins whose pages may call, such as
	// "https://app.example", besides the endpoint's own. Their browsers are told
	// so, by preflights and by the CORS headers of each answer. A request without
	// an Origin header comes from no page and passes.
	AllowedOrigins []string

	// Authenticate returns who sends a request. Any error is answered with 401;
	// a [Denial] says how. It is called for each request, concurrently. nil is
	// an endpoint of one anonymous principal.
	Authenticate func(*http.Request) (principal string, err error)

	// Limits bound what clients can make the server spend.
	Limits Limits

	// StateKeys seal what a modern client keeps while its request waits for input,
	// so that nobody else can use it, and for nothing else. Each has at least 32
	// bytes. The first one seals and all of them open; servers that share them
	// understand each other's. None is a random one. What a Handler gives such a client
	// to keep is sealed, too, where there are keys, or Authenticate.
	StateKeys [][]byte

	// KeepAlive is how long an open stream stays silent before it gets a
	// comment. Zero is DefaultKeepAlive, negative is for ever.
	KeepAlive time.Duration

	// Grace is how long the header of an answer is held back in the hope that
	// the answer is one JSON object with a status of its own. Zero is
	// DefaultGrace, negative is until then.
	Grace time.Duration

	// WriteTimeout is how long one piece of an answer may take before its client
	// counts as gone. The answer as a whole may take any time. Zero is
	// DefaultWriteTimeout, negative is no limit.
	WriteTimeout time.Duration

	// StreamLife is how long one response carries a stream that its client can
	// come back to; then the client is told to come back for the rest. It applies
	// to clients of 2025-11-25. Zero or negative is no end.
	StreamLife time.Duration

	// Spread is the time over which Shutdown ends listens and standalone
	// streams, one after another, so that their clients do not all come back at
	// once. Zero or negative is at once.
	Spread time.Duration

	// Remembers says that the Handler knows what each scope was told of its lists,
	// and tells one that listens again what has changed since. Of any other, a client
	// that comes back to its standalone stream is told that all may have changed.
	Remembers bool

	// PassArriving gives large results to clients over HTTP while they still arrive
	// from the server that the Handler has asked, where nothing of them is to be
	// changed. A Handler that wants to see the results of another, or to change them,
	// and gives it its own caller to answer, must not set this: what it looks at then has
	// gone by. See [mcp.Receiver].
	PassArriving bool

	// Observe is told of what happens at the edge before a Handler is reached.
	// It is called on the goroutine that serves, concurrently, and must not
	// block; so that nobody can tell by the time it takes whether a session is
	// another's or none at all, it must do the same for both. nil is the Logger:
	// requests of foreign pages as warnings, all else for debugging.
	Observe func(context.Context, Event)

	// Logger may be nil.
	Logger *slog.Logger
}

// The defaults of Config.
const (
	// DefaultKeepAlive is a quarter of the minute after which the usual proxies
	// close a silent connection.
	DefaultKeepAlive = 15 * time.Second

	// DefaultGrace is less than any client or proxy waits for a header that is
	// known to wait at all, and more than most calls take.
	DefaultGrace = 5 * time.Second

	// DefaultWriteTimeout ends a client that has stopped to read.
	DefaultWriteTimeout = 10 * time.Second
)

// Limits bound what clients can make a [Server] spend. A zero field is its
// default, a negative one is no limit.
type Limits struct {
	RequestBody          int64         // bytes of a request, and of a line on stdio: 4 MiB
	RequestHeaders       int           // bytes of a request's header: 64 KiB
	Depth, Members       int           // of a message's JSON: 128 and 100,000
	Batch                int           // messages in a batch (2025-03-26): 100
	Sessions             int           // legacy sessions: 20,000
	SessionsPerPrincipal int           // of one named principal: 100
	InFlightPerSession   int           // requests: 64
	InFlightPerPrincipal int           // requests without a session on HTTP, and listens besides: 1,024
	Subscriptions        int           // resources that a session is subscribed to: 1,000
	Parked               int           // requests of modern clients that wait for input: 1,000
	Rounds               int           // how often one request waits for input: 10
	StreamsPerSession    int           // GETs for one stream of a session: 16
	SessionIdle          time.Duration // life without activity: 30 min
	SessionUninitialized time.Duration // life without a first message: 30 s
	InputWait            time.Duration // for a client to answer what it is asked: 10 min
	EventLog             int64         // bytes that a session keeps for a client that comes back: 1 MiB
	EventLogs            int64         // bytes that all sessions keep so: 256 MiB
	Pending              int64         // bytes of answers that clients have not read: 128 MiB
	PendingPerPrincipal  int64         // bytes of those of one principal: 64 MiB
	EventRetention       time.Duration // for which that is kept once its request has ended: 5 min
}

const (
	defaultBody  = 4 << 20
	defaultHead  = 64 << 10
	defaultBatch = 100

	// defaultInFlight is generous, because everybody is one principal where
	// nobody is authenticated.
	defaultInFlight = 1024

	// defaultLogs is a quarter of what a small machine has.
	defaultLogs = 256 << 20

	// defaultPending leaves as much again to the garbage collector of a process that has
	// 1 GiB, and defaultPendingPerPrincipal holds four of the largest answers.
	defaultPending             = 128 << 20
	defaultPendingPerPrincipal = 64 << 20

	// defaultSubscriptions is more than any window shows.
	defaultSubscriptions = 1000

	defaultParked    = 1000
	defaultRounds    = 10
	defaultInputWait = 10 * time.Minute

	// maxIdentity bounds what a session keeps of its client's own description.
	maxIdentity = 64 << 10

	// askDelivery is how long a question that belongs to no request waits for
	// the client to open a stream for it.
	askDelivery = 10 * time.Second

	// lastWords is how long the results of requests in flight are still waited
	// for when a pipe has reached its end, and how long drain on a pipe is.
	finishGrace = 2 * time.Second
)

// effective returns the configuration with all defaults filled in.
func (c Config) effective() Config {
	c.KeepAlive = limit(c.KeepAlive, DefaultKeepAlive, never)
	c.Grace = limit(c.Grace, DefaultGrace, never)
	c.WriteTimeout = limit(c.WriteTimeout, DefaultWriteTimeout, never)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = logEvents(c.Logger)
	}
	l, t := &c.Limits, session.DefaultTableLimits()
	l.RequestBody = limit(l.RequestBody, defaultBody, noCount)
	l.RequestHeaders = limit(l.RequestHeaders, defaultHead, noCount)
	l.Batch = limit(l.Batch, defaultBatch, noCount)
	l.Sessions = limit(l.Sessions, t.Total, noCount)
	l.SessionsPerPrincipal = limit(l.SessionsPerPrincipal, t.PerPrincipal, noCount)
	l.InFlightPerSession = limit(l.InFlightPerSession, session.DefaultLimits().Exchanges, noCount)
	l.InFlightPerPrincipal = limit(l.InFlightPerPrincipal, defaultInFlight, noCount)
	l.Subscriptions = limit(l.Subscriptions, defaultSubscriptions, noCount)
	l.StreamsPerSession = limit(l.StreamsPerSession, session.DefaultLimits().Streams, noCount)
	l.Parked = limit(l.Parked, defaultParked, noCount)
	l.Rounds = limit(l.Rounds, defaultRounds, noCount)
	l.InputWait = limit(l.InputWait, defaultInputWait, never)
	l.SessionIdle = limit(l.SessionIdle, t.Idle, never)
	l.SessionUninitialized = limit(l.SessionUninitialized, t.Fresh, never)
	l.EventLog = limit(l.EventLog, int64(session.DefaultLimits().LogBytes), noCount)
	l.EventLogs = limit(l.EventLogs, defaultLogs, math.MaxInt64)
	l.Pending = limit(l.Pending, defaultPending, math.MaxInt64)
	l.PendingPerPrincipal = limit(l.PendingPerPrincipal, defaultPendingPerPrincipal, math.MaxInt64)
	l.EventRetention = limit(l.EventRetention, session.DefaultLimits().LogKeep, never)
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

func (l *Limits) message() mcp.Limits {
	return mcp.Limits{Depth: limit(l.Depth, 0, noCount), Members: limit(l.Members, 0, noCount)}
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
