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
	g.onlyClient.set(req)
	want, err := g.parseFilter(req)
	if err != nil {
		return nil, err
	}
	if len(want.URIs)+len(want.TaskIDs) > 0 {
		return nil, errors.ErrUnsupported // resources and tasks need goroutines
	}
	// With sending set, a change before run is only recorded.
	w := &listWatch{g: g, ctx: ctx, of: clientOf(req), caller: caller, want: want, sending: true}
	// In this order, as in listen.
	g.changed.subscribe(w)
	w.seen = g.initialSeen(w.of, want)
	if err = want.Acknowledge(ctx, caller); err == nil {
		err = w.run()
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	return w.stop, nil
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

// allLists are the lists that sessions are notified of.
const allLists = listen.Tools | listen.Prompts | listen.Resources

// changedLists returns the lists of a difference.
func changedLists(d catalog.Changes) listen.Lists {
	return listen.Filter{Tools: d.Tools, Prompts: d.Prompts, Resources: d.Resources}.Lists()
}

// listen serves subscriptions/listen: the acknowledgement, then a notification for each
// change of the client's view and of the resources and tasks in the filter, until ctx
// ends.
func (g *Gateway) listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	want, err := g.parseFilter(req)
	if err != nil {
		return nil, err
	}
	// In this order: a change after the subscription wakes it, and a change before it
	// is in the initial state or, for a session, due since its last list.
	changed := newSignal()
	g.changed.subscribe(changed)
	defer g.changed.unsubscribe(changed)
	of := clientOf(req)
	seen := g.initialSeen(of, want)
	sub := newSubscription(g, req, caller)
	defer sub.wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	want = sub.subscribe(ctx, want)
	// What is left out of the request, the client knows to expect nothing for.
	if err := want.Acknowledge(ctx, caller); err != nil {
		return nil, err
	}
	close(sub.acknowledged)
	for {
		if err := g.sendListChanged(ctx, of, caller, want, seen); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return mcp.NewResult([]byte("{}"))
		case <-changed:
		}
		sub.resubscribe(ctx)
	}
}

// sendListChanged sends the notifications that are due since the last ones. A
// notification that could not be sent stays due.
func (g *Gateway) sendListChanged(ctx context.Context, of requester, caller mcp.Caller, want listen.Filter, seen *seenLists) error {
	if want.Lists() == 0 {
		return nil // the state of the lists belongs to another listen
	}
	// Before sending: a change that comes in between is in the next notification.
	now := seen.snapshot(func() *view { return g.viewFor(of) })
	// Without parameters: the protocol does not name the changed items, and the next list
	// may be newer still.
	for _, method := range (want.Lists() & changedLists(now.due)).Methods() {
		if err := caller.Notify(ctx, &mcp.Notification{Method: method}); err != nil {
			return err
		}
	}
	seen.markSent(now)
	return nil
}

// listWatch is a listen for lists only. It has a goroutine only while it sends: a
// gateway may have a hundred thousand of them, nearly all idle nearly all of the time.
type listWatch struct {
	g      *Gateway
	ctx    context.Context //nolint:containedctx // the context of the listen, which is what this is
	of     requester
	caller mcp.Caller
	want   listen.Filter
	seen   *seenLists

	mu      sync.Mutex
	sending bool // a goroutine sends, and checks again before it ends
	rerun   bool
	stopped bool
	senders sync.WaitGroup
}

// wake starts sending if notifications are due. It does not block.
func (w *listWatch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
	case w.sending:
		w.rerun = true
	case w.want.Lists() != 0 && w.seen.diff(w.g.viewFor(w.of).version()).Any():
		w.sending = true
		// Ends when all that is due was sent, or with the listen; stop waits for it.
		w.senders.Go(func() { _ = w.run() }) // what could not be sent stays due until the next change
	}
}

// run sends what is due until nothing is.
func (w *listWatch) run() error {
	for {
		err := w.g.sendListChanged(w.ctx, w.of, w.caller, w.want, w.seen)
		if !w.mustRunAgain(err) {
			return err
		}
	}
}

// mustRunAgain reports whether there may be a change since run sent. After a failure it
// reports false: the next change tries again.
func (w *listWatch) mustRunAgain(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = err == nil && w.rerun && !w.stopped
	w.rerun = false
	return w.sending
}

// stop ends the listen. Its context has ended.
func (w *listWatch) stop() {
	w.g.changed.unsubscribe(w)
	w.markStopped()
	w.senders.Wait()
}

func (w *listWatch) markStopped() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}

// broadcast wakes its subscribers after the catalog was replaced. It carries no
// content: each listener compares what it last sent with the current state. So many
// changes become one notification, and none is missed.
type broadcast struct {
	mu          sync.Mutex
	subscribers map[subscriber]struct{}
}

// subscriber is woken by a broadcast. wake does not block and does not call the
// broadcast.
type subscriber interface{ wake() }

// signal is a subscriber that a goroutine waits for. It has capacity 1, so that wakes
// merge.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) wake() {
	select {
	case s <- struct{}{}:
	default: // already woken
	}
}

// subscribe registers s to be woken after each change, until unsubscribe.
func (b *broadcast) subscribe(s subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subscribers == nil {
		b.subscribers = make(map[subscriber]struct{})
	}
	b.subscribers[s] = struct{}{}
}

func (b *broadcast) unsubscribe(s subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subscribers, s)
}

// wakeAll wakes all subscribers. It does not block.
func (b *broadcast) wakeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subscribers {
		s.wake()
	}
}

// seenLists is the state of the lists that one listener knows, list by list: the last
// one notified or listed. A legacy session is notified only of the lists that it has
// requested. The state of a session outlives its stream, so that a change between two
// GETs is sent on the second; if that supersedes the first, both may be sending for a
// moment.
type seenLists struct {
	mu      sync.Mutex
	version version
	tracked [catalog.NumKinds]bool   // the listener has the list, or is notified of it in any case
	serials [catalog.NumKinds]uint64 // of the snapshot or list that set the list in version
	serial  uint64                   // counts snapshots and lists
}

// diffLocked returns what to notify the listener of, if now is current.
func (s *seenLists) diffLocked(now version) catalog.Changes {
	known := s.version
	for k := range catalog.NumKinds {
		if !s.tracked[k] {
			known.copyKind(k, now)
		}
	}
	return known.diff(now)
}

// diff returns what differs from now.
func (s *seenLists) diff(now version) catalog.Changes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.diffLocked(now)
}

// snapshot is a state of the lists and what is due to reach it.
type snapshot struct {
	now    version
	due    catalog.Changes
	serial uint64 // see seenLists.serial
}

// snapshot returns what is due now. It calls current under the lock, so that the later
// of two snapshots is as new or newer.
func (s *seenLists) snapshot(current func() *view) snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	now := current().version()
	return snapshot{now, s.diffLocked(now), s.serial}
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
			s.version.copyKind(k, sent.now)
			s.serials[k] = sent.serial
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
	s.version.copyKind(k, v.version())
	s.tracked[k], s.serials[k] = true, s.serial
	return v
}

// seenKey is the key of a session's seenLists in its scope.
type seenKey struct{}

// initialSeen returns the state that a listener starts from: for a session, the lists
// that it has; for a modern listen, the current state. A listen in a scope that filters
// out some lists also starts from the current state, because otherwise the lists that
// it leaves out would count as sent to the others.
func (g *Gateway) initialSeen(of requester, want listen.Filter) *seenLists {
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
		return g.viewFor(clientOf(req))
	}
	return seenBy(req.Scope).markListed(kind, func() *view { return g.viewFor(clientOf(req)) })
}
