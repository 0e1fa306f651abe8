// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backend keeps one backend of the gateway: what it offers, as the last
// list that it answered, and the calls to it, each with its deadline.
//
// A Backend follows its server by itself. It asks for the lists, listens for
// changes where the server announces them, asks again, and comes back after a
// failure. Nobody waits for that but the first list of all: a call goes straight
// to the server and a list is what is known now.
package backend

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Config says what a Backend is made of. It is not changed.
type Config struct {
	// Name is the configured name, for errors and the log.
	Name string

	// Handler is the server: a client of it, or a Handler in this process.
	Handler mcp.Handler

	// Info is the gateway's Implementation object, for the requests that the
	// gateway makes on its own behalf.
	Info []byte

	// Sole, if not nil, waits for the only client that the Backend serves, and returns
	// false when ctx ends first. The lists are then those that this client is shown,
	// fetched in its own session. It is called once.
	Sole func(ctx context.Context) (Client, bool)

	// Idle ends a call on which nothing moved for so long, Max ends any call.
	// Zero is DefaultIdle and DefaultMax; negative is no limit.
	Idle, Max time.Duration

	// Handshake ends the first request, which a server may answer only when it has
	// started. Zero is DefaultIdle; negative is no limit.
	Handshake time.Duration

	// MaxKey names what Max was configured by, for the error of a call that it
	// ended. "" is DefaultMaxKey.
	MaxKey string

	// MaxItems and MaxPages bound each list. Zero is DefaultMaxItems and
	// DefaultMaxPages; negative is no limit.
	MaxItems, MaxPages int

	// Last is what the same server offered to another Backend, nil for none. It is
	// offered as stale until this one has reached the server.
	Last *Offer

	// Changed is called after each change of the Offer. It must not block.
	Changed func()

	// Late, if not nil, is told how late a timer has fired, about once a second while there
	// are calls. It must not block.
	Late func(time.Duration)

	// Turn waits until the server may be started, or ctx ends, and returns what is called
	// when its lists are known or it has failed. nil: at once.
	Turn func(ctx context.Context) (done func())

	// Logger may be nil.
	Logger *slog.Logger
}

// Client is on whose behalf lists are fetched.
type Client struct {
	Peer      *mcp.Peer
	Principal string
	Scope     *mcp.Scope // nil if the client has no session
}

// unrelated is what asks the client outside its requests, nil where it cannot be asked.
func (c *Client) unrelated() mcp.Caller {
	if c.Scope == nil {
		return nil
	}
	return c.Scope.Unrelated()
}

// The defaults of Config.
const (
	DefaultIdle     = 60 * time.Second
	DefaultMax      = 10 * time.Minute
	DefaultMaxItems = 2000
	DefaultMaxPages = 200
	DefaultMaxKey   = "limits.callMax"
)

// Backend is one backend. Its methods may be called concurrently.
type Backend struct {
	cfg     Config
	log     *slog.Logger
	limits  *limits
	offer   atomic.Pointer[Offer]
	refresh chan struct{} // capacity 1: the lists are wanted afresh
	settled chan struct{} // closed after the first attempt to learn the lists
	began   atomic.Pointer[time.Time]
	changes changeCount

	// Run's.
	failures [catalog.NumKinds]listFailure
	answered listSet
}

// New returns a Backend that offers nothing yet, or what Last did. Run makes it live.
func New(cfg Config) *Backend {
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	b := &Backend{
		cfg:     cfg,
		log:     logger.With(slog.String("backend", cfg.Name)),
		limits:  newLimits(&cfg),
		refresh: make(chan struct{}, 1),
		settled: make(chan struct{}),
	}
	b.cfg.MaxKey = cmp.Or(cfg.MaxKey, DefaultMaxKey)
	b.cfg.Handler = recoverPanics{Handler: cfg.Handler, name: cfg.Name, log: b.log}
	b.offer.Store(&Offer{State: Starting})
	if last := cfg.Last; last != nil && last.Known() {
		b.offer.Store(last.inherited())
		close(b.settled)
	}
	b.cfg.Last = nil // it is not kept in memory
	return b
}

// Name returns the configured name.
func (b *Backend) Name() string { return b.cfg.Name }

// Offer returns what the backend offers, as last known. It is never nil and
// never changes; the next change is another Offer.
func (b *Backend) Offer() *Offer { return b.offer.Load() }

// Settled returns a channel that is closed once the backend has been heard of
// for the first time: its lists, or why there are none.
func (b *Backend) Settled() <-chan struct{} { return b.settled }

// Began returns when the first attempt to learn the lists began. It reports false while
// that waits for its turn.
func (b *Backend) Began() (at time.Time, ok bool) {
	if t := b.began.Load(); t != nil {
		return *t, true
	}
	return time.Time{}, false
}

// Refresh asks for the lists to be fetched again soon. It does not wait, and
// many calls count as one.
func (b *Backend) Refresh() {
	select {
	case b.refresh <- struct{}{}:
	default: // already wanted
	}
}

// RefreshIfOld asks for the lists to be fetched again if the time to live of one
// has passed whose changes the server does not tell by itself.
func (b *Backend) RefreshIfOld(now time.Time) {
	o := b.Offer()
	if o.State == Live && o.unannounced() != 0 && now.Sub(o.At) >= o.freshFor() {
		b.Refresh()
	}
}

// Serve sends one request to the backend, and ends it when its deadline has
// passed. It lists and probes nothing. A request that could not be sent has the
// backend looked at again.
func (b *Backend) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	ctx, watch := b.limits.begin(ctx, caller)
	defer watch.stop()
	res, err := b.cfg.Handler.Serve(ctx, req, watch)
	if err == nil {
		return res, nil
	}
	if said, answered := err.(*mcp.Error); answered { //nolint:errorlint // only the backend's own word
		return nil, b.translateHopError(said)
	}
	if late := watch.expired(b.cfg.MaxKey); late != "" {
		return nil, &mcp.Fault{Code: mcp.CodeDeadline, Outcome: outcome(err), Backend: b.cfg.Name, Message: late, Cause: err}
	}
	b.noteFailure(err)
	return nil, err
}

// ofThisHop returns what the client is told of an error. Two codes are about what stands
// around the request on the way to the backend, which is ours: its headers, and the
// revision. The client has sent others, and would correct what was right.
func (b *Backend) translateHopError(said *mcp.Error) error {
	switch said.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeUnsupportedVersion:
		return &mcp.Fault{
			Code: mcp.CodeBackendFailed, Outcome: mcp.NotDispatched, Backend: b.cfg.Name,
			Message: "it rejected the request as the gateway sent it: " + said.Message, Cause: said,
		}
	default:
		return said
	}
}

// outcome is what an error says of the request's fate: one that was still waiting
// for a connection has not run. Without a word about it the worse is assumed: a
// client that is told so wrongly may execute something twice.
func outcome(err error) mcp.Outcome {
	if f, ok := errors.AsType[*mcp.Fault](err); ok && f.Outcome != "" {
		return f.Outcome
	}
	return mcp.Unknown
}

// publish swaps the offer before anybody is told of it, so that who is told finds
// the new one. Run is its only caller, and there is one Run.
func (b *Backend) publish(o *Offer) {
	b.offer.Store(o)
	select {
	case <-b.settled:
	default:
		close(b.settled) // Run is the only writer
	}
	if b.cfg.Changed != nil {
		b.cfg.Changed()
	}
}

// orDefault is for limits of which negative means none, which their users look at
// themselves.
func orDefault[T ~int | ~int64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}
