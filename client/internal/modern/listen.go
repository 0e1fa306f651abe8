// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Listen serves subscriptions/listen until the stream breaks, the server ends it, or
// ctx ends. The resource subscriptions of one scope share one stream: a legacy client
// subscribes to its resources one by one, and a server may limit its listens.
func (p *Protocol) Listen(ctx context.Context, req *mcp.Request, sink mcp.Caller) error {
	want, err := listen.ParseFilter(&req.Params)
	if err != nil {
		return err
	}
	own := *req
	own.LogLevel = mcp.LogNone // log messages belong to requests that do some work
	if w := p.wire.sharedPipe(); w != nil {
		return p.listenOnPipe(ctx, w, &own, want, sink)
	}
	if req.Scope == nil || len(want.URIs) == 0 {
		_, err := p.call(ctx, &own, &own.Params, sink)
		return err
	}
	v, ok := req.Scope.Value(p, func() any { return new(sharedListen) })
	h, isListen := v.(*sharedListen)
	if !ok || !isListen {
		return p.Fault(mcp.CodeSessionEnded, mcp.NotDispatched, nil, "the client's session has ended")
	}
	k := &upstreamLoop{sharedListen: h, p: p, req: own}
	return h.listen(ctx, p, k.run, want, sink)
}

// sharedListen is the stream of changes that the listens of a scope share. It is opened
// for the first of them and closed with the last. If a listen needs more than the
// stream carries, a wider one is opened. The old one continues until the new one is
// acknowledged, so that no change is missed. A narrower one replaces it in the same way
// if less is needed. The zero value is ready.
type sharedListen struct {
	feed listen.Feed

	mu          sync.Mutex
	subscribers map[*subscriber]struct{}
	running     bool          // a goroutine maintains the stream
	wide        bool          // the stream may carry unwanted notifications
	kick        chan struct{} // capacity 1: the plan may have changed
	replaced    replacedStreams
	pipe        pipeSubscribers // used on a pipe only
}

// subscriber is one listen.
type subscriber struct {
	want   listen.Filter
	news   *listen.Listener
	agreed chan listen.Filter // capacity 1: what was agreed
	ended  chan error         // capacity 1: why the stream ended or was refused

	// The fields below are guarded by sharedListen.mu.
	granted bool // agreed was sent
	pipeSubscriber
}

// listen serves one listen. keep maintains the stream; it is started if it does not
// run.
func (h *sharedListen) listen(ctx context.Context, p *Protocol, keep func(context.Context), want listen.Filter, sink mcp.Caller) error {
	sub := &subscriber{want: want, agreed: make(chan listen.Filter, 1), ended: make(chan error, 1)}
	sub.news = h.feed.Add(want)
	defer h.feed.Remove(sub.news)
	defer h.unsubscribe(sub)
	h.subscribe(p, keep, sub)
	var wake <-chan struct{} // nil until the acknowledgement is sent
	for {
		select {
		case <-ctx.Done():
			return p.GivenUp(ctx, mcp.Completed)
		case err := <-sub.ended:
			return err
		case agreed := <-sub.agreed:
			if wake == nil { // later acknowledgements do not change what was promised
				h.feed.Keep(sub.news, agreed)
			}
			if err := agreed.Acknowledge(ctx, sink); err != nil {
				return err
			}
			wake = sub.news.Wake()
		case <-wake:
			if err := h.feed.Take(sub.news).Notify(ctx, sink); err != nil {
				return err
			}
		}
	}
}

// subscribe adds a listen and starts keep if necessary.
func (h *sharedListen) subscribe(p *Protocol, keep func(context.Context), sub *subscriber) {
	if !h.add(sub) {
		return
	}
	// Ends with the last listen, or with the protocol. The protocol's close waits for
	// it.
	if _, ok := p.group.Start(keep); !ok {
		h.abandon(p.Closed())
	}
}

// add adds a listen. It reports whether the caller must start keep.
func (h *sharedListen) add(sub *subscriber) (start bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subscribers == nil {
		h.subscribers, h.kick = make(map[*subscriber]struct{}), make(chan struct{}, 1)
	}
	h.subscribers[sub] = struct{}{}
	h.pipe.serial++
	sub.serial = h.pipe.serial
	h.kickLocked()
	start = !h.running
	h.running = true
	return start
}

func (h *sharedListen) unsubscribe(sub *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subscribers, sub)
	h.wide = true
	h.kickLocked()
}

func (h *sharedListen) kickLocked() {
	select {
	case h.kick <- struct{}{}:
	default: // already signalled
	}
}

// narrow makes the loop check whether the stream carries unwanted notifications.
func (h *sharedListen) narrow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wide = true
	h.kickLocked()
}

// plan is the input for the loop's next step.
type plan struct {
	want listen.Filter // the union of all filters
	open bool          // the stream does not suffice, or carries too much
}

// plan computes the plan, and grants the listens that the stream serves. busy means
// that no stream can be opened now. ok is false if no listen is left. The loop has then
// ended, and add starts another one.
func (h *sharedListen) plan(cur *upstream, busy bool) (next plan, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subscribers) == 0 {
		h.running, h.wide, h.replaced = false, false, replacedStreams{}
		return plan{}, false
	}
	next.open = cur == nil
	all := listen.NewSet()
	for sub := range h.subscribers {
		all.Add(sub.want)
		if cur != nil && !sub.granted && !sub.grantLocked(cur, cur.settled()) {
			next.open = true
		}
	}
	if cur != nil && h.wide && !all.Covers(cur.agreed) {
		next.open = true
	}
	// Try once per reason, so that a server that refuses a narrower stream is not asked
	// again and again.
	h.wide = h.wide && busy
	next.want = all.Filter()
	return next, true
}

// grant acknowledges the listens that st was opened for.
func (h *sharedListen) grant(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subscribers {
		if !sub.granted {
			sub.grantLocked(st, st.asked)
		}
	}
}

// grantLocked acknowledges a listen if all that it wants is in among, and reports
// whether it is.
func (sub *subscriber) grantLocked(st *upstream, among listen.Set) bool {
	if !among.Has(sub.want) {
		return false
	}
	sub.sendAgreedLocked(st)
	return true
}

// sendAgreedLocked sends what was agreed to the listen. It replaces a value not
// received yet.
func (sub *subscriber) sendAgreedLocked(st *upstream) {
	sub.granted = true
	select {
	case <-sub.agreed:
	default: // it was received
	}
	sub.agreed <- st.agreed.Of(sub.want) // does not block: this is the only sender
}

// regrant acknowledges, after a gap, the listens that were acknowledged before. A
// second acknowledgement means that changes may have been missed.
func (h *sharedListen) regrant(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subscribers {
		if sub.granted {
			sub.sendAgreedLocked(st)
		}
	}
}

// serves reports whether st was opened for all acknowledged listens. While it was being
// opened, a listen may have been acknowledged because of the previous stream.
func (h *sharedListen) serves(st *upstream) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subscribers {
		if sub.granted && !st.asked.Has(sub.want) {
			return false
		}
	}
	return true
}

// end ends all listens with err.
func (h *sharedListen) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked(err, func(*subscriber) bool { return true })
}

// refuse ends the listens that wait for st and are not acknowledged. Listens added
// after it was opened wait for the next stream.
func (h *sharedListen) refuse(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked(st.err, func(sub *subscriber) bool { return !sub.granted && st.asked.Has(sub.want) })
}

func (h *sharedListen) endLocked(err error, ends func(*subscriber) bool) {
	for sub := range h.subscribers {
		if ends(sub) {
			delete(h.subscribers, sub)
			sub.ended <- err
		}
	}
}

// abandon ends all listens if no loop can run for them.
func (h *sharedListen) abandon(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = false
	h.endLocked(err, func(*subscriber) bool { return true })
}

// upstream is one subscriptions/listen request to the server.
type upstream struct {
	shared *sharedListen
	asked  listen.Set
	cancel context.CancelFunc
	acked  chan struct{} // closed when agreed is set
	done   chan struct{} // closed when err is set

	agreed listen.Set
	err    error

	replaced bool      // guarded by sharedListen.mu: another stream has replaced it
	until    time.Time // when to stop reading it, once it was replaced

	// Used on a pipe only.
	id          mcp.ID
	opened      time.Time
	abandonedAt time.Time // guarded by sharedListen.mu: when it was cancelled
}

// Notify receives the server's notifications.
func (st *upstream) Notify(_ context.Context, n *mcp.Notification) error {
	switch n.Method {
	case listen.MethodAcknowledged:
		if !call.IsClosed(st.acked) { // Notify is called by one goroutine
			st.agree(n)
			close(st.acked)
		}
	case listen.MethodTools, listen.MethodPrompts, listen.MethodResources, listen.MethodUpdated, listen.MethodTask:
		if st.shared.isNew(st, n) {
			st.shared.publish(n)
		}
	}
	return nil
}

// publish passes a notification to the listens that it concerns.
func (h *sharedListen) publish(n *mcp.Notification) {
	switch n.Method {
	case listen.MethodTools:
		h.feed.Mark(listen.Tools)
	case listen.MethodPrompts:
		h.feed.Mark(listen.Prompts)
	case listen.MethodResources:
		h.feed.Mark(listen.Resources)
	case listen.MethodUpdated:
		if !h.feed.Update(n) {
			h.narrow()
		}
	case listen.MethodTask:
		h.feed.Task(n)
	}
}

// agree records what the server has agreed to. An acknowledgement without a filter
// agrees to everything.
func (st *upstream) agree(n *mcp.Notification) {
	st.agreed = listen.SetOf(st.asked.Filter().Agreed(&n.Params))
}

// settled returns the part of the filter that need not be asked for again. A resource
// or task that the server did not agree to now, it may agree to later; a list that it
// does not notify about, it supports for no listen.
func (st *upstream) settled() listen.Set {
	return listen.Set{Lists: st.asked.Lists, URIs: st.agreed.URIs, Tasks: st.agreed.Tasks}
}

// Start rejects the request: a listen involves no requests of the server.
func (st *upstream) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return call.NoCaller{}.Start(ctx, req)
}

// Extension returns one that can do nothing.
func (st *upstream) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// acknowledged and ended return the stream's channels. st may be nil.
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

// upstreamLoop maintains the stream of a sharedListen, on one goroutine. cur is the
// acknowledged stream, next one that is being opened to replace it.
type upstreamLoop struct {
	*sharedListen
	p   *Protocol
	req mcp.Request

	cur, next  *upstream
	gap        bool // there was no stream for a while, so changes may have been missed
	failures   int  // in a row
	retryTimer <-chan time.Time
	oldTimer   <-chan time.Time // the oldest of the replaced streams need not be read any longer
	streams    call.Goroutines
}

// run maintains the stream until no listen is left or ctx ends.
func (k *upstreamLoop) run(ctx context.Context) {
	defer k.streams.Close()
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
			k.end(k.p.Closed())
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

// open opens the next stream.
func (k *upstreamLoop) open(want listen.Filter) {
	st := &upstream{
		shared: k.sharedListen, asked: listen.SetOf(want),
		acked: make(chan struct{}), done: make(chan struct{}),
	}
	req := k.req
	params, err := listenParams(want)
	if err != nil {
		k.end(k.p.Fault(mcp.CodeInternalError, mcp.NotDispatched, err, "its request could not be written"))
		return
	}
	req.Params = params
	// Ends when it is cancelled, or with the loop, which waits for it.
	st.cancel, _ = k.streams.Start(func(ctx context.Context) {
		defer close(st.done)
		_, st.err = k.p.call(ctx, &req, &req.Params, st)
		if st.err == nil {
			st.err = k.p.Lost(nil, "it ended the subscription")
		}
	})
	k.next = st
}

// listenParams returns the parameters of a listen with the filter.
func listenParams(want listen.Filter) (mcp.Object, error) {
	raw, err := want.Params()
	if err != nil {
		return mcp.Object{}, err
	}
	req, err := mcp.NewRequest(call.MethodListen, raw)
	if err != nil {
		return mcp.Object{}, err
	}
	return req.Params, nil
}

// swap replaces cur by next, unless an acknowledged listen would lose notifications.
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

// refused handles a stream that ended before its acknowledgement. The listens that wait
// for it end with its error. Acknowledged ones keep their stream, or wait for another
// one.
func (k *upstreamLoop) refused() {
	st := k.next
	if call.IsClosed(st.acked) { // acknowledged, and ended before the loop ran
		k.swap()
		return
	}
	k.next = nil
	switch {
	case call.Answered(st.err) && k.closeReplaced(maxReplaced):
		k.narrow() // the server may limit its streams: try once more when the replaced ones are closed
	case k.cur == nil && k.isHopeless(st.err):
		k.end(st.err)
	default:
		k.refuse(st)
	}
	k.pause()
}

// broken handles the end of the current stream.
func (k *upstreamLoop) broken() {
	err := k.cur.err
	k.cur, k.gap = nil, true
	if k.isHopeless(err) {
		k.end(err)
		return
	}
	k.pause()
}

// isHopeless reports whether no other stream of this protocol should be attempted: the
// server has refused it, is of another era, or has failed too often.
func (k *upstreamLoop) isHopeless(err error) bool {
	k.failures++
	return call.Answered(err) || call.IsRejected(err, call.WrongEra) || call.IsRejected(err, call.NeverSpoke) || k.failures >= call.MaxListenFailures
}

// pause delays the next attempt, longer each time.
func (k *upstreamLoop) pause() {
	wait := min(call.MinListenWait<<min(k.failures, 10), call.MaxListenWait)
	k.retryTimer = time.After(backoff.Jitter(wait))
}
