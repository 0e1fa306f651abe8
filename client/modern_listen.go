// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// listen serves subscriptions/listen until the stream breaks, the server ends
// it, or ctx ends. The subscriptions of one scope share one stream: a legacy
// client subscribes to its resources one by one, and a server may bound how many
// listens it serves.
func (p *modern) listen(ctx context.Context, req *mcp.Request, sink mcp.Caller) error {
	want, err := parseFilter(&req.Params)
	if err != nil {
		return err
	}
	own := *req
	own.LogLevel = mcp.LogNone // log messages belong to requests that do something
	if w := p.wire.sharedPipe(); w != nil {
		return p.listenOnPipe(ctx, w, &own, want, sink)
	}
	if req.Scope == nil || len(want.URIs) == 0 {
		_, err := p.call(ctx, &own, &own.Params, sink)
		return err
	}
	v, ok := req.Scope.Value(p, func() any { return new(sharedListen) })
	h, isHub := v.(*sharedListen)
	if !ok || !isHub {
		return p.fault(mcp.CodeSessionEnded, mcp.NotDispatched, nil, "the client's session has ended")
	}
	k := &upstreamLoop{sharedListen: h, p: p, req: own}
	return h.listen(ctx, p, k.run, want, sink)
}

// sharedListen is the one stream of changes that the listens of a scope share: opened for
// the first of them and closed with the last. Where one more is wanted than the
// stream tells of, a wider one is opened, and the old one goes on until that is
// acknowledged, so that nothing is missed in between. In the same way a narrower one
// takes its place where less is wanted. The zero value is ready.
type sharedListen struct {
	feed changeFeed

	mu          sync.Mutex
	subscribers map[*subscriber]struct{}
	running     bool          // somebody keeps the stream
	wide        bool          // the stream may tell of what nobody wants
	kick        chan struct{} // capacity 1: there is something to look at
	replaced    replacedStreams
	pipe        pipeSubscribers // of a pipe
}

// subscriber is one listen.
type subscriber struct {
	want   filter
	news   *changeListener
	agreed chan filter // capacity 1: what was agreed
	ended  chan error  // capacity 1: the stream is no more, or was refused

	// Guarded by hub.mu.
	granted bool // said was sent
	pipeSubscriber
}

// listen is one listen of the hub. keep keeps the stream, if nobody does.
func (h *sharedListen) listen(ctx context.Context, p *modern, keep func(context.Context), want filter, sink mcp.Caller) error {
	ear := &subscriber{want: want, agreed: make(chan filter, 1), ended: make(chan error, 1)}
	ear.news = h.feed.add(want)
	defer h.feed.remove(ear.news)
	defer h.unsubscribe(ear)
	h.subscribe(p, keep, ear)
	var wake <-chan struct{} // nil until the acknowledgement is told
	for {
		select {
		case <-ctx.Done():
			return p.givenUp(ctx, mcp.Completed)
		case err := <-ear.ended:
			return err
		case agreed := <-ear.agreed:
			if wake == nil { // what is told of later was promised
				h.feed.keep(ear.news, agreed)
			}
			if err := acknowledge(ctx, agreed, sink); err != nil {
				return err
			}
			wake = ear.news.wake
		case <-wake:
			if err := h.feed.take(ear.news).notify(ctx, sink); err != nil {
				return err
			}
		}
	}
}

// join adds a listen and has somebody keep the stream.
func (h *sharedListen) subscribe(p *modern, keep func(context.Context), ear *subscriber) {
	if !h.add(ear) {
		return
	}
	// Ends with the last listen, or with the protocol, whose close waits for it.
	if _, ok := p.group.start(keep); !ok {
		h.abandon(p.closed())
	}
}

// add reports whether the caller is to start who keeps the stream.
func (h *sharedListen) add(ear *subscriber) (start bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subscribers == nil {
		h.subscribers, h.kick = make(map[*subscriber]struct{}), make(chan struct{}, 1)
	}
	h.subscribers[ear] = struct{}{}
	h.pipe.serial++
	ear.serial = h.pipe.serial
	h.kickLocked()
	start = !h.running
	h.running = true
	return start
}

func (h *sharedListen) unsubscribe(ear *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subscribers, ear)
	h.wide = true
	h.kickLocked()
}

func (h *sharedListen) kickLocked() {
	select {
	case h.kick <- struct{}{}:
	default: // it will be looked at
	}
}

// narrow has the stream looked at because it may tell of what nobody wants.
func (h *sharedListen) narrow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wide = true
	h.kickLocked()
}

// plan is what the keeper of a stream has to know.
type plan struct {
	want filter // all that is listened for
	open bool   // the stream does not do, or tells of too much
}

// plan looks at what is wanted, and serves those for whom the stream does. busy
// says that none can be opened now. ok is false where nobody listens: then nobody
// keeps the stream any more, from this step on.
func (h *sharedListen) plan(cur *upstream, busy bool) (next plan, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subscribers) == 0 {
		h.running, h.wide, h.replaced = false, false, replacedStreams{}
		return plan{}, false
	}
	next.open = cur == nil
	all := newFilterSet()
	for ear := range h.subscribers {
		all.add(ear.want)
		if cur != nil && !ear.granted && !ear.grantLocked(cur, cur.settled()) {
			next.open = true
		}
	}
	if cur != nil && h.wide && !all.covers(cur.agreed) {
		next.open = true
	}
	// Once for each reason: a server that refuses to tell of less is not asked again
	// and again.
	h.wide = h.wide && busy
	next.want = all.filter()
	return next, true
}

// grant tells those whom the stream serves what was agreed.
func (h *sharedListen) grant(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ear := range h.subscribers {
		if !ear.granted {
			ear.grantLocked(st, st.asked)
		}
	}
}

// grantLocked tells a listen what was agreed, if all that it wants is among it. It
// reports whether that is so.
func (ear *subscriber) grantLocked(st *upstream, among filterSet) bool {
	if !among.has(ear.want) {
		return false
	}
	ear.sendAgreedLocked(st)
	return true
}

// sayLocked tells a listen what was agreed. What was agreed before and is not looked
// at yet has been overtaken.
func (ear *subscriber) sendAgreedLocked(st *upstream) {
	ear.granted = true
	select {
	case <-ear.agreed:
	default: // it was looked at
	}
	ear.agreed <- st.agreed.of(ear.want) // has room: nobody else puts anything in
}

// grantAgain tells those who were promised something that another stream serves
// after a gap: whoever hears of a second acknowledgement knows that anything may have
// happened in between.
func (h *sharedListen) regrant(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ear := range h.subscribers {
		if ear.granted {
			ear.sendAgreedLocked(st)
		}
	}
}

// serves reports whether the stream was opened for all who were promised something.
// While it was being opened somebody may have been promised what the one before it
// still told of.
func (h *sharedListen) serves(st *upstream) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ear := range h.subscribers {
		if ear.granted && !st.asked.has(ear.want) {
			return false
		}
	}
	return true
}

// end ends all listens with the error.
func (h *sharedListen) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked(err, func(*subscriber) bool { return true })
}

// refuse ends the listens that wait for the stream, and were promised nothing yet.
// Those that have come since it was asked for wait for the next one.
func (h *sharedListen) refuse(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked(st.err, func(ear *subscriber) bool { return !ear.granted && st.asked.has(ear.want) })
}

func (h *sharedListen) endLocked(err error, ends func(*subscriber) bool) {
	for ear := range h.subscribers {
		if ends(ear) {
			delete(h.subscribers, ear)
			ear.ended <- err
		}
	}
}

// abandon ends all listens when nobody can keep a stream for them.
func (h *sharedListen) abandon(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = false
	h.endLocked(err, func(*subscriber) bool { return true })
}

// upstream is one subscriptions/listen at the server.
type upstream struct {
	shared *sharedListen
	asked  filterSet
	cancel context.CancelFunc
	acked  chan struct{} // closed when agreed is set
	done   chan struct{} // closed when err is set

	agreed filterSet
	err    error

	replaced bool      // guarded by hub.mu: another one has taken its place
	until    time.Time // when it is no longer read, once it was replaced

	// On a pipe.
	id          mcp.ID
	opened      time.Time
	abandonedAt time.Time // guarded by hub.mu: when it was given up
}

// Notify takes what the server tells.
func (st *upstream) Notify(_ context.Context, n *mcp.Notification) error {
	switch n.Method {
	case methodAcknowledged:
		if !isClosed(st.acked) { // one goroutine notifies
			st.agree(n)
			close(st.acked)
		}
	case methodTools, methodPrompts, methodResources, methodUpdated, methodTaskNotice:
		if st.shared.isNew(st, n) {
			st.shared.publish(n)
		}
	}
	return nil
}

// tell tells the listens whom it concerns.
func (h *sharedListen) publish(n *mcp.Notification) {
	switch n.Method {
	case methodTools:
		h.feed.mark(changedTools)
	case methodPrompts:
		h.feed.mark(changedPrompts)
	case methodResources:
		h.feed.mark(changedResources)
	case methodUpdated:
		if !h.feed.update(n) {
			h.narrow()
		}
	case methodTaskNotice:
		h.feed.task(n)
	}
}

// agree notes what the server will tell of. An acknowledgement that does not say
// agrees to all.
func (st *upstream) agree(n *mcp.Notification) {
	st.agreed = filterSetOf(acknowledged(n, st.asked.filter()))
}

// certain is what need not be asked for again: a resource or task that the server did
// not agree to for one it may agree to for the next, while a list that it does not
// tell of it has for nobody.
func (st *upstream) settled() filterSet {
	return filterSet{lists: st.asked.lists, uris: st.agreed.uris, tasks: st.agreed.tasks}
}

// Ask refuses: a listen asks nothing.
func (st *upstream) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	return noCaller{}.Ask(ctx, req)
}

// told and ended are the channels of a stream that may be nil.
func (st *upstream) acknowledged() <-chan struct{} {
	if st == nil {
		return nil
	}
	return st.acked
}

func (st *upstream) ended() <-chan struct{} {
	if st == nil {
		return nil
	}
	return st.done
}

// upstreamLoop keeps the stream of a hub, on one goroutine: cur is the one that
// serves, next one that is being opened to take its place.
type upstreamLoop struct {
	*sharedListen
	p   *modern
	req mcp.Request

	cur, next  *upstream
	gap        bool // nothing has served for a while, and nobody knows what happened
	failures   int  // in a row
	retryTimer <-chan time.Time
	oldTimer   <-chan time.Time // the first of past is not read any longer
	streams    goroutines
}

// run keeps the stream until nobody listens or ctx ends.
func (k *upstreamLoop) run(ctx context.Context) {
	defer k.streams.close()
	for {
		busy := k.next != nil || k.retryTimer != nil
		next, ok := k.plan(k.cur, busy)
		if !ok {
			return
		}
		if next.open && !busy {
			k.open(next.want)
		}
		select {
		case <-ctx.Done():
			k.end(k.p.closed())
		case <-k.kick:
		case <-k.next.acknowledged():
			k.swap()
		case <-k.next.ended():
			k.refused()
		case <-k.cur.ended():
			k.broken()
		case <-k.retryTimer:
			k.retryTimer = nil
		case <-k.oldTimer:
			k.closeReplaced(1)
		}
	}
}

// open opens the stream that is to serve next.
func (k *upstreamLoop) open(want filter) {
	st := &upstream{
		shared: k.sharedListen, asked: filterSetOf(want),
		acked: make(chan struct{}), done: make(chan struct{}),
	}
	req := k.req
	params, err := listenParams(want)
	if err != nil {
		k.end(k.p.fault(mcp.CodeInternalError, mcp.NotDispatched, err, "its request could not be written"))
		return
	}
	req.Params = params
	// Ends with its cancel, or with the keeper, which waits for it.
	st.cancel, _ = k.streams.start(func(ctx context.Context) {
		defer close(st.done)
		_, st.err = k.p.call(ctx, &req, &req.Params, st)
		if st.err == nil {
			st.err = k.p.lost(nil, "it ended the subscription")
		}
	})
	k.next = st
}

// listenParams writes what a listen asks for.
func listenParams(want filter) (mcp.Object, error) {
	raw, err := json.Marshal(struct {
		F filter `json:"notifications"`
	}{want})
	if err != nil {
		return mcp.Object{}, err
	}
	req, err := mcp.NewRequest(methodListen, raw)
	if err != nil {
		return mcp.Object{}, err
	}
	return req.Params, nil
}

// swap puts the new stream in the place of the old one, unless somebody would lose
// by it.
func (k *upstreamLoop) swap() {
	if k.cur != nil && !k.serves(k.next) {
		k.next.cancel()
		k.next = nil
		k.narrow()
		return
	}
	k.retire(k.cur)
	k.cur, k.next = k.next, nil
	k.failures = 0
	if k.gap {
		k.gap = false
		k.regrant(k.cur)
	}
	k.grant(k.cur)
}

// refused takes note of a stream that was never acknowledged. Those that wait for
// it have its error. Those that were promised something keep the stream that they
// have, or wait for another one.
func (k *upstreamLoop) refused() {
	st := k.next
	if isClosed(st.acked) { // and ended before anybody looked
		k.swap()
		return
	}
	k.next = nil
	switch {
	case answered(st.err) && k.closeReplaced(maxReplaced):
		k.narrow() // it may serve so many and no more: asked once again, when they are gone
	case k.cur == nil && k.isHopeless(st.err):
		k.end(st.err)
	default:
		k.refuse(st)
	}
	k.pause()
}

// broken takes note of a stream that served.
func (k *upstreamLoop) broken() {
	err := k.cur.err
	k.cur, k.gap = nil, true
	if k.isHopeless(err) {
		k.end(err)
		return
	}
	k.pause()
}

// isHopeless reports whether no other stream of this protocol is worth an attempt:
// the server has said so, is of another era, or has failed too often.
func (k *upstreamLoop) isHopeless(err error) bool {
	k.failures++
	return answered(err) || isRejected(err, wrongEra) || isRejected(err, neverSpoke) || k.failures >= maxListenFailures
}

// pause has the next attempt wait, longer each time.
func (k *upstreamLoop) pause() {
	wait := min(minListenWait<<min(k.failures, 10), maxListenWait)
	k.retryTimer = time.After(wait/2 + rand.N(wait/2)) //nolint:gosec // jitter, not a secret
}
