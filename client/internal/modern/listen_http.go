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

// maxReplaced limits the replaced streams that are read. Each was current for as long
// as the next one took to open, so the oldest has been read for several times that.
const maxReplaced = 3

// listen serves a listen. The resource subscriptions of one scope share one stream: a
// legacy client subscribes to its resources one by one, and a server may limit its
// listens. Any other listen has a stream of its own.
func (w *httpConn) listen(ctx context.Context, p *Protocol, req *mcp.Request, want listen.Filter, sink mcp.Caller) error {
	if req.Scope == nil || len(want.URIs) == 0 {
		_, err := p.call(ctx, req, &req.Params, sink)
		return err
	}
	v, ok := req.Scope.Value(p, func() any { return new(scopeListens) })
	g, isListens := v.(*scopeListens)
	if !ok || !isListens {
		return p.Fault(mcp.CodeSessionEnded, mcp.NotDispatched, nil, "the client's session has ended")
	}
	k := &scopeLoop{scopeListens: g, p: p, req: *req}
	return g.serve(ctx, p, k.run, want, sink)
}

// scopeListens are the listens of a scope that share one stream. It is opened for the
// first of them and closed with the last. If a listen needs more than the stream
// carries, a wider one is opened. The old one continues until the new one is
// acknowledged, so that no change is missed. A narrower one replaces it in the same way
// if less is needed.
type scopeListens struct {
	listenGroup

	// The fields below are guarded by listenGroup.mu. While replaced streams are read,
	// nearly always the current stream brings the same notifications. So theirs are
	// held back for as long as the current stream may bring them: each change is
	// reported at least once, and if possible only once.
	seen     map[string]bool              // what the current stream has brought; nil if no replaced stream is read
	heldBack map[string]*mcp.Notification // what only the replaced streams have brought
}

// scopeLoop maintains the stream of scopeListens, on one goroutine.
type scopeLoop struct {
	*scopeListens
	p   *Protocol
	req mcp.Request

	cur      *upstream   // the acknowledged stream
	next     *upstream   // the stream that is being opened to replace it
	replaced []*upstream // still read, oldest first

	gap           bool             // there was no stream for a while, so changes may have been missed
	failures      int              // in a row
	retryTimer    <-chan time.Time // nil if a stream may be opened now
	replacedTimer <-chan time.Time // the oldest of the replaced streams need not be read any longer
	streams       call.Goroutines
}

// run maintains the stream until no listen is left or ctx ends.
func (k *scopeLoop) run(ctx context.Context) {
	defer k.streams.Close()
	for {
		canOpen := k.next == nil && k.retryTimer == nil
		want, open, ok := k.plan(k.cur, canOpen)
		if !ok {
			return
		}
		if open && canOpen {
			k.open(want)
		}
		var acked, refused, broken <-chan struct{}
		if k.next != nil {
			acked, refused = k.next.acked, k.next.done
		}
		if k.cur != nil {
			broken = k.cur.done
		}
		select {
		case <-ctx.Done():
			k.end(k.p.Closed())
		case <-k.kick:
		case <-acked:
			k.swap()
		case <-refused:
			k.refused()
		case <-broken:
			k.broken()
		case <-k.retryTimer:
			k.retryTimer = nil
		case <-k.replacedTimer:
			k.closeReplaced(1)
		}
	}
}

// plan returns the union of all filters, and whether a stream must be opened for it. It
// grants the listens that the current stream serves. ok is false if no listen is left.
// The loop has then ended, and add starts another one.
func (g *scopeListens) plan(cur *upstream, canOpen bool) (want listen.Set, open, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.subscribers) == 0 {
		g.running, g.narrow, g.seen, g.heldBack = false, false, nil, nil
		return want, false, false
	}
	want, open = listen.NewSet(), cur == nil
	for _, sub := range g.subscribers {
		want.Add(sub.want)
		switch {
		case cur == nil || sub.granted:
		case cur.settled().Has(sub.want):
			sub.grantLocked(cur.agreed)
		default:
			open = true
		}
	}
	if cur != nil && g.narrow && !want.Covers(cur.agreed) {
		open = true
	}
	// Try once per reason, so that a server that refuses a narrower stream is not asked
	// again and again.
	g.narrow = g.narrow && !canOpen
	return want, open, true
}

// open opens the next stream.
func (k *scopeLoop) open(want listen.Set) {
	req := k.req
	var err error
	if req.Params, err = k.p.listenParams(want); err != nil {
		k.end(err)
		return
	}
	st := newUpstream(want, k.receive)
	st.start(&k.streams, func(ctx context.Context) error {
		_, err := k.p.call(ctx, &req, &req.Params, st)
		if err == nil {
			err = k.p.Lost(nil, "it ended the subscription")
		}
		return err
	})
	k.next = st
}

// swap replaces cur by next, unless an acknowledged listen would lose notifications.
func (k *scopeLoop) swap() {
	st := k.next
	k.next = nil
	if !k.adopt(st, k.cur, k.gap) {
		st.cancel()
		k.checkNarrow()
		return
	}
	if k.cur != nil {
		k.retire(k.cur)
	}
	k.cur, k.gap, k.failures = st, false, 0
}

// adopt makes st the stream that all listens use, in place of old, which may be nil. It
// acknowledges the listens that st was opened for. After a gap it also acknowledges
// again those that were acknowledged before: changes may have been missed.
//
// It reports false, and does nothing, if old serves an acknowledged listen that st does
// not. That listen has begun while st was being opened.
func (g *scopeListens) adopt(st, old *upstream, gap bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old != nil {
		loses := func(sub *subscriber) bool { return sub.granted && !st.asked.Has(sub.want) }
		if slices.ContainsFunc(g.subscribers, loses) {
			return false
		}
		// What old has brought so far does not count as seen.
		old.replaced, g.seen = true, make(map[string]bool)
		if g.heldBack == nil {
			g.heldBack = make(map[string]*mcp.Notification)
		}
	}
	for _, sub := range g.subscribers {
		if sub.granted && gap || !sub.granted && st.asked.Has(sub.want) {
			sub.grantLocked(st.agreed)
		}
	}
	return true
}

// refused handles a stream that ended before its acknowledgement. The listens that wait
// for it end with its error. Acknowledged ones keep their stream, or wait for another
// one.
func (k *scopeLoop) refused() {
	st := k.next
	if call.IsClosed(st.acked) { // acknowledged, and ended before the loop ran
		k.swap()
		return
	}
	k.next = nil
	switch {
	case call.Answered(st.err) && k.closeReplaced(maxReplaced):
		k.checkNarrow() // the server may limit its streams: try once more when the replaced ones are closed
	case k.cur == nil && k.isHopeless(st.err):
		k.end(st.err)
	default:
		k.refuse(st)
	}
	k.retryTimer = time.After(reopenDelay(k.failures))
}

// refuse ends the listens that wait for st and are not acknowledged. Listens added
// after it was opened wait for the next stream.
func (g *scopeListens) refuse(st *upstream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked(func(sub *subscriber) error {
		if sub.granted || !st.asked.Has(sub.want) {
			return nil
		}
		return st.err
	})
}

// broken handles the end of the current stream.
func (k *scopeLoop) broken() {
	err := k.cur.err
	k.cur, k.gap = nil, true
	if k.isHopeless(err) {
		k.end(err)
		return
	}
	k.retryTimer = time.After(reopenDelay(k.failures))
}

// isHopeless counts a failure. It reports whether no other stream of this protocol
// should be attempted: the server has refused it, is of another era, or has failed too
// often.
func (k *scopeLoop) isHopeless(err error) bool {
	k.failures++
	return call.Answered(err) || call.IsRejected(err, call.WrongEra) || call.IsRejected(err, call.NeverSpoke) || k.failures >= call.MaxListenFailures
}

// receive publishes a change, or holds it back.
func (k *scopeLoop) receive(st *upstream, n *mcp.Notification) {
	if k.isNew(st, n) {
		k.publish(n)
	}
}

// publish publishes a change. A stream that brings unwanted ones is replaced.
func (g *scopeListens) publish(n *mcp.Notification) {
	if !g.listenGroup.publish(n) {
		g.checkNarrow()
	}
}

// isNew reports whether a notification of st must be passed to the listens now.
func (g *scopeListens) isNew(st *upstream, n *mcp.Notification) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil {
		return true
	}
	uri, _ := n.Params.Text(mcp.FieldURI)
	id, _ := n.Params.Text(mcp.FieldTaskID)
	switch key := n.Method + " " + uri + " " + id; {
	case !st.replaced:
		// It is newer than any notification about this on the replaced streams.
		if len(g.seen) < listen.MaxSubResources {
			g.seen[key] = true
		}
		delete(g.heldBack, key)
		return true
	case g.seen[key]:
		return false
	case len(g.heldBack) >= listen.MaxSubResources, len(n.Params.Bytes())+len(n.Params.Beside()) > listen.MaxUpdate:
		return true // reporting it twice is better than not at all
	default:
		g.heldBack[key] = n
		return false
	}
}

// retire keeps a replaced stream open for a while.
func (k *scopeLoop) retire(old *upstream) {
	old.until = time.Now().Add(overlap)
	k.replaced = append(k.replaced, old)
	if k.replacedTimer == nil {
		k.replacedTimer = time.After(overlap)
	}
	for len(k.replaced) > maxReplaced {
		k.closeReplaced(1)
	}
}

// closeReplaced closes the n oldest replaced streams and publishes what was held back.
// It reports whether there were any.
func (k *scopeLoop) closeReplaced(n int) bool {
	n = min(n, len(k.replaced))
	for _, st := range k.replaced[:n] {
		st.cancel()
	}
	k.replaced = slices.Delete(k.replaced, 0, n)
	for _, change := range k.takeHeldBack(len(k.replaced) == 0) {
		k.publish(change)
	}
	k.replacedTimer = nil
	if len(k.replaced) > 0 {
		k.replacedTimer = time.After(time.Until(k.replaced[0].until))
	}
	return n > 0
}

// takeHeldBack removes all that was held back. last ends the overlap of streams.
func (g *scopeListens) takeHeldBack(last bool) []*mcp.Notification {
	g.mu.Lock()
	defer g.mu.Unlock()
	var held []*mcp.Notification
	for _, key := range slices.Sorted(maps.Keys(g.heldBack)) {
		held = append(held, g.heldBack[key])
	}
	clear(g.heldBack)
	if last {
		g.seen = nil
	}
	return held
}
