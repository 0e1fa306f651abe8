// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// minRelistInterval is the shortest time between two fetches because of a backend's
// notifications, however many it sends. A fetch is many pages, and each new offer
// causes a notification to every client.
const minRelistInterval = time.Second

// minRelistIntervalSole is minRelistInterval for the only client. It is short, because
// requests of that client wait for the lists.
const minRelistIntervalSole = 200 * time.Millisecond

func (b *Backend) relistInterval() time.Duration {
	if b.cfg.Sole != nil {
		return minRelistIntervalSole
	}
	return minRelistInterval
}

// The delays between two attempts to reach a backend that failed.
const (
	minRetryDelay = 500 * time.Millisecond
	maxRetryDelay = 30 * time.Second

	// maxStartDelay is maxRetryDelay for a process that could not be started.
	maxStartDelay = 10 * time.Second
)

// Run tracks the backend until ctx ends: it fetches the lists, listens for changes, and
// retries after a failure. It is called once.
func (b *Backend) Run(ctx context.Context) {
	var sole *Client
	if b.cfg.Sole != nil {
		var end func()
		if ctx, sole, end = b.awaitClient(ctx); sole == nil {
			return
		}
		defer end()
	}
	if b.use != nil {
		defer b.watchUse(ctx, sole != nil)()
		b.rest(ctx, sole)
	}
	again := backoff.Backoff{Min: minRetryDelay, Max: maxRetryDelay}
	for ctx.Err() == nil {
		began := time.Now()
		err := b.followUntilIdle(ctx, sole)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errIdleServer) {
			b.rest(ctx, sole)
			again.Reset()
			continue
		}
		if err == nil || time.Since(began) > maxRetryDelay {
			again.Reset()
		}
		if err == nil {
			continue
		}
		b.markStale(ctx, err)
		wait := again.Next()
		if code.IsNotStarted(b.Offer().Code) {
			wait = min(wait, maxStartDelay)
		}
		if b.awaitRetry(ctx, wait) {
			again.Reset()
		}
	}
}

// awaitRetry waits before the next attempt. It reports true if that was requested by
// Retry.
func (b *Backend) awaitRetry(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-b.retry:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// awaitClient waits for the only client. The returned context ends with the session of
// that client. A client without a scope gets one, which lives until end is called: the
// server keeps one session for all requests of the client. sole is nil if ctx ended.
func (b *Backend) awaitClient(ctx context.Context) (life context.Context, sole *Client, end func()) {
	b.nowAwaits(AwaitsClient)
	c, ok := b.cfg.Sole(ctx)
	if !ok {
		return ctx, nil, nil
	}
	b.offerKept(&c)
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

// follow fetches the lists and tracks them as long as the server notifies of changes.
// It returns nil when all lists must be fetched again. sole may be nil.
func (b *Backend) follow(ctx context.Context, sole *Client) error {
	f := &fetcher{b: b}
	if sole != nil {
		f.client = *sole
	} else {
		// The session or process of a legacy server lives as long as the scope. The
		// session with a server that announces nothing ends at once.
		f.client = b.clientOf(b.features)
		defer f.client.Scope.End()
	}
	ctx, cancel := context.WithCancel(ctx)
	g := newFetchGroup(f)
	defer g.wait()
	defer cancel()
	offer, err := b.fetchLists(ctx, g)
	if err != nil {
		return err
	}
	offer.Notices = b.Offer().Notices
	b.publish(offer)
	b.use.noteLists()
	if g.f.announced != 0 {
		if err := b.listen(ctx, g); !errors.Is(err, errNoListChanges) {
			return err
		}
		next := *b.Offer()
		next.notified = 0 // its lists expire, and are fetched on demand
		b.publish(&next)
	}
	if again, err := b.completeLists(ctx, g); again || err != nil {
		return err
	}
	if sole == nil {
		f.client.Scope.End()
	}
	return b.awaitRefresh(ctx)
}

// fetchLists fetches the lists in the server's turn. It returns after each was fetched,
// has failed, or is late, and at least one was fetched.
func (b *Backend) fetchLists(ctx context.Context, g *fetchGroup) (*Offer, error) {
	if b.cfg.Turn != nil {
		b.nowAwaits(AwaitsTurn)
		defer b.cfg.Turn(ctx)()
	}
	now := time.Now()
	b.began.CompareAndSwap(nil, &now)
	b.nowAwaits(AwaitsResponse)
	changes := b.changes.Load()
	offer, err := g.f.discover(ctx)
	if err != nil {
		return nil, err
	}
	b.nowAwaits(AwaitsLists)
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

// completeLists waits for the lists that are late and fetches those that failed again,
// until all are complete. It reports true if all lists must be fetched again.
func (b *Backend) completeLists(ctx context.Context, g *fetchGroup) (again bool, err error) {
	for g.busy|g.failed() != 0 {
		select {
		case <-ctx.Done():
		case <-b.refresh:
			again = true
		case r := <-g.results:
			g.store(ctx, r)
		case <-g.retry():
			g.fetch(ctx, g.failed(), 0)
		}
		if err := cmp.Or(ctx.Err(), g.err()); again || err != nil {
			return again, err
		}
		next := *b.Offer()
		g.fillOffer(&next)
		b.publish(&next)
	}
	return false, nil
}

// awaitRefresh waits until a fetch is requested: the lists of a server that sends no
// notifications are fetched on demand only.
func (b *Backend) awaitRefresh(ctx context.Context) error {
	backoff.Sleep(ctx, b.relistInterval()) // however often they are requested
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-b.refresh:
		return nil
	}
}

// listen updates the offer by the server's notifications. It returns when the listen
// has ended for any reason, because later changes are unknown: also with the credentials of
// Config.Identity.
func (b *Backend) listen(ctx context.Context, g *fetchGroup) error {
	ctx, cancel := context.WithCancel(ctx)
	listener := newListListener(g.f.client.unrelated())
	ended := make(chan error, 1)
	req, until := g.f.request("subscriptions/listen", listenParams()), ctx
	if id := req.Identity; id != nil && !id.Expires.IsZero() {
		var stop context.CancelFunc
		until, stop = context.WithDeadline(ctx, id.Expires)
		defer stop()
	}
	// Ends with ctx, which this function cancels; waited for below.
	go func() {
		_, err := b.serve(until, req, listener)
		ended <- err
	}()
	err := b.keepCurrent(ctx, g, listener, ended)
	cancel()
	if !errors.Is(err, errListenEnded) {
		<-ended
	}
	return err
}

var (
	errListenEnded = errors.New("the listen stream ended")

	// errNoListChanges reports that the server works and sends no notifications of
	// changes, whatever it has announced.
	errNoListChanges = errors.New("the server sends no list changes")
)

// listenError returns why a listen ended. If a server refuses it, or has no stream for
// it, its lists are polled.
func listenError(err error, l *listListener) error {
	_, refused := err.(*mcp.Error) //nolint:errorlint // only the server's own error
	f, ok := errors.AsType[*mcp.Fault](err)
	if _, acknowledged := l.agreement(); refused && !acknowledged || ok && f.Code == mcp.CodeUnsupported {
		return errors.Join(errListenEnded, errNoListChanges, err)
	}
	return errors.Join(errListenEnded, err)
}

// keepCurrent publishes the offer, and a new one whenever the server notifies that a
// list changed. It fetches again the lists that were fetched before the server
// acknowledged the listen, because a change between the two was not notified.
func (b *Backend) keepCurrent(ctx context.Context, g *fetchGroup, l *listListener, ended <-chan error) error {
	for {
		if err := b.awaitChange(ctx, g, l, ended); err != nil {
			return err
		}
		agreed, acknowledged := l.agreement()
		if acknowledged && agreed&g.f.announced == 0 {
			return errNoListChanges
		}
		next, err := b.refetch(ctx, g, b.Offer(), l)
		if err != nil {
			return err
		}
		agreed, _ = l.agreement() // which may have arrived meanwhile
		next.notified = agreed & g.f.announced
		b.publish(next)
		backoff.Sleep(ctx, b.relistInterval())
	}
}

// awaitChange waits until a list has changed, may have changed, or has arrived late.
func (b *Backend) awaitChange(ctx context.Context, g *fetchGroup, l *listListener, ended <-chan error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-ended:
		return listenError(err, l)
	case <-b.refresh:
		// The server notifies of changes, but not of its own end: a listen may outlive
		// its connection.
		l.mark(allLists)
	case <-g.retry():
		l.mark(g.failed())
	case r := <-g.results:
		g.store(ctx, r)
	case <-l.wake:
	}
	select {
	case <-l.wake: // by the marks above
	default:
	}
	return nil
}

// refetch fetches the lists that are marked. A list that changed again while it was
// fetched is fetched once more: the answer to a request sent before a notification is
// never published.
func (b *Backend) refetch(ctx context.Context, g *fetchGroup, old *Offer, l *listListener) (*Offer, error) {
	changes := old.changes
	for {
		dirty, announced, counted := b.takeChanges(l)
		if dirty == 0 {
			break
		}
		changes = counted
		if announced != 0 {
			b.use.noteChange()
		}
		g.fetch(ctx, dirty, announced)
		if l.isClean() || ctx.Err() != nil {
			break
		}
		backoff.Sleep(ctx, b.relistInterval())
	}
	if err := cmp.Or(ctx.Err(), g.err()); err != nil {
		return nil, err
	}
	next := *old
	next.State, next.Reason, next.Code, next.changes = Live, "", "", changes
	g.fillOffer(&next)
	return &next, nil
}

// takeChanges takes the lists to fetch from a listListener. A fetch of them that begins
// now includes all changes that were counted.
func (b *Backend) takeChanges(l *listListener) (dirty, announced listSet, changes uint64) {
	select {
	case <-b.refresh: // by NoteChange, possibly for lists that the listener has not marked
		l.mark(allLists)
	default:
	}
	dirty, announced = l.take()
	if dirty.has(catalog.Resources) {
		dirty |= 1 << catalog.Skills // their files are resources
	}
	// After the request was taken, because NoteChange counts before it requests.
	return dirty, announced, b.changes.Load()
}

// markStale marks the offer after a failure: what was live is stale now, and what was
// never reached, or is refused, is down.
func (b *Backend) markStale(ctx context.Context, err error) {
	next := *b.Offer()
	next.State = Down
	switch {
	case b.cfg.ByAccess && isRefusal(err):
		next = Offer{State: Down, Refused: true, Notices: next.Notices}
	case b.Offer().Known():
		next.State = Stale
	}
	next.Reason, next.Code, next.late = b.reason(err), reasonCode(err), 0
	b.warn(ctx, &next, err)
	b.publish(&next)
}

// isRefusal reports whether a server has refused a request because it lacks the access of a user.
func isRefusal(err error) bool { return reasonCode(err) == code.AuthSignIn }

// warnInterval is the time between two warnings about the same failure.
const warnInterval = time.Minute

// warn logs a failure that changes the state or the code, and one that does not at most
// once a minute, with the number of those in between. A refusal for lack of access, which is
// how some servers are, is not repeated.
func (b *Backend) warn(ctx context.Context, next *Offer, err error) {
	old, now := b.Offer(), time.Now()
	isSame := old.State == next.State && old.Code == next.Code
	if isSame && (next.Refused || now.Sub(b.warnedAt) < warnInterval) {
		b.notWarned++
		return
	}
	attrs := []slog.Attr{slog.String("state", next.State.String())}
	if next.Code != "" {
		attrs = append(attrs, slog.String("code", next.Code))
	}
	if b.notWarned > 0 {
		attrs = append(attrs, slog.Int("notLogged", b.notWarned))
	}
	b.log.LogAttrs(ctx, slog.LevelWarn, "backend not reachable", append(attrs, slog.Any("err", err))...)
	b.warnedAt, b.notWarned = now, 0
}

// reasonCode returns the code of the cause: that of the outermost fault that has one.
func reasonCode(err error) string {
	f, ok := errors.AsType[*mcp.Fault](err)
	for ok && f.Reason == "" {
		f, ok = errors.AsType[*mcp.Fault](f.Cause)
	}
	if !ok {
		return ""
	}
	return f.Reason
}

// reason returns why a backend is not live, as a text that may be shown to clients: the
// message of a fault is written for them, while its cause may contain addresses. A server
// may answer with its own credentials.
func (b *Backend) reason(err error) string {
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		return b.cfg.Secrets.Text(f.Message)
	}
	return b.cfg.Secrets.Text(err.Error())
}

// noteFailure requests a fetch of the lists after a call could not be sent, so that the
// state is updated soon. Exceeded limits, ended sessions and the shutdown indicate
// nothing about the server; fetching its lists then would only add to the load.
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

// listSet is a set of lists.
type listSet uint8

const allLists listSet = 1<<catalog.NumKinds - 1

// listSetOf returns the lists of a filter.
func listSetOf(l listen.Lists) (s listSet) {
	if l&listen.Tools != 0 {
		s |= 1 << catalog.Tools
	}
	if l&listen.Prompts != 0 {
		s |= 1 << catalog.Prompts
	}
	if l&listen.Resources != 0 {
		s |= 1<<catalog.Resources | 1<<catalog.Templates
	}
	return s
}

func (s listSet) has(k catalog.Kind) bool { return s&(1<<k) != 0 }

// kinds returns the kinds of the lists, in order.
func (s listSet) kinds() iter.Seq[catalog.Kind] {
	return func(yield func(catalog.Kind) bool) {
		for k := range catalog.NumKinds {
			if s.has(k) && !yield(k) {
				return
			}
		}
	}
}

// listListener is the Caller of the listen. It records which lists changed.
// Notifications are a level, not a queue: many of them cause one fetch, and a fetch
// always follows the last.
type listListener struct {
	wake   chan struct{} // capacity 1
	client mcp.Caller    // the only client, if it accepts requests at any time; otherwise nil

	mu        sync.Mutex
	dirty     listSet
	announced listSet // the dirty lists that the server has notified of
	acked     bool
	agreed    listSet // set with acked
}

// agreement returns the lists that the server has agreed to notify of; none before the
// acknowledgement.
func (l *listListener) agreement() (lists listSet, acknowledged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.agreed, l.acked
}

func newListListener(client mcp.Caller) *listListener {
	return &listListener{wake: make(chan struct{}, 1), client: client}
}

// Notify records a change. It does not block.
func (l *listListener) Notify(_ context.Context, n *mcp.Notification) error {
	switch n.Method {
	case listen.MethodTools:
		l.receive(n, listen.Tools)
	case listen.MethodResources:
		l.receive(n, listen.Resources)
	case listen.MethodPrompts:
		l.receive(n, listen.Prompts)
	case listen.MethodAcknowledged:
		l.acknowledge(&n.Params)
		l.mark(allLists) // the goroutine woken by this finds the agreed lists
	}
	return nil
}

// acknowledge records the lists in the server's acknowledgement (2026-07-28,
// basic/patterns/subscriptions, "Acknowledgment"). One without a valid filter agrees to
// all.
func (l *listListener) acknowledge(params *mcp.Object) {
	agreed := allLists
	if to, err := listen.ParseFilter(params); err == nil && params.Has(mcp.FieldNotifications) {
		agreed = listSetOf(to.Lists())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked, l.agreed = true, agreed
}

// Start forwards the request to the only client. Without one it refuses all but
// roots/list: the gateway has declared roots, so that a server lists all its tools, and
// has none.
func (l *listListener) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	if l.client != nil {
		return l.client.Start(ctx, req)
	}
	if req.Method == "roots/list" {
		return func() (*mcp.Result, error) { return mcp.NewResult([]byte(`{"roots":[]}`)) }, nil
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no client can be asked outside its own requests")
}

// Extension returns one that can do nothing: it is not used for calls.
func (l *listListener) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// receive marks the lists of a notification.
func (l *listListener) receive(n *mcp.Notification, lists listen.Lists) {
	s := listSetOf(lists)
	if n.Synthetic {
		l.mark(s)
		return
	}
	l.record(s, s)
}

// mark marks lists that may have changed without a notification.
func (l *listListener) mark(s listSet) { l.record(s, 0) }

func (l *listListener) record(s, announced listSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty |= s
	l.announced |= announced
	signal(l.wake)
}

// take returns and clears the sets. It is called before the fetch and not after it: a
// change during the fetch marks the list again and causes another fetch.
func (l *listListener) take() (dirty, announced listSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dirty, announced = l.dirty, l.announced
	l.dirty, l.announced = 0, 0
	return dirty, announced
}

// isClean reports whether nothing has changed since the last take.
func (l *listListener) isClean() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dirty == 0
}
