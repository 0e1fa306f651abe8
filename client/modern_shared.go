// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The times of the one stream of a pipe.
const (
	// lastAnswer bounds the wait for the answer to a listen that was given up, where the
	// server is known to give one.
	cancelAckTime = 2 * time.Second

	// ackTime is how long a stream may be without its acknowledgement before those
	// whom another one would serve stop waiting for it.
	ackTime = 10 * time.Second

	// spareTime is how long the stream may tell of what nobody wants: a narrower one
	// means a gap for all others.
	narrowDelay = 5 * time.Minute

	// Who joins has the stream cut for all others. A few at once are ordinary; beyond
	// that they come in turns of reopenTime, and together.
	reopenInterval = 250 * time.Millisecond
	reopenBurst    = 8
)

// pipeSubscribers is the part of a hub that only the one stream of a pipe has need of.
// It is guarded by hub.mu. The zero value is ready.
type pipeSubscribers struct {
	serial uint64 // of the newest ear

	// unanswered are the streams that were asked for, and not answered: some servers
	// answer a listen that was given up when it has ended for them, and take what the
	// next one wants with it if that has begun by then. answers says that this one
	// does; stale that it did after another one had begun.
	unanswered       map[mcp.ID]*upstream
	answersCancelled bool
	stale            bool
}

// pipeSubscriber is the same part of an ear.
type pipeSubscriber struct {
	serial     uint64
	accepted   bool  // the server has acknowledged a stream with what it wants
	pendingErr error // what the server said to it, if all others turn out to be well
}

// pipeListenLoop keeps the one stream of changes of a pipe, on one goroutine. Some
// servers have one set of subscriptions for a pipe, which the end of any listen
// empties. So there is never more than one: what all want together is asked for at
// once, and where that changes the old one is given up, and has ended, before the
// next is asked for. In between lies a gap, after which everything counts as changed.
//
// One listen that the server does not take must not cost the others theirs. Where it
// refuses the union, those that are new are tried by halves, and alone at last.
type pipeListenLoop struct {
	*sharedListen
	p    *modern
	wire *modernPipe

	cur     *upstream     // serves
	next    *upstream     // is asked for
	tried   []*subscriber // next is for them
	closing *upstream     // was given up a moment ago
	idle    bool          // cur has ended, because there is nothing to tell

	batch      int // how many that are new are tried at once
	failures   int // in a row
	breaks     int // of streams that did not last
	narrowNow  bool
	ackLate    bool // next is not acknowledged in time
	nextReopen time.Time

	retryTimer, endTimer, narrowTimer, ackTimer, paceTimer <-chan time.Time
	streams                                                goroutines
}

// listenShared is listen on a pipe.
func (p *modern) listenOnPipe(ctx context.Context, w *modernPipe, req *mcp.Request, want filter, sink mcp.Caller) error {
	w.served.note(req)
	if req.Client == nil || !taskform.Declared(req.Client.Capabilities) {
		want.TaskIDs = nil // which the stream would ask for in our name
	}
	k := &pipeListenLoop{sharedListen: &w.listens, p: p, wire: w, batch: math.MaxInt}
	return w.listens.listen(ctx, p, k.run, want, sink)
}

// run keeps the stream until nobody listens or ctx ends.
func (k *pipeListenLoop) run(ctx context.Context) {
	defer k.streams.close()
	for {
		todo, ok := k.nextPlan()
		if !ok {
			return
		}
		k.step(todo)
		select {
		case <-ctx.Done():
			k.abandon(k.p.closed())
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

// live ends with the stream that serves, unless that is known to have ended.
func (k *pipeListenLoop) live() <-chan struct{} {
	if k.idle {
		return nil
	}
	return k.cur.ended()
}

// pipeListenPlan is what a keeper has to know.
type pipeListenPlan struct {
	want        filterSet     // to be asked for next
	subscribers []*subscriber // who wants it
	reopen      bool          // the stream does not do
	wide        bool          // it tells of what nobody wants
	unwanted    bool          // wants anything
	stale       bool          // the server may have forgotten what it agreed to
	waiting     bool          // what is asked for next is not for one alone
	awaitEnd    bool          // the server is still to say that a stream has ended
}

// look looks at what is wanted, and serves those for whom the stream does. ok is
// false where nobody listens and nothing is left: then nobody keeps the stream any
// more, from this step on.
func (k *pipeListenLoop) nextPlan() (todo pipeListenPlan, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	todo = pipeListenPlan{want: newFilterSet(), stale: k.pipe.stale}
	if len(k.subscribers) == 0 && k.cur == nil && k.next == nil && k.closing == nil {
		k.running = false
		return todo, false
	}
	all, fresh, more := newFilterSet(), 0, false
	for _, ear := range k.inOrderLocked() {
		if k.canServeLocked(ear) {
			k.acceptLocked(ear)
		}
		all.add(ear.want)
		switch {
		case filterSetOf(ear.want).isEmpty():
			continue
		case ear.pendingErr != nil:
			continue
		case ear.accepted:
		case fresh == k.batch:
			more = true
			continue
		default:
			fresh++
			todo.reopen = true
		}
		todo.want.add(ear.want)
		todo.subscribers = append(todo.subscribers, ear)
	}
	if todo.want.isEmpty() {
		k.endFailedLocked() // all others have gone
	}
	todo.unwanted = all.isEmpty()
	todo.waiting = more || len(todo.subscribers) > 1
	todo.wide = k.cur != nil && !all.covers(k.cur.agreed)
	todo.reopen = todo.reopen || k.cur == nil && !todo.want.isEmpty() || k.narrowNow && todo.wide
	todo.awaitEnd = k.pipe.answersCancelled && k.hasAbandonedLocked()
	return todo, true
}

// canServeLocked reports whether an ear that was promised nothing yet needs no other
// stream than there is.
func (k *pipeListenLoop) canServeLocked(ear *subscriber) bool {
	if ear.granted {
		return false
	}
	return filterSetOf(ear.want).isEmpty() || k.cur != nil && k.cur.settled().has(ear.want)
}

func (k *pipeListenLoop) acceptLocked(ear *subscriber) {
	ear.accepted, ear.pendingErr = true, nil
	var st upstream // agrees to nothing
	if k.cur != nil {
		st.agreed = k.cur.agreed
	}
	ear.sendAgreedLocked(&st)
}

// inOrderLocked returns who listens, in the order in which they came.
func (h *sharedListen) inOrderLocked() []*subscriber {
	ears := make([]*subscriber, 0, len(h.subscribers))
	for ear := range h.subscribers {
		ears = append(ears, ear)
	}
	slices.SortFunc(ears, func(a, b *subscriber) int { return cmp.Compare(a.serial, b.serial) })
	return ears
}

// do takes the next step towards what is wanted: it gives a stream up, or asks for
// one where there is none.
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
			k.isolate(k.p.lost(nil, "it has not acknowledged the subscription in %v", ackTime))
			k.giveUp()
		}
	case k.retryTimer != nil || !todo.reopen && !todo.stale:
	case k.cur != nil:
		if k.mayReopen() {
			k.giveUp()
		}
	case todo.want.isEmpty():
	case !todo.awaitEnd:
		k.tried = todo.subscribers
		k.open(todo.want)
	case k.endTimer == nil:
		k.endTimer = time.After(cancelAckTime)
	}
}

// mayCut reports whether the stream may be cut for all now, and sees to it that it is
// looked at again when it may.
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

// open asks for the stream that is to serve next.
func (k *pipeListenLoop) open(want filterSet) {
	req := &mcp.Request{Method: methodListen, Client: k.p.self(), Scope: mcp.NewScope("", nil), LogLevel: mcp.LogNone}
	params, err := listenParams(want.filter())
	if err != nil {
		k.end(k.p.fault(mcp.CodeInternalError, mcp.NotDispatched, err, "its request could not be written"))
		return
	}
	req.Params = params
	if len(want.tasks) > 0 {
		req = declaringTasks(req)
	}
	call, err := k.wire.open(methodListen)
	if err != nil {
		k.end(err)
		return
	}
	st := &upstream{
		shared: k.sharedListen, asked: want, acked: make(chan struct{}), done: make(chan struct{}),
		id: call.ID(), opened: time.Now(),
	}
	k.addUnanswered(st)
	// Ends with its cancel, or with the keeper, which waits for it.
	st.cancel, _ = k.streams.start(func(ctx context.Context) {
		defer close(st.done)
		_, st.err = k.p.carry(ctx, call, req, &req.Params, st)
	})
	k.next, k.endTimer = st, nil
	k.ackLate, k.ackTimer, k.narrowNow = false, time.After(ackTime), false
}

// giveUp gives up the stream that there is, so that another one can be asked for.
func (k *pipeListenLoop) giveUp() {
	st := cmp.Or(k.next, k.cur)
	k.cur, k.next, k.ackTimer, k.ackLate, k.idle = nil, nil, nil, false, false
	k.markAbandoned(st)
	st.cancel()
	k.closing = st
}

// serve has the acknowledged stream serve all that it was asked for. Those that were
// there before hear of the gap.
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
	for ear := range k.subscribers {
		if k.cur.asked.has(ear.want) {
			k.acceptLocked(ear)
		}
	}
	k.endFailedLocked() // the others are well
}

func (h *sharedListen) endFailedLocked() {
	for ear := range h.subscribers {
		if ear.pendingErr != nil {
			h.endOneLocked(ear, ear.pendingErr)
		}
	}
}

// refused takes note of a stream that was never acknowledged.
func (k *pipeListenLoop) refused() {
	st := k.next
	if isClosed(st.acked) { // and ended before anybody looked
		k.serve()
		return
	}
	k.next, k.ackTimer = nil, nil
	k.noteAnswer(st.id)
	if !answered(st.err) {
		k.failures++
	}
	err := cmp.Or(st.err, error(k.p.lost(nil, "it ended the subscription")))
	switch {
	case k.isDead(err), isMissing(err), k.failures >= maxListenFailures:
		k.end(err)
	case answered(st.err):
		k.isolate(err)
	default:
		k.pause()
	}
}

// isDead reports whether the pipe has ended, so that another one has to be opened.
func (k *pipeListenLoop) isDead(err error) bool {
	return k.wire.calls.Err() != nil || isRejected(err, wrongEra)
}

// isMissing reports whether the server knows no subscriptions at all, whatever they
// are for.
func isMissing(err error) bool { return errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) }

// blame finds out, of those that a refused stream was for, for whom it was refused.
// Nobody has the error that another one has brought about: who is the only one that
// is new gets it when the others are well without it. Those who have come since, and
// want the same, are tried in their turn.
func (k *pipeListenLoop) isolate(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var fresh, old []*subscriber
	for _, ear := range k.tried {
		switch _, here := k.subscribers[ear]; {
		case !here:
		case ear.accepted:
			old = append(old, ear)
		default:
			fresh = append(fresh, ear)
		}
	}
	switch {
	case len(fresh)+len(old) == 0: // they have all gone meanwhile
	case len(fresh) > 1:
		k.batch = len(fresh) / 2
	case len(fresh) == 1 && len(old) > 0:
		fresh[0].pendingErr = err
	case len(fresh) == 1:
		k.endOneLocked(fresh[0], err)
	default: // what it took before it takes no more
		k.retestLocked(old, err)
	}
}

// doubtLocked has those that the server took before be tried like new ones.
func (k *pipeListenLoop) retestLocked(old []*subscriber, err error) {
	for ear := range k.subscribers {
		ear.pendingErr = nil
	}
	if len(old) == 1 {
		k.endOneLocked(old[0], err)
		return
	}
	k.batch = max(1, len(old)/2)
	for _, ear := range old {
		ear.accepted = false
	}
}

func (h *sharedListen) endOneLocked(only *subscriber, err error) {
	h.endLocked(err, func(ear *subscriber) bool { return ear == only })
}

// broken takes note of the end of the stream that served.
func (k *pipeListenLoop) broken() {
	st := k.cur
	k.noteAnswer(st.id)
	if st.err == nil && st.agreed.isEmpty() {
		k.idle = true // the server has nothing to tell, and says so
		return
	}
	k.cur = nil
	err := cmp.Or(st.err, error(k.p.lost(nil, "it ended the subscription")))
	if k.isDead(err) {
		k.end(err)
		return
	}
	if time.Since(st.opened) > maxListenWait {
		k.breaks = 0
	}
	k.pause()
}

// pause has the next attempt wait, longer each time.
func (k *pipeListenLoop) pause() {
	wait := min(minListenWait<<min(k.breaks, 10), maxListenWait)
	k.breaks++
	k.retryTimer = time.After(wait/2 + rand.N(wait/2)) //nolint:gosec // jitter, not a secret
}

// expect notes a stream that will be asked for. What the server has forgotten until
// now it is told again by that.
func (h *sharedListen) addUnanswered(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pipe.unanswered == nil {
		h.pipe.unanswered = make(map[mcp.ID]*upstream)
	}
	h.pipe.unanswered[st.id] = st
	h.pipe.stale = false
}

// noteEnding notes that a stream is given up.
func (h *sharedListen) markAbandoned(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st.abandonedAt = time.Now()
	for id, old := range h.pipe.unanswered {
		if old.isAbandoned() && time.Since(old.abandonedAt) >= abandonedTime {
			delete(h.pipe.unanswered, id) // a server may leave it at that
		}
	}
}

func (st *upstream) isAbandoned() bool { return !st.abandonedAt.IsZero() }

// noteAnswer notes that the server has answered a listen, and whether that was one that
// was given up: what was asked for since it may have forgotten.
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

// endingLocked reports whether a stream that was given up is not answered.
func (h *sharedListen) hasAbandonedLocked() bool {
	for _, st := range h.pipe.unanswered {
		if st.isAbandoned() {
			return true
		}
	}
	return false
}

// forgetEndings takes note of a server that does not answer a listen which was given
// up, as is right (2026-07-28, basic/patterns/cancellation, "Behavior Requirements").
func (h *sharedListen) stopAwaitingEnds() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pipe.answersCancelled = false
}
