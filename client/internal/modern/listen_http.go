// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// overlap is how long a replaced stream of changes is still read. It and its
// replacement are separate connections: a notification sent on the first before the
// second was acknowledged may arrive after that.
const overlap = 500 * time.Millisecond

// maxReplaced limits the replaced streams that are read. Beyond it, the oldest is
// closed early. It has then been read while several newer streams were opened.
const maxReplaced = 3

// listen serves a listen. The resource subscriptions of one scope share one stream: a
// legacy client subscribes to its resources one by one, and a server may limit its
// listens. Any other listen has a stream of its own.
func (w *httpConn) listen(ctx context.Context, p *Protocol, req *mcp.Request, want listen.Filter, sink mcp.Caller) error {
	if req.Scope == nil || len(want.URIs) == 0 {
		_, err := w.call(ctx, p, req, &req.Params, sink)
		return err
	}
	v, ok := req.Scope.Value(p, func() any { return new(listenGroup) })
	g, isGroup := v.(*listenGroup)
	if !ok || !isGroup {
		return p.Fault(mcp.CodeSessionEnded, mcp.NotDispatched, nil, "the client's session has ended")
	}
	k := &scopeLoop{listenGroup: g, p: p, req: *req}
	return g.serve(ctx, p, k.run, want, sink)
}

// scopeLoop maintains the stream of the listens of a scope, on one goroutine. The
// stream is opened for the first of them and closed with the last. If a listen needs
// more than the stream carries, a wider one is opened. The old one continues until the
// new one is acknowledged, so that no change is missed. A narrower one replaces it in
// the same way if less is needed.
type scopeLoop struct {
	*listenGroup
	p       *Protocol
	req     mcp.Request
	streams call.Goroutines

	cur      *upstream   // the acknowledged stream
	next     *upstream   // the stream that is being opened to replace it
	replaced []*upstream // still read, oldest first
	gap      bool        // there was no stream for a while, so changes may have been missed
	failures int         // in a row
	retryAt  time.Time   // when a stream may be opened again after a failure

	// The fields below are guarded by listenGroup.mu. A notification on a replaced stream
	// nearly always arrives on the current stream, too. So it is held back until the
	// current stream has had time for it: each change is reported at least once, and
	// mostly only once.
	seen     map[string]bool              // received on the current stream; nil if no replaced stream is read
	heldBack map[string]*mcp.Notification // received on replaced streams only
}

// run maintains the stream until no listen is left or ctx ends.
func (k *scopeLoop) run(ctx context.Context) {
	defer k.streams.Close()
	for {
		todo, ok := k.step(time.Now())
		if !ok {
			return
		}
		for _, st := range todo.cancel {
			st.cancel()
		}
		for _, n := range todo.report {
			k.report(n)
		}
		if todo.open {
			k.open(todo.want)
		}
		if !k.wait(ctx, todo.again) {
			k.stop(k.p.Closed())
			return
		}
	}
}

// scopeStep is what run must do, and when to look again if nothing happens.
type scopeStep struct {
	cancel []*upstream
	report []*mcp.Notification
	open   bool // a stream for want
	want   listen.Set
	again  time.Time // zero if there is nothing to wait for
}

// step updates the state of the streams after an event, grants the listens that
// the current stream serves, and returns what to do next. ok is false if no listen is
// left. The loop has then ended, and the next listen starts another one.
func (k *scopeLoop) step(now time.Time) (todo scopeStep, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next != nil && k.next.acked {
		k.swapLocked(&todo, now)
	}
	if k.next != nil && k.next.ended {
		k.refusedLocked(&todo, now)
	}
	if k.cur != nil && k.cur.ended {
		k.brokenLocked(now)
	}
	for len(k.replaced) > 0 && !now.Before(k.replaced[0].until) {
		k.closeReplacedLocked(&todo)
	}
	if len(k.subscribers) == 0 {
		k.running, k.narrow = false, false
		return todo, false
	}
	todo.want, todo.open = listen.NewSet(), k.cur == nil
	for _, sub := range k.subscribers {
		todo.want.Add(sub.want)
		switch {
		case k.cur == nil || sub.granted:
		case k.cur.settled().Has(sub.want):
			sub.grantLocked(k.cur.agreed)
		default:
			todo.open = true
		}
	}
	if k.cur != nil && k.narrow && !todo.want.Covers(k.cur.agreed) {
		todo.open = true
	}
	if len(k.replaced) > 0 {
		todo.again = k.replaced[0].until
	}
	switch {
	case k.next != nil:
		todo.open = false
	case now.Before(k.retryAt):
		todo.open = false
		if todo.again.IsZero() || k.retryAt.Before(todo.again) {
			todo.again = k.retryAt
		}
	default:
		// Try once per reason, so that a server that refuses a narrower stream is not
		// asked again and again.
		k.narrow = false
	}
	return todo, true
}

// swapLocked replaces cur by next. It acknowledges the listens that next was opened
// for. After a gap it also acknowledges again those that were acknowledged before:
// changes may have been missed.
//
// If cur serves an acknowledged listen that next does not, cur stays. That listen has
// begun while next was being opened.
func (k *scopeLoop) swapLocked(todo *scopeStep, now time.Time) {
	old, st := k.cur, k.next
	k.next = nil
	if old != nil {
		loses := func(sub *subscriber) bool { return sub.granted && !st.asked.Has(sub.want) }
		if slices.ContainsFunc(k.subscribers, loses) {
			todo.cancel = append(todo.cancel, st)
			k.narrow = true
			return
		}
		if len(k.replaced) == maxReplaced {
			k.closeReplacedLocked(todo)
		}
		old.replaced, old.until = true, now.Add(overlap)
		k.replaced = append(k.replaced, old)
		k.seen = make(map[string]bool) // not what old has brought so far
	}
	for _, sub := range k.subscribers {
		if sub.granted && k.gap || !sub.granted && st.asked.Has(sub.want) {
			sub.grantLocked(st.agreed)
		}
	}
	k.cur, k.gap, k.failures = st, false, 0
}

// refusedLocked handles a stream that ended before its acknowledgement. The listens
// that wait for it end with its error. Acknowledged ones keep their stream, or wait for
// another one, and so do listens added after it was opened.
func (k *scopeLoop) refusedLocked(todo *scopeStep, now time.Time) {
	st := k.next
	k.next = nil
	switch {
	case call.Answered(st.err) && len(k.replaced) > 0:
		// The server may limit its streams: try once more when the replaced ones are
		// closed.
		for len(k.replaced) > 0 {
			k.closeReplacedLocked(todo)
		}
		k.narrow = true
	case k.cur == nil && k.isHopeless(st.err):
		k.endLocked(func(*subscriber) error { return st.err })
	default:
		k.endLocked(func(sub *subscriber) error {
			if sub.granted || !st.asked.Has(sub.want) {
				return nil
			}
			return st.err
		})
	}
	k.retryAt = now.Add(reopenDelay(k.failures))
}

// brokenLocked handles the end of the current stream.
func (k *scopeLoop) brokenLocked(now time.Time) {
	err := k.cur.err
	k.cur, k.gap = nil, true
	if k.isHopeless(err) {
		k.endLocked(func(*subscriber) error { return err })
	}
	k.retryAt = now.Add(reopenDelay(k.failures))
}

// isHopeless counts a failure. It reports whether no other stream of this protocol
// should be attempted: the server has refused it, is of another era, or has failed too
// often.
func (k *scopeLoop) isHopeless(err error) bool {
	k.failures++
	return call.Answered(err) || call.IsRejected(err, call.WrongEra) || call.IsRejected(err, call.NeverSpoke) || k.failures >= call.MaxListenFailures
}

// closeReplacedLocked closes the oldest replaced stream and publishes what was held
// back.
func (k *scopeLoop) closeReplacedLocked(todo *scopeStep) {
	todo.cancel = append(todo.cancel, k.replaced[0])
	k.replaced = slices.Delete(k.replaced, 0, 1)
	for _, key := range slices.Sorted(maps.Keys(k.heldBack)) {
		todo.report = append(todo.report, k.heldBack[key])
	}
	k.heldBack = nil
	if len(k.replaced) == 0 {
		k.seen = nil
	}
}

// open opens the next stream.
func (k *scopeLoop) open(want listen.Set) {
	filter, err := k.p.newListen(want)
	if err != nil {
		k.end(err)
		return
	}
	req := k.req
	req.Params = filter.Params
	st := &upstream{group: k.listenGroup, asked: want}
	st.receive = func(n *mcp.Notification) {
		if k.isNew(st, n) {
			k.report(n)
		}
	}
	st.start(&k.streams, func(ctx context.Context) error {
		_, err := k.p.wire.call(ctx, k.p, &req, &req.Params, st)
		if err == nil {
			err = k.p.Lost(nil, "it ended the subscription")
		}
		return err
	})
	k.next = st
}

// report publishes a change. If no listen wants it, a narrower stream may be needed.
func (k *scopeLoop) report(n *mcp.Notification) {
	if k.publish(n) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.narrow = true
	k.wakeLocked()
}

// isNew reports whether a notification of st must be passed to the listens now.
func (k *scopeLoop) isNew(st *upstream, n *mcp.Notification) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		return true
	}
	uri, _ := n.Params.Text(mcp.FieldURI)
	id, _ := n.Params.Text(mcp.FieldTaskID)
	key := n.Method + " " + uri + " " + id
	switch {
	case !st.replaced:
		// It is newer than any notification about this on the replaced streams.
		if len(k.seen) < listen.MaxSubResources {
			k.seen[key] = true
		}
		delete(k.heldBack, key)
		return true
	case k.seen[key]:
		return false
	case len(k.heldBack) >= listen.MaxSubResources, len(n.Params.Bytes())+len(n.Params.Beside()) > listen.MaxUpdate:
		return true // reporting it twice is better than not at all
	case k.heldBack == nil:
		k.heldBack = make(map[string]*mcp.Notification)
	}
	k.heldBack[key] = n
	return false
}
