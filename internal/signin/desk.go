// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oidc"
	"github.com/signalbox-mcp/signalbox/internal/seal"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Limits of a Desk.
const (
	Lifetime        = 10 * time.Minute // of a pending
	MaxPerPrincipal = 10               // pendings
	MaxPendings     = 1000
)

// The paths of a Desk.
const (
	PathPages    = "/signin/" // followed by the id of a pending
	PathCallback = "/oauth/callback"
	PathClient   = "/oauth/client.json"
)

// ErrFull is the error of a pending for which there is no room.
var ErrFull = errors.New("too many sign-ins have begun")

// Config is the configuration of a Desk.
type Config struct {
	// Open returns the base of the URLs of pages, such as "https://mcp.example.com", for one
	// pending, and the function to call when that has ended. It must not depend on a request.
	// If it is nil, there are no pages.
	Open func() (base string, release func(), err error)

	// Identify returns the principal of a token of the gateway, which a user enters into a
	// form. It may be nil.
	Identify func(r *http.Request, token mcp.Token) (principal string, ok bool)

	// Provider is where users identify themselves, with a PublicURL, or nil. Without it and
	// Identify, each browser that reaches the pages is that of the principal "".
	Provider *oidc.Provider

	// Keep keeps what a user has proved at the Provider, and IDTokens has what was kept. Both
	// may be nil if there is no Handler without a Source.
	Keep     func(context.Context, *oidc.Identity) error
	IDTokens *oidc.Tokens

	// PublicURL is the base of the URLs if it is the same for all pendings, or "". If it is an
	// https URL, authorization servers may read the metadata of the gateway as a client there,
	// with Name.
	PublicURL, Name string

	// Keys seal the cookies of browsers. Without keys, they are valid until the process ends.
	Keys [][]byte

	// Event is called for each Event, and Count with the number of pendings when that has
	// changed. They must not block. Both may be nil.
	Event func(context.Context, Event)
	Count func(int)

	// Logger may be nil.
	Logger *slog.Logger
}

// Event is a step of a sign-in, for the audit record. It contains nothing that a server has sent.
type Event struct {
	Kind      EventKind
	Principal string // that the pending belongs to; for Foreign, that of the browser
	Backend   string
	Remote    string // the address of the browser, or ""
	Detail    string
}

// EventKind is a kind of Event.
type EventKind string

// The kinds of events.
const (
	Begun   EventKind = "signin_begun"
	Done    EventKind = "signin_done"
	Failed  EventKind = "signin_failed"
	Foreign EventKind = "foreign_signin" // a browser of another principal has opened a pending
)

// Desk keeps the sign-ins that wait for a user, and serves their pages as an http.Handler. The
// caller checks the Host of requests. A Desk is safe for concurrent use, and must be closed.
type Desk struct {
	cfg      Config
	box      *seal.Box
	attempts *attempts       // to enter a token
	begins   *attempts       // to go to the identity provider
	client   []byte          // the metadata of the gateway as a client, or nil
	ctx      context.Context //nolint:containedctx // of the watches of pendings; Close ends it
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	byID    map[string]*pending
	byOwner map[owner]*pending
	byState map[string]*pending

	receivers   map[string]*receiver    // by redirect URI
	identifying map[string]*identifying // by state
}

// owner identifies a pending: there is one at a time.
type owner struct{ principal, backend string }

// pending is a sign-in that waits for a user. The mutex of the Desk guards what is not immutable.
type pending struct {
	owner

	id      string
	url     string // of the page
	base    string
	source  *grant.Source // nil for a sign-in at the identity provider alone
	access  access        // what it waits for
	expires time.Time
	created time.Time
	release func()
	cancel  context.CancelFunc
	turn    chan struct{} // a lock of Prepare, of capacity 1
	over    chan struct{} // closed when it has been ended

	scopes   []string
	lacks    []string      // the scopes without which requests are refused, or nil
	signIn   *grant.SignIn // nil until a page is shown, and after a response
	isStale  bool          // signIn does not request all scopes
	cookie   [32]byte      // the digest of the secret of the browser that has begun
	isBegun  bool          // there is a cookie
	waiting  int           // calls
	try      *try          // the current one
	isEnded  bool
	notified map[*mcp.Scope]bool
	refusals int
	receives string // the redirect URI of the receiver that it uses, or ""

	ticket      [32]byte  // the digest of the last one, which is valid
	ticketUntil time.Time // until then
}

// try is one try of the user to sign in. A refusal ends it and not the pending.
type try struct {
	ended   chan struct{}
	outcome outcome // set before ended is closed
}

func newTry() *try { return &try{ended: make(chan struct{})} }

func (t *try) end(how outcome) {
	t.outcome = how
	close(t.ended)
}

// outcome is how a pending, or a try to sign in, has ended.
type outcome int

const (
	open    outcome = iota
	done            // there is a grant
	refused         // by the user, at the authorization server: the pending stays
	expired         // or evicted
)

// New returns a Desk. The error is about the keys or the metadata.
func New(cfg Config) (*Desk, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	box, err := seal.New(cfg.Keys...)
	if err != nil {
		return nil, err
	}
	d := &Desk{
		cfg: cfg, box: box, attempts: newTokens(), begins: newBegins(), identifying: make(map[string]*identifying),
		byID: make(map[string]*pending), byOwner: make(map[owner]*pending), byState: make(map[string]*pending),
		receivers: make(map[string]*receiver),
	}
	if d.client, err = clientDocument(cfg.PublicURL, cfg.Name); err != nil {
		return nil, err
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d, nil
}

// Close ends all pendings, and returns when nothing of the Desk is left. It may be called more
// than once.
func (d *Desk) Close() {
	d.mu.Lock()
	d.closed = true
	all := slices.Collect(maps.Values(d.byID))
	d.mu.Unlock()
	for _, p := range all {
		d.end(p, expired)
	}
	d.cancel()
	d.wg.Wait()
}

// HasPages reports whether users can sign in with a browser.
func (d *Desk) HasPages() bool { return d.cfg.Open != nil }

// begin returns the pending of a principal at a backend, which it makes unless there is one. Without
// a source, the user signs in at the identity provider alone.
func (d *Desk) begin(ctx context.Context, m *grant.Missing, source *grant.Source) (*pending, error) {
	own := owner{m.Principal, m.Backend}
	if p := d.join(m, source); p != nil { //nolint:contextcheck // it notifies with the context of the Desk
		return p, nil
	}
	switch {
	case source == nil && (d.cfg.Provider == nil || d.cfg.IDTokens == nil):
		return nil, errNoProvider
	case d.cfg.Open == nil:
		return nil, errNoPages
	}
	base, release, err := d.cfg.Open()
	if err != nil {
		return nil, err
	}
	id, now := rand.Text(), time.Now()
	p := &pending{
		owner: own, id: id, url: base + PathPages + id, base: base, source: source, access: source, scopes: m.Scopes,
		created: now, expires: now.Add(Lifetime), release: release, turn: make(chan struct{}, 1), over: make(chan struct{}), try: newTry(),
	}
	if m.Reason == grant.NeedsMoreScope {
		p.lacks = m.Scopes
	}
	if source == nil {
		wanted := idTokens{Tokens: d.cfg.IDTokens}
		if m.Reason != grant.NeverSignedIn && m.Reason != grant.NoIDToken {
			wanted.after = now // the token that there is was refused
		}
		p.access = wanted
	}
	other, evicted, err := d.add(p) //nolint:contextcheck // it notifies with the context of the Desk
	if evicted != nil {
		d.end(evicted, expired) //nolint:contextcheck // it notifies with the context of the Desk
	}
	if other != nil || err != nil {
		release()
		return other, err
	}
	d.event(ctx, Event{Kind: Begun, Principal: own.principal, Backend: own.backend})
	return p, nil
}

// The errors of sign-ins that cannot begin.
var (
	errNoPages    = errors.New("there are no pages to sign in")
	errNoProvider = errors.New("there is no identity provider for the pages (auth.browser)")
)

// join returns the pending of a principal at a backend, with more scopes, or nil. One that was
// begun before the configuration of the backend changed ends.
func (d *Desk) join(m *grant.Missing, source *grant.Source) *pending {
	d.mu.Lock()
	p := d.byOwner[owner{m.Principal, m.Backend}]
	if p != nil && p.source != source {
		d.mu.Unlock()
		d.end(p, expired)
		return nil
	}
	defer d.mu.Unlock()
	if p == nil {
		return nil
	}
	isStepUp := m.Reason == grant.NeedsMoreScope
	for _, s := range m.Scopes {
		if !slices.Contains(p.scopes, s) {
			p.scopes, p.isStale = append(slices.Clip(p.scopes), s), true
		}
		if isStepUp && !slices.Contains(p.lacks, s) {
			p.lacks = append(slices.Clip(p.lacks), s)
		}
	}
	return p
}

// resetLocked makes the next page begin with another authorization request.
func (d *Desk) resetLocked(p *pending) {
	if p.signIn != nil {
		delete(d.byState, p.signIn.State)
	}
	p.signIn, p.isStale, p.isBegun, p.cookie = nil, false, false, [32]byte{}
}

// add adds a pending, or returns the one that another call has added meanwhile. The caller ends
// the one that it returns as evicted.
func (d *Desk) add(p *pending) (other, evicted *pending, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, context.Canceled
	}
	if other := d.byOwner[p.owner]; other != nil {
		return other, nil, nil
	}
	ownCount := 0
	for other := range d.byOwner {
		if other.principal == p.principal {
			ownCount++
		}
	}
	isOwnLimit := ownCount >= MaxPerPrincipal
	if isOwnLimit || len(d.byID) >= MaxPendings {
		evicted = d.oldestIdleLocked(func(other *pending) bool { return !isOwnLimit || other.principal == p.principal })
		if evicted == nil {
			return nil, nil, ErrFull
		}
		d.removeLocked(evicted)
	}
	d.byID[p.id], d.byOwner[p.owner] = p, p
	d.countLocked()
	ctx, cancel := context.WithDeadline(d.ctx, p.expires)
	p.cancel = cancel
	d.wg.Go(func() { d.watch(ctx, p) }) // ends with the pending; Close waits for it
	return nil, evicted, nil
}

// oldestIdleLocked returns the oldest pending that no call and no browser uses, or nil.
func (d *Desk) oldestIdleLocked(of func(*pending) bool) (oldest *pending) {
	for _, p := range d.byID {
		if of(p) && p.waiting == 0 && !p.isBegun && (oldest == nil || p.isBefore(oldest)) {
			oldest = p
		}
	}
	return oldest
}

// isBefore reports whether the pending is older than another one. All have an order.
func (p *pending) isBefore(q *pending) bool {
	return cmp.Or(p.created.Compare(q.created), cmp.Compare(p.id, q.id)) < 0
}

// watch ends a pending when there is a grant, which another process may have got, or when it
// expires.
func (d *Desk) watch(ctx context.Context, p *pending) {
	for {
		changed := p.access.Watch(ctx, p.principal)
		d.mu.Lock()
		lacks := p.lacks
		d.mu.Unlock()
		if p.access.Has(ctx, p.principal, lacks) {
			d.end(p, done) //nolint:contextcheck // it notifies with the context of the Desk
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			d.end(p, expired) //nolint:contextcheck // it notifies with the context of the Desk
			return
		}
	}
}

func (d *Desk) removeLocked(p *pending) {
	d.resetLocked(p)
	d.releaseLocked(p)
	delete(d.byID, p.id)
	if d.byOwner[p.owner] == p {
		delete(d.byOwner, p.owner)
	}
	d.countLocked()
}

func (d *Desk) countLocked() {
	if d.cfg.Count != nil {
		d.cfg.Count(len(d.byID))
	}
}

// end ends a pending, and wakes the calls that wait for it. Only the first call has an effect;
// others return after it.
func (d *Desk) end(p *pending, how outcome) {
	d.mu.Lock()
	if p.isEnded {
		d.mu.Unlock()
		<-p.over
		return
	}
	defer close(p.over)
	p.isEnded = true
	p.try.end(how)
	if d.byID[p.id] == p {
		d.removeLocked(p)
	}
	scopes := p.notified
	p.notified = nil
	d.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
	}
	p.release()
	if how == done {
		d.event(context.Background(), Event{Kind: Done, Principal: p.principal, Backend: p.backend})
		d.notify(p, scopes)
	} else if d.ctx.Err() == nil {
		d.event(context.Background(), Event{Kind: Failed, Principal: p.principal, Backend: p.backend, Detail: "expired"})
	}
}

// refuse wakes the calls that wait for a pending, which stays.
func (d *Desk) refuse(p *pending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.isEnded {
		return
	}
	p.refusals++
	p.try.end(refused)
	p.try = newTry()
}

// event passes an event on.
func (d *Desk) event(ctx context.Context, e Event) {
	if d.cfg.Event != nil {
		d.cfg.Event(context.WithoutCancel(ctx), e)
	}
}

// find returns a pending by its id, or nil.
func (d *Desk) find(id string) *pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byID[id]
}

// wait waits until a pending has an outcome, and at most for a time.
func (d *Desk) wait(ctx context.Context, p *pending, most time.Duration, tick func()) outcome {
	d.mu.Lock()
	p.waiting++
	current := p.try
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		p.waiting--
		d.mu.Unlock()
	}()
	late, ticks := time.NewTimer(most), time.NewTicker(progressInterval)
	defer late.Stop()
	defer ticks.Stop()
	for {
		select {
		case <-current.ended:
			return current.outcome
		case <-late.C:
			return open
		case <-ctx.Done():
			return open
		case <-ticks.C:
			tick()
		}
	}
}

// notifyLater has a session notified when a pending is done.
func (d *Desk) notifyLater(p *pending, scope *mcp.Scope) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if scope == nil || scope.Unrelated() == nil || p.isEnded || len(p.notified) >= maxNotified {
		return
	}
	if p.notified == nil {
		p.notified = make(map[*mcp.Scope]bool)
	}
	p.notified[scope] = true
}

// maxNotified bounds the sessions that are notified when a pending is done.
const maxNotified = 64

// notifyTimeout bounds the time to notify one session.
const notifyTimeout = 10 * time.Second

// notify notifies sessions that a pending is done.
func (d *Desk) notify(p *pending, scopes map[*mcp.Scope]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	for scope := range scopes {
		d.wg.Go(func() { // ends within notifyTimeout, or with Close, which waits for it
			ctx, cancel := context.WithTimeout(d.ctx, notifyTimeout)
			defer cancel()
			_ = scope.Unrelated().Notify(ctx, completion(p)) // a convenience: the client may be gone
		})
	}
}

// attempts limits how often something is tried: by one address, and by all.
type attempts struct {
	each func() *rate.Limiter // makes that of an address

	mu  sync.Mutex
	all *rate.Limiter
	by  map[string]*rate.Limiter
}

func newAttempts(all *rate.Limiter, each func() *rate.Limiter) *attempts {
	return &attempts{each: each, all: all, by: make(map[string]*rate.Limiter)}
}

// newTokens returns the limits of how often tokens are entered.
func newTokens() *attempts {
	return newAttempts(rate.NewLimiter(10, 100), func() *rate.Limiter { return rate.NewLimiter(rate.Every(6*time.Second), 10) })
}

// newBegins returns the limits of how often browsers are sent to the identity provider. An address may be that
// of a proxy with many users.
func newBegins() *attempts {
	return newAttempts(rate.NewLimiter(20, 200), func() *rate.Limiter { return rate.NewLimiter(1, 60) })
}

const maxAddresses = 10_000

// allow reports whether it may be tried from an address.
func (a *attempts) allow(address string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.by[address]
	if own == nil {
		if len(a.by) >= maxAddresses {
			clear(a.by) // all still bounds them together
		}
		own = a.each()
		a.by[address] = own
	}
	return own.Allow() && a.all.Allow()
}
