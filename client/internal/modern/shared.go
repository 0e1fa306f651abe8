// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Times of the single stream of a pipe.
const (
	// cancelAckTime limits the wait for the response to a cancelled listen, if the
	// server is known to send one.
	cancelAckTime = 2 * time.Second

	// ackTime is how long a stream may lack its acknowledgement. After it, listens that
	// another stream would serve no longer wait for it.
	ackTime = 10 * time.Second

	// narrowDelay is how long the stream may carry unwanted notifications. Replacing it
	// by a narrower one causes a gap for all other listens.
	narrowDelay = 5 * time.Minute

	// Each new listen interrupts the stream of all others. A burst of reopenBurst may
	// do so at once. After that the stream is reopened every reopenInterval, for all
	// that have joined.
	reopenInterval = 250 * time.Millisecond
	reopenBurst    = 8
)

// pipeSubscribers is the state of a sharedListen that only pipes need. It is guarded by
// sharedListen.mu. The zero value is ready.
type pipeSubscribers struct {
	serial uint64 // of the newest subscriber

	// unanswered are the listens that have no response. Some servers respond to a
	// cancelled listen when it has ended for them, and then also drop the subscriptions
	// of the next listen if that has begun. answersCancelled is set if this server does
	// so; stale, if it did so after another listen had begun.
	unanswered       map[mcp.ID]*upstream
	answersCancelled bool
	stale            bool
}

// pipeSubscriber is the state of a subscriber that only pipes need.
type pipeSubscriber struct {
	serial     uint64
	accepted   bool  // the server has acknowledged a stream with its filter
	pendingErr error // the server's error, if all other listens work
}

// pipeListenLoop maintains the single stream of changes of a pipe. It runs on one
// goroutine. Some servers have one set of subscriptions per pipe, which the end of any
// listen empties. So there is never more than one stream. It asks for the union of all
// filters. When the union changes, the old stream is cancelled and must end before the
// next one is opened. Changes during the gap may be missed, so everything is then
// reported as changed.
//
// A listen that the server refuses must not end the others. If the server refuses the
// union, the new listens are tried in halves, and finally one by one.
type pipeListenLoop struct {
	*sharedListen
	p    *Protocol
	wire *pipeConn

	cur     *upstream     // the acknowledged stream
	next    *upstream     // the stream that is being opened
	tried   []*subscriber // the listens that next is for
	closing *upstream     // the stream that was cancelled last
	idle    bool          // cur has ended because there is nothing to notify about

	batch      int // how many new listens are tried at once
	failures   int // in a row
	breaks     int // streams in a row that did not last
	narrowNow  bool
	ackLate    bool // next was not acknowledged within ackTime
	nextReopen time.Time

	retryTimer, endTimer, narrowTimer, ackTimer, paceTimer <-chan time.Time
	streams                                                call.Goroutines
}

// listenOnPipe is listen on a pipe.
func (p *Protocol) listenOnPipe(ctx context.Context, w *pipeConn, req *mcp.Request, want listen.Filter, sink mcp.Caller) error {
	w.Served.Note(req)
	if req.Client == nil || !taskform.Declared(req.Client.Capabilities) {
		want.TaskIDs = nil // the stream would ask for them in the gateway's name
	}
	k := &pipeListenLoop{sharedListen: &w.listens, p: p, wire: w, batch: math.MaxInt}
	return w.listens.listen(ctx, p, k.run, want, sink)
}

// run maintains the stream until no listen is left or ctx ends.
func (k *pipeListenLoop) run(ctx context.Context) {
	defer k.streams.Close()
	for {
		todo, ok := k.nextPlan()
		if !ok {
			return
		}
		k.step(todo)
		select {
		case <-ctx.Done():
			k.abandon(k.p.Closed())
			return
		case <-k.kick:
		case <-k.next.acknowledged():
			k.serve()
		case <-k.next.ended():
			k.refused()
		case <-k.live():
			k.broken()
		case <-k.closing.ended():
			k.closing = nil
		case <-k.endTimer:
			k.endTimer = nil
			k.stopAwaitingEnds()
		case <-k.retryTimer:
			k.retryTimer = nil
		case <-k.paceTimer:
			k.paceTimer = nil
		case <-k.narrowTimer:
			k.narrowTimer, k.narrowNow = nil, true
		case <-k.ackTimer:
			k.ackTimer, k.ackLate = nil, true
		}
	}
}

// live returns a channel that is closed when cur ends, unless it is known to have
// ended.
func (k *pipeListenLoop) live() <-chan struct{} {
	if k.idle {
		return nil
	}
	return k.cur.ended()
}

// pipeListenPlan is the input for the loop's next step.
type pipeListenPlan struct {
	want        listen.Set    // the filter of the next stream
	subscribers []*subscriber // the listens that it is for
	reopen      bool          // the current stream does not suffice
	wide        bool          // the stream carries unwanted notifications
	unwanted    bool          // no listen wants anything
	stale       bool          // the server may have dropped its subscriptions
	waiting     bool          // other listens wait for the next stream too
	awaitEnd    bool          // the server has not confirmed the end of a stream
}

// nextPlan computes the plan, and accepts the listens that the stream serves. ok is
// false if no listen and no stream is left. The loop has then ended, and add starts
// another one.
func (k *pipeListenLoop) nextPlan() (todo pipeListenPlan, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	todo = pipeListenPlan{want: listen.NewSet(), stale: k.pipe.stale}
	if len(k.subscribers) == 0 && k.cur == nil && k.next == nil && k.closing == nil {
		k.running = false
		return todo, false
	}
	all, fresh, more := listen.NewSet(), 0, false
	for _, sub := range k.inOrderLocked() {
		if k.canServeLocked(sub) {
			k.acceptLocked(sub)
		}
		all.Add(sub.want)
		switch {
		case listen.SetOf(sub.want).IsEmpty():
			continue
		case sub.pendingErr != nil:
			continue
		case sub.accepted:
		case fresh == k.batch:
			more = true
			continue
		default:
			fresh++
			todo.reopen = true
		}
		todo.want.Add(sub.want)
		todo.subscribers = append(todo.subscribers, sub)
	}
	if todo.want.IsEmpty() {
		k.endFailedLocked() // all other listens have ended
	}
	todo.unwanted = all.IsEmpty()
	todo.waiting = more || len(todo.subscribers) > 1
	todo.wide = k.cur != nil && !all.Covers(k.cur.agreed)
	todo.reopen = todo.reopen || k.cur == nil && !todo.want.IsEmpty() || k.narrowNow && todo.wide
	todo.awaitEnd = k.pipe.answersCancelled && k.hasAbandonedLocked()
	return todo, true
}

// canServeLocked reports whether the current stream serves a listen that has no
// acknowledgement yet.
func (k *pipeListenLoop) canServeLocked(sub *subscriber) bool {
	if sub.granted {
		return false
	}
	return listen.SetOf(sub.want).IsEmpty() || k.cur != nil && k.cur.settled().Has(sub.want)
}

func (k *pipeListenLoop) acceptLocked(sub *subscriber) {
	sub.accepted, sub.pendingErr = true, nil
	var st upstream // with nothing agreed
	if k.cur != nil {
		st.agreed = k.cur.agreed
	}
	sub.sendAgreedLocked(&st)
}

// inOrderLocked returns the listens in the order in which they were added.
func (h *sharedListen) inOrderLocked() []*subscriber {
	subs := make([]*subscriber, 0, len(h.subscribers))
	for sub := range h.subscribers {
		subs = append(subs, sub)
	}
	slices.SortFunc(subs, func(a, b *subscriber) int { return cmp.Compare(a.serial, b.serial) })
	return subs
}

// step does what the plan needs next: it cancels a stream, or opens one if there is
// none.
func (k *pipeListenLoop) step(todo pipeListenPlan) {
	switch {
	case !todo.wide:
		k.narrowTimer = nil
	case k.narrowTimer == nil:
		k.narrowTimer = time.After(narrowDelay)
	}
	switch {
	case k.closing != nil:
	case todo.unwanted && (k.cur != nil || k.next != nil), todo.stale && k.next != nil:
		k.giveUp()
	case k.next != nil:
		if k.ackLate && todo.waiting {
			k.isolate(k.p.Lost(nil, "it has not acknowledged the subscription in %v", ackTime))
			k.giveUp()
		}
	case k.retryTimer != nil || !todo.reopen && !todo.stale:
	case k.cur != nil:
		if k.mayReopen() {
			k.giveUp()
		}
	case todo.want.IsEmpty():
	case !todo.awaitEnd:
		k.tried = todo.subscribers
		k.open(todo.want)
	case k.endTimer == nil:
		k.endTimer = time.After(cancelAckTime)
	}
}

// mayReopen reports whether the stream may be interrupted for all listens now. If not,
// it sets a timer that repeats the step.
func (k *pipeListenLoop) mayReopen() bool {
	if k.paceTimer != nil {
		return false
	}
	now := time.Now()
	if k.nextReopen.Before(now) {
		k.nextReopen = now
	}
	if ahead := k.nextReopen.Sub(now); ahead >= reopenBurst*reopenInterval {
		k.paceTimer = time.After(ahead - (reopenBurst-1)*reopenInterval)
		return false
	}
	k.nextReopen = k.nextReopen.Add(reopenInterval)
	return true
}

// open opens the next stream.
func (k *pipeListenLoop) open(want listen.Set) {
	req := &mcp.Request{Method: call.MethodListen, Client: k.p.Self(), Scope: mcp.NewScope("", nil), LogLevel: mcp.LogNone}
	params, err := listenParams(want.Filter())
	if err != nil {
		k.end(k.p.Fault(mcp.CodeInternalError, mcp.NotDispatched, err, "its request could not be written"))
		return
	}
	req.Params = params
	if len(want.Tasks) > 0 {
		req = declaringTasks(req)
	}
	call, err := k.wire.open(call.MethodListen)
	if err != nil {
		k.end(err)
		return
	}
	st := &upstream{
		shared: k.sharedListen, asked: want, acked: make(chan struct{}), done: make(chan struct{}),
		id: call.ID(), opened: time.Now(),
	}
	k.addUnanswered(st)
	// Ends when it is cancelled, or with the loop, which waits for it.
	st.cancel, _ = k.streams.Start(func(ctx context.Context) {
		defer close(st.done)
		_, st.err = k.wire.roundTrip(ctx, k.p, call, req, &req.Params, st)
	})
	k.next, k.endTimer = st, nil
	k.ackLate, k.ackTimer, k.narrowNow = false, time.After(ackTime), false
}

// GiveUp cancels the stream, so that another one can be opened.
func (k *pipeListenLoop) giveUp() {
	st := cmp.Or(k.next, k.cur)
	k.cur, k.next, k.ackTimer, k.ackLate, k.idle = nil, nil, nil, false, false
	k.markAbandoned(st)
	st.cancel()
	k.closing = st
}

// serve makes the acknowledged stream the current one, for all listens that it was
// opened for. Those that another stream served before learn of the gap.
func (k *pipeListenLoop) serve() {
	k.cur, k.next, k.ackTimer, k.failures = k.next, nil, nil, 0
	if k.batch < math.MaxInt/2 {
		k.batch *= 2
	}
	k.serveAll()
}

func (k *pipeListenLoop) serveAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for sub := range k.subscribers {
		if k.cur.asked.Has(sub.want) {
			k.acceptLocked(sub)
		}
	}
	k.endFailedLocked() // the other listens work
}

func (h *sharedListen) endFailedLocked() {
	for sub := range h.subscribers {
		if sub.pendingErr != nil {
			h.endOneLocked(sub, sub.pendingErr)
		}
	}
}

// refused handles a stream that ended before its acknowledgement.
func (k *pipeListenLoop) refused() {
	st := k.next
	if call.IsClosed(st.acked) { // acknowledged, and ended before the loop ran
		k.serve()
		return
	}
	k.next, k.ackTimer = nil, nil
	k.noteAnswer(st.id)
	if !call.Answered(st.err) {
		k.failures++
	}
	err := cmp.Or(st.err, error(k.p.Lost(nil, "it ended the subscription")))
	switch {
	case k.isDead(err), isMissing(err), k.failures >= call.MaxListenFailures:
		k.end(err)
	case call.Answered(st.err):
		k.isolate(err)
	default:
		k.pause()
	}
}

// isDead reports whether the pipe has ended, so that a new one must be opened.
func (k *pipeListenLoop) isDead(err error) bool {
	return k.wire.Calls.Err() != nil || call.IsRejected(err, call.WrongEra)
}

// isMissing reports whether the server does not support subscriptions at all.
func isMissing(err error) bool { return errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) }

// isolate finds out which listen caused the refusal of a stream. No listen gets an
// error that another one has caused: if only one is new, it gets the error once the
// others work without it. Equal listens that have joined since are tried in their turn.
func (k *pipeListenLoop) isolate(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var fresh, old []*subscriber
	for _, sub := range k.tried {
		switch _, here := k.subscribers[sub]; {
		case !here:
		case sub.accepted:
			old = append(old, sub)
		default:
			fresh = append(fresh, sub)
		}
	}
	switch {
	case len(fresh)+len(old) == 0: // all have ended meanwhile
	case len(fresh) > 1:
		k.batch = len(fresh) / 2
	case len(fresh) == 1 && len(old) > 0:
		fresh[0].pendingErr = err
	case len(fresh) == 1:
		k.endOneLocked(fresh[0], err)
	default: // the server refuses what it accepted before
		k.retestLocked(old, err)
	}
}

// retestLocked treats listens that the server accepted before like new ones.
func (k *pipeListenLoop) retestLocked(old []*subscriber, err error) {
	for sub := range k.subscribers {
		sub.pendingErr = nil
	}
	if len(old) == 1 {
		k.endOneLocked(old[0], err)
		return
	}
	k.batch = max(1, len(old)/2)
	for _, sub := range old {
		sub.accepted = false
	}
}

func (h *sharedListen) endOneLocked(only *subscriber, err error) {
	h.endLocked(err, func(sub *subscriber) bool { return sub == only })
}

// broken handles the end of the current stream.
func (k *pipeListenLoop) broken() {
	st := k.cur
	k.noteAnswer(st.id)
	if st.err == nil && st.agreed.IsEmpty() {
		k.idle = true // the server has nothing to notify about, and ends the stream in order
		return
	}
	k.cur = nil
	err := cmp.Or(st.err, error(k.p.Lost(nil, "it ended the subscription")))
	if k.isDead(err) {
		k.end(err)
		return
	}
	if time.Since(st.opened) > call.MaxListenWait {
		k.breaks = 0
	}
	k.pause()
}

// pause delays the next attempt, longer each time.
func (k *pipeListenLoop) pause() {
	wait := min(call.MinListenWait<<min(k.breaks, 10), call.MaxListenWait)
	k.breaks++
	k.retryTimer = time.After(backoff.Jitter(wait))
}

// addUnanswered registers a stream about to be opened. It renews all subscriptions that
// the server may have dropped.
func (h *sharedListen) addUnanswered(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pipe.unanswered == nil {
		h.pipe.unanswered = make(map[mcp.ID]*upstream)
	}
	h.pipe.unanswered[st.id] = st
	h.pipe.stale = false
}

// markAbandoned records that a stream is cancelled.
func (h *sharedListen) markAbandoned(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st.abandonedAt = time.Now()
	for id, old := range h.pipe.unanswered {
		if old.isAbandoned() && time.Since(old.abandonedAt) >= call.AbandonedTime {
			delete(h.pipe.unanswered, id) // a server need not respond to it
		}
	}
}

func (st *upstream) isAbandoned() bool { return !st.abandonedAt.IsZero() }

// noteAnswer records that the server has responded to a listen. If that was a cancelled
// one, the server may have dropped the subscriptions made since.
func (h *sharedListen) noteAnswer(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.pipe.unanswered[id]
	delete(h.pipe.unanswered, id)
	if st != nil && st.isAbandoned() {
		h.pipe.answersCancelled, h.pipe.stale = true, true
		h.kickLocked()
	}
}

// hasAbandonedLocked reports whether a cancelled stream has no response yet.
func (h *sharedListen) hasAbandonedLocked() bool {
	for _, st := range h.pipe.unanswered {
		if st.isAbandoned() {
			return true
		}
	}
	return false
}

// stopAwaitingEnds records that the server sends no response to a cancelled listen, as
// the specification requires (2026-07-28, basic/patterns/cancellation, "Behavior
// Requirements").
func (h *sharedListen) stopAwaitingEnds() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pipe.answersCancelled = false
}
