// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// userLists are the lists of backends that list only for users that are signed in, for each user
// its own. What such a backend offers to a user is tracked by a backend.Backend, as what another
// one offers to all is, from the first request of a user with access until it has had no session,
// no listen and no request for forgetAfter. No other user is served from it; users with equal lists
// have the same view.
//
// Without such a backend in the view nothing is kept of a user.
type userLists struct {
	g *Gateway

	kick chan struct{} // capacity 1; makes keep look now

	mu      sync.RWMutex
	users   map[string][]*listUser // by principal
	count   int
	keeping bool // keep runs
}

const (
	// forgetAfter is how long the lists of a user are kept after its last session, listen and
	// request.
	forgetAfter = 10 * time.Minute

	// keepInterval is the time between two looks at all users: for those to forget, and for
	// changes of their access by other processes.
	keepInterval = 5 * time.Second

	// accessFor is how long the access of a user counts as known when it requests a list.
	accessFor = time.Second

	// refusedListsFor is how long lists are not requested with an access that the backend has
	// refused for them.
	refusedListsFor = time.Minute

	// maxListUsers bounds the users. Others do not get lists of their own until one is forgotten.
	maxListUsers = 10_000

	// maxListStarts is the number of users that lists of one backend are fetched for at a time,
	// unless they take longer than slotTime.
	maxListStarts = 16
)

func newUserLists(g *Gateway) *userLists {
	return &userLists{g: g, kick: make(chan struct{}, 1), users: make(map[string][]*listUser)}
}

// perUser is what the lists of the users of one backend have in common.
type perUser struct {
	all       *userLists
	snapshots backend.Snapshots
	slots     startSlots

	ctx    context.Context //nolint:containedctx // of the trackers; stop ends it
	cancel context.CancelFunc

	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup // the trackers
}

func (g *Gateway) newPerUser() *perUser {
	p := &perUser{all: g.userLists, slots: make(startSlots, maxListStarts)}
	p.ctx, p.cancel = context.WithCancel(g.ctx) //nolint:gosec,nolintlint // stop calls it
	return p
}

// begin runs a tracker, which ends with the context, until stop.
func (p *perUser) begin(run func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.running.Go(run) // waited for by wait
	}
}

// stop ends the trackers. wait returns when they have ended.
func (p *perUser) stop() {
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

func (p *perUser) wait() { p.running.Wait() }

// listUser is a user, by what backends list for: the principal, and the features of its clients.
type listUser struct {
	principal string
	features  backend.Features
	all       *userLists

	offers atomic.Pointer[userOffers]  // never nil; immutable
	built  atomic.Pointer[builtOffers] // the latest view, or nil

	mu       sync.Mutex
	used     time.Time // when it was last used
	gone     bool      // forgotten
	sessions int
	lists    map[*backend.Backend]*userList
	changed  chan struct{} // closed and replaced when an offer changes
}

// userOffers are what backends offer to a user, except for those that it has no access to, and those
// that have not answered yet.
type userOffers map[*backend.Backend]userOffer

type userOffer struct {
	*backend.Offer

	content backend.Content
}

// builtOffers is the view of a user, and what it was built from.
type builtOffers struct {
	base   *view
	offers *userOffers
	view   *view
}

// userList is what is known of the lists of one backend for one user. Its fields are guarded by
// listUser.mu.
type userList struct {
	*backend.Backend // tracks the lists; nil without access

	of      *activeBackend
	cancel  context.CancelFunc // ends it
	checked time.Time          // when the access was last looked up
	held    grant.Held         // the access that the lists were last requested with
	refused time.Time          // when the backend refused it; zero if it has not
}

// of returns the user of a request, or nil.
func (l *userLists) of(c viewer) *listUser {
	features := l.featuresOf(c.Peer)
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.findLocked(c.Principal, features)
}

func (l *userLists) findLocked(principal string, features backend.Features) *listUser {
	for _, u := range l.users[principal] {
		if u.features == features {
			return u
		}
	}
	return nil
}

// featuresOf returns the features that lists for a client are requested with.
func (l *userLists) featuresOf(peer *mcp.Peer) backend.Features {
	if peer == nil || peer.Capabilities == nil {
		return backend.AllFeatures
	}
	return l.g.perClient.featuresOf(peer.Capabilities)
}

// add returns the user of a request, which is added if necessary. It returns nil for a request
// without a principal, and if there are too many users.
func (l *userLists) add(c viewer) *listUser {
	if c.Principal == "" {
		return nil
	}
	if u := l.of(c); u != nil && u.touch() {
		return u
	}
	return l.addNew(c.Principal, l.featuresOf(c.Peer))
}

// touch notes a use of the lists. It reports false if they were forgotten.
func (u *listUser) touch() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used = time.Now()
	return !u.gone
}

func (l *userLists) addNew(principal string, features backend.Features) *listUser {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.findLocked(principal, features); u != nil {
		return u
	}
	if l.count >= maxListUsers {
		return nil
	}
	u := &listUser{principal: principal, features: features, all: l, used: time.Now(), lists: make(map[*backend.Backend]*userList), changed: make(chan struct{})}
	u.offers.Store(new(userOffers))
	l.users[principal] = append(l.users[principal], u)
	l.count++
	l.keepLocked()
	return u
}

// noteUser notes a request of a user that may have lists of its own.
func (g *Gateway) noteUser(req *mcp.Request) {
	if req.Principal == "" || g.view.Load().users == nil {
		return
	}
	if u := g.userLists.add(viewerOf(req)); u != nil && req.Scope != nil {
		u.holdFor(req.Scope)
	}
}

// checkSoon looks up the access of a client that begins to listen. It does not block.
func (l *userLists) checkSoon(c viewer) {
	u := l.of(c)
	backends := l.g.view.Load().users.backends()
	if u == nil || !slices.ContainsFunc(backends, u.isCheckDue) {
		return
	}
	// Ends after a read of the vault for each backend; Gateway.stop waits for it.
	l.g.begin(func() {
		for _, b := range backends {
			u.check(l.g.ctx, b, accessFor)
		}
	})
}

// userSessionKey is the key, in the scope of a session, of its userSession.
type userSessionKey struct{}

// userSession is a session as a use of the lists of its user.
type userSession struct{ of atomic.Pointer[listUser] }

// holdFor keeps the lists until a session ends.
func (u *listUser) holdFor(scope *mcp.Scope) {
	kept, _ := scope.Value(userSessionKey{}, func() any { return new(userSession) })
	s, ok := kept.(*userSession)
	if !ok || s.of.Swap(u) == u {
		return // it has ended, or is counted
	}
	u.hold(1)
	if !scope.OnEnd(func() { u.hold(-1) }) {
		u.hold(-1)
	}
}

func (u *listUser) hold(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sessions += n
	u.used = time.Now()
}

// keepLocked makes keep run.
func (l *userLists) keepLocked() {
	if !l.keeping {
		// Ends when there are no users any more, or with the Gateway, which waits for it in stop.
		l.keeping = l.g.begin(l.keep)
	}
}

// look makes the users be looked at now: another view is in use.
func (l *userLists) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default: // already requested
	}
	l.keepLocked()
}

// keep looks at the users until no user is left, and no backend lists only for them.
func (l *userLists) keep() {
	for {
		began := time.Now()
		if l.g.ctx.Err() != nil || !l.keepOnce() {
			return
		}
		// Takes a tenth of the time at most, however many users there are.
		timer := time.NewTimer(max(keepInterval, 9*time.Since(began)))
		select {
		case <-l.kick:
		case <-timer.C:
		case <-l.g.ctx.Done():
		}
		timer.Stop()
	}
}

// keepOnce looks at each user. It reports false if keep has nothing more to do.
func (l *userLists) keepOnce() bool {
	v := l.g.view.Load()
	if v.users != nil {
		for _, c := range l.g.changed.clients() {
			l.add(c) // it has a listen
		}
	}
	all := slices.DeleteFunc(l.everybody(), l.forget)
	l.lookAt(v, all)
	for _, u := range all {
		u.keep(v)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keeping = l.count > 0 || l.g.view.Load().users != nil
	return l.keeping
}

// lookAt reads the access of users.
func (l *userLists) lookAt(v *view, users []*listUser) {
	if len(users) == 0 {
		return
	}
	var principals []string
	for _, u := range users {
		principals = append(principals, u.principal)
	}
	slices.Sort(principals)
	principals = slices.Compact(principals)
	for _, b := range v.users.backends() {
		b.access.(userAccess).look(l.g.ctx, principals) //nolint:forcetypeassert // the only backends with lists of users
	}
}

func (l *userLists) everybody() []*listUser {
	l.mu.RLock()
	defer l.mu.RUnlock()
	all := make([]*listUser, 0, l.count)
	for _, users := range l.users {
		all = append(all, users...)
	}
	return all
}

// forget removes a user that was not used for long, and reports whether it has.
func (l *userLists) forget(u *listUser) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !u.end() {
		return false
	}
	l.users[u.principal] = slices.DeleteFunc(l.users[u.principal], func(o *listUser) bool { return o == u })
	if len(l.users[u.principal]) == 0 {
		delete(l.users, u.principal)
	}
	l.count--
	return true
}

// end ends the trackers of a user that was not used for long. It reports false for any other.
func (u *listUser) end() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sessions > 0 || time.Since(u.used) < forgetAfter {
		return false
	}
	u.gone = true
	for _, one := range u.lists {
		u.endLocked(one)
	}
	return true
}

// keep looks up the access of a user, and ends what no backend of the view needs any more.
func (u *listUser) keep(v *view) {
	if b := u.built.Load(); b != nil && isClosed(b.base.replaced) {
		u.built.CompareAndSwap(b, nil)
	}
	for _, one := range u.unneeded(v) {
		u.drop(one)
	}
	for _, b := range v.users.backends() {
		u.check(u.all.g.ctx, b, forgetAfter) // lookAt has read it
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// unneeded returns the lists of backends that are not in the view, or list for anybody there.
func (u *listUser) unneeded(v *view) (all []*userList) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, one := range u.lists {
		if !slices.ContainsFunc(v.users.backends(), func(b *activeBackend) bool { return b.Backend == key }) {
			all = append(all, one)
		}
	}
	return all
}

// change calls f with the lock, and wakes the listens of the user if f reports a change.
func (u *listUser) change(f func() (changed bool)) {
	u.mu.Lock()
	changed := f()
	u.mu.Unlock()
	if changed {
		u.all.g.changed.wakeUser(u.principal)
	}
}

// drop ends the tracking of one list.
func (u *listUser) drop(one *userList) {
	u.change(func() bool {
		delete(u.lists, one.of.Backend)
		return u.endLocked(one)
	})
}

// endLocked ends a tracker. It reports whether what the user is offered has changed.
func (u *listUser) endLocked(one *userList) (changed bool) {
	if one.Backend != nil {
		one.cancel()
		one.Backend = nil
	}
	return u.setLocked(one.of.Backend, nil)
}

// setLocked sets what a backend offers to the user; nil for nothing of its own. It reports whether
// that has changed.
func (u *listUser) setLocked(key *backend.Backend, o *backend.Offer) (changed bool) {
	now := *u.offers.Load()
	before, had := now[key]
	if o == nil && !had {
		return false
	}
	next := maps.Clone(now)
	if next == nil {
		next = make(userOffers)
	}
	delete(next, key)
	if o != nil {
		next[key] = userOffer{o, o.Content()}
	}
	u.offers.Store(&next)
	close(u.changed)
	u.changed = make(chan struct{})
	return o == nil || next[key].content != before.content
}

// check looks up the access of a user to a backend, as it was at most age ago, and begins to track
// its lists, or ends that. It waits for no more than a read of the vault.
func (u *listUser) check(ctx context.Context, b *activeBackend, age time.Duration) {
	held, err := b.access.(userAccess).held(ctx, u.principal, age) //nolint:forcetypeassert // the only backends with lists of users
	u.change(func() bool { return u.applyLocked(b, held, err) })   //nolint:contextcheck // what it begins to track outlives the request
}

func (u *listUser) applyLocked(b *activeBackend, held grant.Held, err error) (changed bool) {
	if u.gone {
		return false
	}
	one := u.lists[b.Backend]
	if one == nil {
		one = &userList{of: b}
		u.lists[b.Backend] = one
	}
	now := time.Now()
	one.checked = now
	_, isMissing := errors.AsType[*grant.Missing](err)
	switch {
	case isMissing:
		return u.endLocked(one)
	case err != nil: // what is known stays
	case one.Backend == nil && !one.refused.IsZero() && one.held.Serial == held.Serial && now.Sub(one.refused) < refusedListsFor:
	case one.Backend == nil:
		u.startLocked(one, held, nil)
	case !one.held.SignedIn.Equal(held.SignedIn): // perhaps with another account
		one.cancel()
		u.startLocked(one, held, one.Offer())
	case one.held.Serial != held.Serial:
		one.held = held
		one.Retry()
	}
	return false
}

// startLocked begins to track the lists of a backend for the user. last is what another tracker
// has offered, or nil.
func (u *listUser) startLocked(one *userList, held grant.Held, last *backend.Offer) {
	g, b := u.all.g, one.of
	one.held, one.refused = held, time.Time{}
	var tracker *backend.Backend
	cfg := g.trackerConfig(b)
	cfg.Handler, cfg.Principal, cfg.Snapshots = b.client, u.principal, &b.users.snapshots
	cfg.Lacking, cfg.Beyond = backend.AllFeatures&^u.features, u.features&^backend.AllFeatures
	cfg.Identity = func() *mcp.Identity { return b.access.(userAccess).identity(u.principal) } //nolint:forcetypeassert // as in check
	cfg.Last, cfg.LastReason = last, "it has not been reached since the last sign-in"
	cfg.Changed = func() { u.change(func() bool { return u.takeOfferLocked(one, tracker) }) }
	cfg.Turn = b.users.slots.acquire
	tracker = backend.New(cfg)
	ctx, cancel := context.WithCancel(b.users.ctx)
	one.Backend, one.cancel = tracker, cancel
	b.users.begin(func() { tracker.Run(ctx) })
}

// takeOfferLocked takes the offer of a tracker.
func (u *listUser) takeOfferLocked(one *userList, tracker *backend.Backend) (changed bool) {
	o := tracker.Offer()
	switch {
	case one.Backend != tracker: // it was replaced, or has ended
		return false
	case o.Refused:
		one.refused = time.Now()
		return u.endLocked(one)
	}
	return u.setLocked(one.of.Backend, o)
}

// refresh makes the lists of a principal be fetched again. If the principal has no access any more,
// they end.
func (l *userLists) refresh(principal string, key *backend.Backend) {
	for _, u := range l.usersOf(principal) {
		u.refresh(key)
	}
}

func (u *listUser) refresh(key *backend.Backend) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one := u.lists[key]; one != nil && one.Backend != nil {
		one.Refresh()
		one.Retry()
	}
}

func (l *userLists) usersOf(principal string) []*listUser {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.users[principal])
}

// recheck looks up the access of all users of a principal to a backend that has just changed.
func (l *userLists) recheck(ctx context.Context, principal string, b *activeBackend) {
	for _, u := range l.usersOf(principal) {
		u.check(ctx, b, accessFor)
	}
}

// retry makes the lists of all users be requested now.
func (l *userLists) retry(b *activeBackend) {
	for _, u := range l.everybody() {
		u.refresh(b.Backend)
	}
	l.look()
}

// refreshUserLists requests the lists of the sender of a request that are old and that no
// notification keeps current.
func (g *Gateway) refreshUserLists(req *mcp.Request, now time.Time) {
	if u := g.userLists.of(viewerOf(req)); u != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		for _, one := range u.lists {
			if one.Backend != nil {
				one.RefreshIfOld(now)
			}
		}
	}
}

// viewOfUser returns the view with the lists of a caller, as far as they are known.
func (g *Gateway) viewOfUser(id *mcp.Identity, client *mcp.Peer) *view {
	v := g.view.Load()
	if v.users == nil || id == nil {
		return v
	}
	return g.userLists.view(v, viewer{Client: backend.Client{Peer: client, Principal: id.Principal}})
}

// view returns the view of a client, on a view without the lists of users.
func (l *userLists) view(v *view, c viewer) *view {
	if c.Principal == "" {
		return v
	}
	u := l.of(c)
	if u == nil {
		return v
	}
	offers := u.offers.Load()
	if len(*offers) == 0 {
		return v
	}
	if b := u.built.Load(); b != nil && b.base == v && b.offers == offers {
		return b.view
	}
	made := v.users.of(*offers)
	u.built.Store(&builtOffers{v, offers, made})
	return made
}

// tracker returns what tracks the lists of a backend for a client.
func (l *userLists) tracker(b *activeBackend, c viewer) *backend.Backend {
	if b.users == nil {
		return b.Backend
	}
	if u := l.of(c); u != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		if one := u.lists[b.Backend]; one != nil && one.Backend != nil {
			return one.Backend
		}
	}
	return b.Backend
}

// offerOf returns what a backend offers to a client that has lists of its own there, or nil.
func (l *userLists) offerOf(b *activeBackend, c viewer) *backend.Offer {
	if u := l.of(c); u != nil {
		return (*u.offers.Load())[b.Backend].Offer
	}
	return nil
}
