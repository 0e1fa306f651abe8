// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// relistEvery is the shortest time between two fetches that a backend's notices
// can cause, however many it sends. A fetch is many pages, and each new
// offer is a notice to every client.
const minRelistInterval = time.Second

// relistSoleEvery is relistEvery for the only client. It is short, because requests of that
// client wait for the lists.
const minRelistIntervalSole = 200 * time.Millisecond

func (b *Backend) relistInterval() time.Duration {
	if b.cfg.Sole != nil {
		return minRelistIntervalSole
	}
	return minRelistInterval
}

// The waits between two attempts to reach a backend that failed.
const (
	minRetryDelay = 500 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// Run follows the backend until ctx ends: it fetches the lists, listens for
// changes, and starts over after a failure. It is called once.
func (b *Backend) Run(ctx context.Context) {
	var sole *Client
	if b.cfg.Sole != nil {
		var end func()
		if ctx, sole, end = b.awaitClient(ctx); sole == nil {
			return
		}
		defer end()
	}
	wait := minRetryDelay
	for ctx.Err() == nil {
		began := time.Now()
		err := b.follow(ctx, sole)
		if ctx.Err() != nil {
			return
		}
		if err == nil || time.Since(began) > maxRetryDelay {
			wait = minRetryDelay
		}
		if err == nil {
			continue
		}
		b.markStale(err)
		b.pause(ctx, wait/2+rand.N(wait/2)) //nolint:gosec // jitter, not a secret
		wait = min(2*wait, maxRetryDelay)
	}
}

// awaitSole waits for the only client. The context ends with the session of that
// client. The scope of a client without one is made here, and lives until end is called:
// the server keeps one session for all that the client does. sole is nil when ctx ended.
func (b *Backend) awaitClient(ctx context.Context) (life context.Context, sole *Client, end func()) {
	c, ok := b.cfg.Sole(ctx)
	if !ok {
		return ctx, nil, nil
	}
	if c.Scope == nil {
		c.Scope = mcp.NewScope("lists of "+b.cfg.Name, nil)
		return ctx, &c, c.Scope.End
	}
	ctx, cancel := context.WithCancel(ctx)
	if !c.Scope.OnEnd(cancel) {
		cancel()
	}
	return ctx, &c, cancel
}

// follow learns the lists and stays as long as there is something to follow. It
// returns nil when the lists are to be fetched afresh. sole may be nil.
func (b *Backend) follow(ctx context.Context, sole *Client) error {
	f := &fetcher{cfg: b.cfg, limits: b.limits}
	if sole != nil {
		f.client = *sole
	} else {
		// The scope is what a legacy server's session or process lives for. A server
		// that announces nothing is let go at once.
		f.client = b.clientOf(FullProfile)
		defer f.client.Scope.End()
	}
	ctx, cancel := context.WithCancel(ctx)
	g := b.newFetchGroup(f)
	defer g.wait()
	defer cancel()
	offer, err := b.fetchLists(ctx, g)
	if err != nil {
		return err
	}
	offer.Notices = b.Offer().Notices
	b.publish(offer)
	if g.f.announced != 0 {
		if err := b.listen(ctx, g); !errors.Is(err, errNoListChanges) {
			return err
		}
		b.publish(b.Offer().withoutNotices())
	}
	if again, err := b.completeLists(ctx, g); again || err != nil {
		return err
	}
	if sole == nil {
		f.client.Scope.End()
	}
	return b.awaitRefresh(ctx)
}

// learn asks for the lists in the server's turn. It returns when each was fetched, has
// failed, or is late, and one at least was fetched.
func (b *Backend) fetchLists(ctx context.Context, g *fetchGroup) (*Offer, error) {
	if b.cfg.Turn != nil {
		defer b.cfg.Turn(ctx)()
	}
	now := time.Now()
	b.began.CompareAndSwap(nil, &now)
	changes := b.changes.count()
	offer, err := g.f.discover(ctx)
	if err != nil {
		return nil, err
	}
	offer.changes = changes
	g.offered = offer.offered
	g.fetch(ctx, g.offered, 0)
	g.awaitFirst(ctx)
	if err := cmp.Or(ctx.Err(), g.err()); err != nil {
		return nil, err
	}
	g.fillOffer(offer)
	return offer, nil
}

// completeLists waits for the lists that are late and fetches those again that failed,
// until there are none. It reports true where all lists are to be fetched afresh.
func (b *Backend) completeLists(ctx context.Context, g *fetchGroup) (again bool, err error) {
	for g.busy|g.failed() != 0 {
		due, stop := g.retry()
		select {
		case <-ctx.Done():
		case <-b.refresh:
			again = true
		case r := <-g.results:
			g.store(ctx, r)
		case <-due:
			g.fetch(ctx, g.failed(), 0)
		}
		stop()
		if err := cmp.Or(ctx.Err(), g.err()); again || err != nil {
			return again, err
		}
		next := *b.Offer()
		g.fillOffer(&next)
		b.publish(&next)
	}
	return false, nil
}

// awaitNudge waits until somebody wants the lists: of a server that tells nothing
// nobody fetches what nobody looks at.
func (b *Backend) awaitRefresh(ctx context.Context) error {
	b.pause(ctx, b.relistInterval()) // however often somebody wants them
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-b.refresh:
		return nil
	}
}

// listen keeps the offer current by the server's own notices. It returns when
// the listen has ended, for whatever reason: what happens after that is unknown.
func (b *Backend) listen(ctx context.Context, g *fetchGroup) error {
	ctx, cancel := context.WithCancel(ctx)
	ear := newListListener(g.f.client.unrelated())
	ended := make(chan error, 1)
	// Ends with ctx, which this function cancels; it is waited for below.
	go func() {
		_, err := b.cfg.Handler.Serve(ctx, g.f.request("subscriptions/listen", listenParams()), ear)
		ended <- err
	}()
	err := b.keepCurrent(ctx, g, ear, ended)
	cancel()
	if !errors.Is(err, errListenEnded) {
		<-ended
	}
	return err
}

var (
	errListenEnded = errors.New("the listen stream ended")

	// errSilent says that the server is well and tells of no changes, whatever it
	// has announced.
	errNoListChanges = errors.New("the server sends no list changes")
)

// listenError is why a listen ended. A server that refuses it, or has no stream
// to tell of changes on, is asked for its lists from time to time.
func listenError(err error, e *listListener) error {
	_, refused := err.(*mcp.Error) //nolint:errorlint // only the server's own word
	f, ok := errors.AsType[*mcp.Fault](err)
	if refused && !e.acknowledged() || ok && f.Code == mcp.CodeUnsupported {
		return errors.Join(errListenEnded, errNoListChanges, err)
	}
	return errors.Join(errListenEnded, err)
}

// keepCurrent publishes the offer, and a new one whenever the server has said
// that a list changed. The lists that were fetched before the server
// acknowledged that it will tell of changes are fetched again, because a change
// between the two was not told.
func (b *Backend) keepCurrent(ctx context.Context, g *fetchGroup, e *listListener, ended <-chan error) error {
	for {
		if err := b.awaitChange(ctx, g, e, ended); err != nil {
			return err
		}
		if e.acknowledged() && e.agreedLists()&g.f.announced == 0 {
			return errNoListChanges
		}
		next, err := b.refetch(ctx, g, b.Offer(), e)
		if err != nil {
			return err
		}
		next.notified = e.agreedLists() & g.f.announced
		b.publish(next)
		b.pause(ctx, b.relistInterval())
	}
}

// awaitChange waits until a list has changed, may have, or was late and has come.
func (b *Backend) awaitChange(ctx context.Context, g *fetchGroup, e *listListener, ended <-chan error) error {
	due, stop := g.retry()
	defer stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-ended:
		return listenError(err, e)
	case <-b.refresh:
		// The server tells of changes by itself, but not that it is gone:
		// a listen may outlive its connection.
		e.mark(1<<catalog.NumKinds - 1)
	case <-due:
		e.mark(g.failed())
	case r := <-g.results:
		g.store(ctx, r)
	case <-e.wake:
	}
	select {
	case <-e.wake: // by the marks above
	default:
	}
	return nil
}

// refetch fetches the lists that the server has told of. A list that changed
// again while it was being fetched is fetched once more: an answer that began
// before a notice is never published.
func (b *Backend) refetch(ctx context.Context, g *fetchGroup, old *Offer, e *listListener) (*Offer, error) {
	var changes uint64
	for {
		var dirty, said listSet
		if dirty, said, changes = b.takeChanges(e); dirty == 0 {
			break
		}
		g.fetch(ctx, dirty, said)
		if e.isClean() || ctx.Err() != nil {
			break
		}
		b.pause(ctx, b.relistInterval())
	}
	if err := cmp.Or(ctx.Err(), g.err()); err != nil {
		return nil, err
	}
	next := *old
	next.State, next.Reason, next.changes = Live, "", changes
	g.fillOffer(&next)
	return &next, nil
}

// lose marks the offer: what was good is stale now, and what was never reached
// is down.
func (b *Backend) markStale(err error) {
	next := *b.Offer()
	next.State = Down
	if b.Offer().Known() {
		next.State = Stale
	}
	next.Reason, next.late = reason(err), 0
	b.log.Warn("backend not reachable", slog.String("state", next.State.String()), slog.Any("err", err))
	b.publish(&next)
}

// reason is why a backend is not live, in words that may be shown to clients: the
// message of a fault is written for them, while its cause may hold addresses.
func reason(err error) string {
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		return f.Message
	}
	return err.Error()
}

// noteFailure has the lists fetched afresh after a call could not be sent, so
// that the state tells the truth soon. That there is no room for a call, or that
// its client has gone, says nothing about the server; to ask it for its lists
// then would be more work for one that has too much.
func (b *Backend) noteFailure(err error) {
	f, ok := errors.AsType[*mcp.Fault](err)
	if !ok || f.Outcome != mcp.NotDispatched {
		return
	}
	switch f.Code {
	case mcp.CodeLimit, mcp.CodeSessionEnded, mcp.CodeShuttingDown:
	default:
		b.Refresh()
	}
}

// pause waits, but not longer than ctx.
func (b *Backend) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// kinds is a set of lists.
type listSet uint8

func (s listSet) has(k catalog.Kind) bool { return s&(1<<k) != 0 }

// ear is the Caller of the listen: it hears which lists changed. Notices are a
// level, not a queue: many of them are one fetch, and one always follows the
// last of them.
type listListener struct {
	wake   chan struct{} // capacity 1
	client mcp.Caller    // the only client, where it can be asked at any time; else nil

	mu        sync.Mutex
	dirty     listSet
	announced listSet // of dirty, what the server has told of
	acked     bool
	agreed    listSet // once acked
}

// agree comes before the mark that the same notice makes, so that who is woken by
// the mark finds what was agreed.
func (e *listListener) acknowledge(to listSet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.acked, e.agreed = true, to
}

func (e *listListener) acknowledged() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.acked
}

// told returns the lists that the server has agreed to tell of, none before it
// has.
func (e *listListener) agreedLists() listSet {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.agreed
}

func newListListener(client mcp.Caller) *listListener {
	return &listListener{wake: make(chan struct{}, 1), client: client}
}

// Notify takes note of a change. It never waits.
func (e *listListener) Notify(_ context.Context, n *mcp.Notification) error {
	switch n.Method {
	case "notifications/tools/list_changed":
		e.receive(n, 1<<catalog.Tools)
	case "notifications/resources/list_changed":
		e.receive(n, 1<<catalog.Resources|1<<catalog.Templates)
	case "notifications/prompts/list_changed":
		e.receive(n, 1<<catalog.Prompts)
	case "notifications/subscriptions/acknowledged":
		e.acknowledge(agreed(&n.Params))
		e.mark(1<<catalog.NumKinds - 1)
	}
	return nil
}

// agreed returns the lists whose changes the server will tell, by its
// acknowledgement (2026-07-28, basic/patterns/subscriptions, "Acknowledgment").
// One that does not say agrees to all.
func agreed(params *mcp.Object) listSet {
	var to struct {
		Tools     bool `json:"toolsListChanged"`
		Prompts   bool `json:"promptsListChanged"`
		Resources bool `json:"resourcesListChanged"`
	}
	raw := params.Raw(mcp.FieldNotifications)
	if raw == nil || jsonv2.Unmarshal(raw, &to) != nil {
		return 1<<catalog.NumKinds - 1
	}
	var told listSet
	if to.Tools {
		told |= 1 << catalog.Tools
	}
	if to.Prompts {
		told |= 1 << catalog.Prompts
	}
	if to.Resources {
		told |= 1<<catalog.Resources | 1<<catalog.Templates
	}
	return told
}

// Ask asks the only client. Without one it refuses, but for the list of roots: the gateway
// has declared roots, so that a server lists all its tools, and has none.
func (e *listListener) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	if e.client != nil {
		return e.client.Ask(ctx, req)
	}
	if req.Method == "roots/list" {
		return mcp.NewResult([]byte(`{"roots":[]}`))
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no client can be asked outside its own requests")
}

// hear marks the lists that a notice is about.
func (e *listListener) receive(n *mcp.Notification, s listSet) {
	if n.Synthetic {
		e.record(s, 0)
		return
	}
	e.record(s, s)
}

// mark marks lists that nobody has told of, and that may have changed.
func (e *listListener) mark(s listSet) { e.record(s, 0) }

func (e *listListener) record(s, said listSet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dirty |= s
	e.announced |= said
	select {
	case e.wake <- struct{}{}:
	default: // woken already
	}
}

// take empties the sets before the fetch and not after it: what changes meanwhile is
// marked anew and fetched once more.
func (e *listListener) take() (dirty, said listSet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	dirty, said = e.dirty, e.announced
	e.dirty, e.announced = 0, 0
	return dirty, said
}

// quiet reports whether nothing has changed since the last take.
func (e *listListener) isClean() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dirty == 0
}
