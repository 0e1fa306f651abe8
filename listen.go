// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Watch serves a subscriptions/listen for lists only. With ServeNow it makes a Gateway an
// [mcp.HandlerExtension].
func (g *Gateway) Watch(ctx context.Context, req *mcp.Request, caller mcp.Caller) (stop func(), err error) {
	req = g.withExtensions(req)
	g.onlyClient.set(req)
	g.noteIdentity(req)
	g.noteUser(req)
	want, err := g.parseFilter(req)
	if err != nil {
		return nil, err
	}
	if len(want.URIs)+len(want.TaskIDs) > 0 {
		return nil, errors.ErrUnsupported // resources and tasks need goroutines
	}
	l, err := g.startListener(ctx, req, caller, want)
	if err != nil {
		return nil, err
	}
	return l.stop, nil
}

// listen serves subscriptions/listen: the acknowledgement, then a notification for each
// change of the client's view and of the resources and tasks in the filter, until ctx
// ends.
func (g *Gateway) listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	want, err := g.parseFilter(req)
	if err != nil {
		return nil, err
	}
	l, err := g.startListener(ctx, req, caller, want)
	if err != nil {
		return nil, err
	}
	<-ctx.Done()
	l.stop()
	return mcp.NewResult([]byte("{}"))
}

// parseFilter reads the filter of a listen and enforces limits.subscriptions.
func (g *Gateway) parseFilter(req *mcp.Request) (listen.Filter, error) {
	want, err := listen.ParseFilter(&req.Params)
	if err != nil {
		return want, err
	}
	if most := g.view.Load().cfg.Limits.Subscriptions; most >= 0 && len(want.URIs)+len(want.TaskIDs) > most {
		return want, &mcp.Fault{
			Code: mcp.CodeLimit, Outcome: mcp.NotDispatched,
			Message: fmt.Sprintf("%d resources and tasks in one subscription, at most %d are allowed (limits.subscriptions)", len(want.URIs)+len(want.TaskIDs), most),
		}
	}
	return want, nil
}

// listener is one listen of a client. It compares what it last sent with the current
// state, so that many changes become one notification and none is missed. It has a
// goroutine only while it sends: a gateway may have a hundred thousand of them, nearly
// all idle nearly all of the time.
type listener struct {
	g      *Gateway
	ctx    context.Context //nolint:containedctx // the context of the listen, which is what this is
	client viewer
	caller mcp.Caller
	want   listen.Filter
	seen   *seenLists
	sub    *subscription // nil for lists only

	mu      sync.Mutex
	sending bool // a goroutine sends, and checks again before it ends
	rerun   bool
	stopped bool
	senders sync.WaitGroup
}

// startListener acknowledges a listen, and sends what is due from then on.
func (g *Gateway) startListener(ctx context.Context, req *mcp.Request, caller mcp.Caller, want listen.Filter) (*listener, error) {
	// With sending set, a change before run is only recorded: nothing precedes the
	// acknowledgement.
	if g.view.Load().users != nil {
		g.userLists.checkSoon(viewerOf(req))
	}
	l := &listener{g: g, ctx: ctx, client: followerOf(req), caller: caller, want: want, sending: true}
	// In this order: a change after add wakes the listener, and a change before it is in
	// the initial state or, for a session, due since its last list.
	g.changed.add(l)
	l.seen = g.initialSeen(l.client, want)
	if len(want.URIs)+len(want.TaskIDs) > 0 {
		own := *req
		own.Identity = l.client.identity // as for the client, that of the latest request of a session
		l.sub = &subscription{listener: l, req: &own}
		l.ctx, l.sub.cancel = context.WithCancel(ctx)
		l.want = l.sub.subscribe(want)
	}
	// What is left out of the request, the client knows to expect nothing for.
	err := l.want.Acknowledge(ctx, caller)
	if err == nil {
		err = l.run()
	}
	if err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

// wake starts sending if notifications are due. It does not block.
func (l *listener) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped:
	case l.sending:
		l.rerun = true
	case l.sub != nil || l.want.Lists() != 0 && l.mayBeDue():
		l.sending = true
		// Ends when all that is due was sent, or with the listen; stop waits for it.
		l.senders.Go(func() { _ = l.run() }) // what could not be sent stays due until the next change
	}
}

// mayBeDue reports whether notifications of lists may be due. With a policy, or lists of users, the
// goroutine that sends finds out: what the client sees may have to be made first.
func (l *listener) mayBeDue() bool {
	if v := l.g.view.Load(); v.policy != nil || v.users != nil {
		return true
	}
	return l.seen.due(l.g.viewFor(l.client).version()) != 0
}

// run sends what is due until nothing is.
func (l *listener) run() error {
	for {
		err := l.send()
		if !l.mustRunAgain(err) {
			return err
		}
	}
}

// send sends the notifications that are due. A change of lists that could not be sent
// stays due.
func (l *listener) send() error {
	if l.sub != nil {
		l.sub.resubscribe(l.ctx)
	}
	if l.want.Lists() != 0 { // otherwise the state of the lists belongs to another listen
		// Before sending: a change that comes in between is in the next notification.
		now := l.seen.snapshot(func() *view { return l.g.viewFor(l.client) })
		// Without parameters: the protocol does not name the changed items, and the next list
		// may be newer still.
		for _, method := range (l.want.Lists() & now.due).Methods() {
			if err := l.caller.Notify(l.ctx, &mcp.Notification{Method: method}); err != nil {
				return err
			}
		}
		l.seen.markSent(now)
	}
	if l.sub != nil {
		return l.sub.feed.Take(l.sub.updates).Notify(l.ctx, l.caller)
	}
	return nil
}

// mustRunAgain reports whether there may be a change since run sent. After a failure it
// reports false: the next change tries again.
func (l *listener) mustRunAgain(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sending = err == nil && l.rerun && !l.stopped
	l.rerun = false
	return l.sending
}

// stop ends the listen. Its context has ended, or it has failed to start.
func (l *listener) stop() {
	l.g.changed.remove(l)
	l.markStopped()
	l.senders.Wait()
	if l.sub != nil {
		l.sub.cancel()
		l.sub.listens.Wait()
	}
}

func (l *listener) markStopped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

// listeners are the listeners of all clients, which are woken after the view of some was
// replaced.
type listeners struct {
	mu  sync.Mutex
	all map[*listener]struct{}
}

func (s *listeners) add(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*listener]struct{})
	}
	s.all[l] = struct{}{}
}

func (s *listeners) remove(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, l)
}

// clients returns the clients of the listeners.
func (s *listeners) clients() []viewer {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]viewer, 0, len(s.all))
	for l := range s.all {
		all = append(all, l.client)
	}
	return all
}

// wakeIf wakes the listeners with a client for which wants returns true. It does not block.
func (s *listeners) wakeIf(wants func(*viewer) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.all {
		if wants(&l.client) {
			l.wake()
		}
	}
}

func (s *listeners) wakeAll() { s.wakeIf(func(*viewer) bool { return true }) }

// wakeIn wakes the listeners of a session.
func (s *listeners) wakeIn(scope *mcp.Scope) {
	s.wakeIf(func(c *viewer) bool { return c.Scope == scope })
}

// wakeUser wakes the listeners of a principal.
func (s *listeners) wakeUser(principal string) {
	s.wakeIf(func(c *viewer) bool { return c.Principal == principal })
}

// seenLists is the state of the lists that one listener knows, list by list: the last
// one notified or listed. A legacy session is notified only of the lists that it has
// requested. The state of a session outlives its stream, so that a change between two
// GETs is sent on the second; if that supersedes the first, both may be sending for a
// moment.
type seenLists struct {
	mu      sync.Mutex
	version version
	tracked [catalog.NumKinds]bool   // the listener has the list, or is notified of all changes
	serials [catalog.NumKinds]uint64 // of the snapshot or list that set the list in version
	serial  uint64                   // counts snapshots and lists
}

// due returns what to notify the listener of, if now is current.
func (s *seenLists) due(now version) listen.Lists {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dueLocked(now)
}

func (s *seenLists) dueLocked(now version) listen.Lists {
	known := s.version
	for k, tracked := range s.tracked {
		if !tracked {
			known[k] = now[k]
		}
	}
	return known.diff(now)
}

// snapshot is a state of the lists and what is due to reach it.
type snapshot struct {
	now    version
	due    listen.Lists
	serial uint64 // see seenLists.serial
}

// snapshot returns what is due now. It calls current under the lock, so that the later
// of two snapshots is as new or newer.
func (s *seenLists) snapshot(current func() *view) snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	now := current().version()
	return snapshot{now, s.dueLocked(now), s.serial}
}

// markSent records that the notifications of a snapshot were sent. Call it after
// delivery and not before: what a broken stream did not deliver stays due for the next
// one. A list that another snapshot, or the client itself, has seen since is not
// changed: if it turned back to the state of this snapshot, the client would not be
// notified.
func (s *seenLists) markSent(sent snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range catalog.NumKinds {
		if sent.serial > s.serials[k] {
			s.version[k], s.serials[k] = sent.now[k], sent.serial
		}
	}
}

// markListed returns the view from which to answer a list. A later change is notified:
// the view is read under the lock, and each change wakes the listeners after it is in
// the view, so that they compare with this one.
func (s *seenLists) markListed(k catalog.Kind, current func() *view) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := current()
	s.serial++
	s.version[k], s.tracked[k], s.serials[k] = v.version()[k], true, s.serial
	return v
}

// allLists are the lists that sessions are notified of.
const allLists = listen.Tools | listen.Prompts | listen.Resources

// seenKey is the key of a session's seenLists in its scope.
type seenKey struct{}

// initialSeen returns the state that a listener starts from: for a session, the lists
// that it has; for a modern listen, the current state. A listen in a scope that filters
// out some lists also starts from the current state, because otherwise the lists that
// it leaves out would count as sent to the others.
func (g *Gateway) initialSeen(of viewer, want listen.Filter) *seenLists {
	if of.Scope == nil || want.Lists() != allLists {
		s := &seenLists{version: g.viewFor(of).version()}
		for k := range s.tracked {
			s.tracked[k] = true
		}
		return s
	}
	return seenBy(of.Scope)
}

// seenBy returns the state of the lists of a session: empty, when it begins.
func seenBy(scope *mcp.Scope) *seenLists {
	kept, ok := scope.Value(seenKey{}, func() any { return new(seenLists) })
	if s, isSeen := kept.(*seenLists); ok && isSeen {
		return s
	}
	return new(seenLists) // the session has just ended
}

// listView returns the view from which a list is answered. The first page marks the
// list as seen by the session; a later page may be of another view and marks nothing.
func (g *Gateway) listView(req *mcp.Request, kind catalog.Kind) *view {
	if req.Scope == nil || req.Params.Has(mcp.FieldCursor) {
		return g.viewFor(viewerOf(req))
	}
	return seenBy(req.Scope).markListed(kind, func() *view { return g.viewFor(viewerOf(req)) })
}
