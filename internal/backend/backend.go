// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backend manages one backend of the gateway: what it offers, as the last lists
// that it returned, and the calls to it, each with its deadline.
//
// A Backend tracks its server by itself. It fetches the lists, listens for changes if
// the server announces them, fetches again, and retries after a failure. Only the first
// list waits for this. A call is sent to the server at once, and any other list is
// answered from the last one fetched.
//
// A server that is a process and that no client uses may rest: its process ends, and it
// is tracked again after the next call ([Rest]).
package backend

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Config is the configuration of a Backend. It is not modified.
type Config struct {
	// Name is the configured name, for errors and the log.
	Name string

	// Handler is the server: a client of it, or a Handler in this process.
	Handler mcp.Handler

	// Info is the gateway's Implementation object, for the gateway's own requests.
	Info []byte

	// Sole, if not nil, waits for the only client that the Backend serves, and returns
	// false if ctx ends first. The lists are then those of this client, fetched in its
	// own session. It is called once.
	Sole func(ctx context.Context) (Client, bool)

	// Principal is that of the requests for the lists. Lacking are the features that the
	// clients lack which the lists are for, and Beyond those that they have beyond
	// AllFeatures. None is used with Sole.
	Principal       string
	Lacking, Beyond Features

	// Identity, if not nil, returns the identity that the lists are requested with. It may be
	// called at any time.
	Identity func() *mcp.Identity

	// ByAccess is whether the server may list only with the access of a user that has signed in.
	// If it refuses the access that the lists are requested with, nothing is offered any more,
	// and Offer.Refused is set. Otherwise the last lists stay offered as after other failures.
	ByAccess bool

	// Snapshots, if not nil, are the lists that Backends of one server have in common.
	Snapshots *Snapshots

	// Idle limits the time without activity in a call, Max the duration of any call.
	// Zero is DefaultIdle and DefaultMax; negative is no limit.
	Idle, Max time.Duration

	// Handshake limits the first request, which a server may answer only after it has
	// started. Zero is DefaultIdle; negative is no limit.
	Handshake time.Duration

	// MaxKey is the configuration key of Max, for the error of a call that exceeded it.
	// "" is DefaultMaxKey.
	MaxKey string

	// MaxItems and MaxPages bound each list. Zero is DefaultMaxItems and
	// DefaultMaxPages; negative is no limit.
	MaxItems, MaxPages int

	// Last is what the same server offered to another Backend, or nil. It is offered as
	// stale until this Backend has reached the server, with LastReason as the reason. If
	// Stopped is set, it is offered as that of an idle server, which is not started before
	// it is needed; Rest must be set then.
	Last       *Offer
	LastReason string
	Stopped    bool

	// Kept, if not nil, returns what the server has offered to clients for a set of features in an
	// earlier run, or nil. It is offered until the server is reached, and the server is
	// not started before it is needed if it may rest. Keep, if not nil, is called by Run
	// with each complete offer of the server. Both may take a moment.
	Kept func(Features) *Offer
	Keep func(Features, *Offer)

	// Rest, if not nil, makes the server rest while it serves no client.
	Rest *Rest

	// Changed is called after each change of the Offer. It must not block.
	Changed func()

	// Late, if not nil, is called with the delay of a timer, about once a second while
	// there are calls. It must not block.
	Late func(time.Duration)

	// Observe, if not nil, is called after each request of the Backend's own, with its
	// duration from when it was sent; zero means that it was not. It must not block.
	Observe func(method string, took time.Duration, err error)

	// Turn waits until the server may be started, or ctx ends. It returns the function
	// to call after the lists are known or have failed. If nil, the server starts at
	// once.
	Turn func(ctx context.Context) (done func())

	// Secrets are removed from the reasons of failures, which all clients see.
	Secrets *redact.Redactor

	// Logger may be nil.
	Logger *slog.Logger
}

// Client identifies the client that lists are fetched for.
type Client struct {
	Peer      *mcp.Peer
	Principal string
	Scope     *mcp.Scope // nil if the client has no session
}

// unrelated returns the Caller for requests to the client outside of its own, or nil.
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
	refresh chan struct{} // capacity 1; requests a fetch of the lists
	retry   chan struct{} // capacity 1; ends the wait after a failure
	began   atomic.Pointer[time.Time]
	awaits  atomic.Pointer[await]
	renewed atomic.Bool   // offer is not that of New any more
	changes atomic.Uint64 // how many the server has notified to the only client

	use *use // nil without Config.Rest

	// The fields below belong to Run.
	features Features // of the clients that the lists are for
	kept     *Offer   // as last passed to Keep, or nil
	failures [catalog.NumKinds]listFailure
	answered listSet // the lists that were fetched, or have failed, once

	warnedAt  time.Time // of the last warning about a failure
	notWarned int       // the failures since, which were not logged
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
		retry:   make(chan struct{}, 1),
	}
	b.cfg.MaxKey = cmp.Or(cfg.MaxKey, DefaultMaxKey)
	b.features = AllFeatures&^cfg.Lacking | cfg.Beyond
	if cfg.Rest != nil {
		b.use = newUse(cfg.Rest)
	}
	b.offer.Store(&Offer{State: Starting})
	if first := b.firstOffer(&cfg); first != nil {
		b.offer.Store(first)
	}
	b.cfg.Last = nil // not retained
	return b
}

// firstOffer returns what is offered before the server is reached, or nil.
func (b *Backend) firstOffer(cfg *Config) *Offer {
	switch last := cfg.Last; {
	case cfg.Stopped:
		return last.before(Idle, "")
	case last != nil && last.Known():
		return last.before(Stale, cmp.Or(cfg.LastReason, "its configuration changed, and it has not been reached since"))
	case cfg.Sole != nil:
		return nil // the lists depend on the client
	default:
		return b.keptOffer()
	}
}

// Name returns the configured name.
func (b *Backend) Name() string { return b.cfg.Name }

// Offer returns what the backend offers, as last known. It is never nil and immutable;
// the next change is another Offer.
func (b *Backend) Offer() *Offer { return b.offer.Load() }

// Renewed reports whether Offer is another one than that of New.
func (b *Backend) Renewed() bool { return b.renewed.Load() }

// Began returns when the first attempt to fetch the lists began. It reports false while
// that waits for its turn.
func (b *Backend) Began() (at time.Time, ok bool) {
	if t := b.began.Load(); t != nil {
		return *t, true
	}
	return time.Time{}, false
}

// Refresh requests a fetch of the lists. It does not block, and many calls merge into
// one.
func (b *Backend) Refresh() {
	b.use.noteChange()
	signal(b.refresh)
}

// Retry ends the wait after a failure to reach the server. It does not block.
func (b *Backend) Retry() {
	if s := b.Offer().State; s != Live && !s.IsResting() {
		signal(b.retry)
	}
}

// RefreshIfOld requests a fetch of the lists if the time to live of one has passed, and
// the server does not notify of its changes.
func (b *Backend) RefreshIfOld(now time.Time) {
	o := b.Offer()
	if o.State == Live && o.unannounced() != 0 && now.Sub(o.At) >= o.freshFor() {
		b.Refresh()
	}
}

// NoteChange records that the lists have changed: they are fetched again, and until
// then IsBehind reports true. It does not block.
func (b *Backend) NoteChange() {
	b.changes.Add(1)
	b.Refresh()
}

// IsBehind reports whether a change was noted that an Offer of this Backend lacks, and
// the lists are about to be fetched. They are not if the server cannot be reached.
func (b *Backend) IsBehind(o *Offer) bool {
	state := b.Offer().State
	return b.changes.Load() > o.changes && (state == Live || state.IsResting())
}

// Serve sends one request to the backend, and cancels it after its deadline. It lists
// and probes nothing. If the request could not be sent, Serve requests a fetch of the
// lists.
func (b *Backend) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (res *mcp.Result, err error) {
	defer b.endUse(b.beginUse(req))
	defer b.recoverPanic(ctx, req, &res, &err)
	ctx, watch := b.limits.begin(ctx, caller, req.Timeline)
	defer watch.stop()
	res, err = b.cfg.Handler.Serve(ctx, req, watch)
	if err == nil {
		return res, nil
	}
	if rpcErr, answered := err.(*mcp.Error); answered { //nolint:errorlint // only the backend's own error
		return nil, b.translateHopError(rpcErr)
	}
	if late := watch.expired(b.cfg.MaxKey); late != "" {
		return nil, &mcp.Fault{Code: mcp.CodeDeadline, Outcome: outcome(err), Backend: b.cfg.Name, Message: late, Cause: err}
	}
	b.noteFailure(err)
	return nil, err
}

// Listen sends a subscriptions/listen of a client to the backend, and returns when that
// has ended. It has no deadline: resources may never change. Its failure does not
// affect the state of the server, which the listen for the lists tracks.
func (b *Backend) Listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	defer b.endUse(b.beginUse(req))
	b.wakeBy(req) // now: it may not end for a long time
	return b.serve(ctx, req, caller)
}

// serve sends one request to the backend.
func (b *Backend) serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (res *mcp.Result, err error) {
	defer b.recoverPanic(ctx, req, &res, &err)
	return b.cfg.Handler.Serve(ctx, req, caller)
}

// recoverPanic must be deferred. It turns a panic into an error of the request: a
// backend in this process is foreign code that runs on goroutines of the gateway.
func (b *Backend) recoverPanic(ctx context.Context, req *mcp.Request, res **mcp.Result, err *error) {
	v := recover()
	if v == nil {
		return
	}
	b.log.LogAttrs(ctx, slog.LevelError, "panic in a backend", slog.String("method", req.Method),
		slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
	*res, *err = nil, &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown, Backend: b.cfg.Name, Message: "it panicked"}
}

// translateHopError returns the error for the client. Two codes are about the gateway's
// own part of the request to the backend, its headers and its revision. The client has
// sent different ones, and would change what was correct.
func (b *Backend) translateHopError(rpcErr *mcp.Error) error {
	switch rpcErr.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeUnsupportedVersion:
		return &mcp.Fault{
			Code: mcp.CodeBackendFailed, Outcome: mcp.NotDispatched, Backend: b.cfg.Name,
			Message: "it rejected the request as the gateway sent it: " + rpcErr.Message, Cause: rpcErr,
		}
	default:
		return rpcErr
	}
}

// outcome returns the outcome in an error: a request that was still waiting for a
// connection has not run. Without information it assumes the worse: a client that
// retries without reason may execute something twice.
func outcome(err error) mcp.Outcome {
	if f, ok := errors.AsType[*mcp.Fault](err); ok && f.Outcome != "" {
		return f.Outcome
	}
	return mcp.Unknown
}

// publish stores the offer before it calls Changed, so that the callee finds the new
// one. Only Run calls it, and there is one Run.
func (b *Backend) publish(o *Offer) {
	b.offer.Store(o)
	b.renewed.Store(true)
	if b.cfg.Changed != nil {
		b.cfg.Changed()
	}
	b.keep(o) // last: it may take a moment
}
