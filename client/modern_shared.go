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
	lastAnswer = 2 * time.Second

	// ackTime is how long a stream may be without its acknowledgement before those
	// whom another one would serve stop waiting for it.
	ackTime = 10 * time.Second

	// spareTime is how long the stream may tell of what nobody wants: a narrower one
	// means a gap for all others.
	spareTime = 5 * time.Minute

	// Who joins has the stream cut for all others. A few at once are ordinary; beyond
	// that they come in turns of reopenTime, and together.
	reopenTime  = 250 * time.Millisecond
	reopenBurst = 8
)

// pipeSubscribers is the part of a hub that only the one stream of a pipe has need of.
// It is guarded by hub.mu. The zero value is ready.
type pipeSubscribers struct {
	serial uint64 // of the newest ear

	// unanswered are the streams that were asked for, and not answered: some servers
	// answer a listen that was given up when it has ended for them, and take what the
	// next one wants with it if that has begun by then. answers says that this one
	// does; stale that it did after another one had begun.
	unanswered map[mcp.ID]*upstream
	answers    bool
	stale      bool
}

// pipeSubscriber is the same part of an ear.
type pipeSubscriber struct {
	serial uint64
	proven bool  // the server has acknowledged a stream with what it wants
	blamed error // what the server said to it, if all others turn out to be well
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

	batch    int // how many that are new are tried at once
	failures int // in a row
	breaks   int // of streams that did not last
	lean     bool
	late     bool // next is not acknowledged in time
	turn     time.Time

	retry, patience, spare, slow, pace <-chan time.Time
	streams                            goroutines
}

// listenShared is listen on a pipe.
func (p *modern) listenShared(ctx context.Context, w *modernPipe, req *mcp.Request, want filter, sink mcp.Caller) error {
	w.served.note(req)
	if req.Client == nil || !taskform.Declared(req.Client.Capabilities) {
		want.TaskIDs = nil // which the stream would ask for in our name
	}
	k := &pipeListenLoop{sharedListen: &w.hub, p: p, wire: w, batch: math.MaxInt}
	return w.hub.listen(ctx, p, k.run, want, sink)
}

// run keeps the stream until nobody listens or ctx ends.
func (k *pipeListenLoop) run(ctx context.Context) {
	defer k.streams.close()
	for {
		todo, ok := k.look()
		if !ok {
			return
		}
		k.do(todo)
		select {
		case <-ctx.Done():
			k.abandon(k.p.closed())
			return
		case <-k.kick:
		case <-k.next.told():
			k.serve()
		case <-k.next.ended():
			k.refused()
		case <-k.live():
			k.broken()
		case <-k.closing.ended():
			k.closing = nil
		case <-k.patience:
			k.patience = nil
			k.forgetEndings()
		case <-k.retry:
			k.retry = nil
		case <-k.pace:
			k.pace = nil
		case <-k.spare:
			k.spare, k.lean = nil, true
		case <-k.slow:
			k.slow, k.late = nil, true
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
	want    filterSet     // to be asked for next
	ears    []*subscriber // who wants it
	open    bool          // the stream does not do
	wide    bool          // it tells of what nobody wants
	nobody  bool          // wants anything
	stale   bool          // the server may have forgotten what it agreed to
	waiting bool          // what is asked for next is not for one alone
	ending  bool          // the server is still to say that a stream has ended
}

// look looks at what is wanted, and serves those for whom the stream does. ok is
// false where nobody listens and nothing is left: then nobody keeps the stream any
// more, from this step on.
func (k *pipeListenLoop) look() (todo pipeListenPlan, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	todo = pipeListenPlan{want: newFilterSet(), stale: k.shared.stale}
	if len(k.ears) == 0 && k.cur == nil && k.next == nil && k.closing == nil {
		k.running = false
		return todo, false
	}
	all, fresh, more := newFilterSet(), 0, false
	for _, ear := range k.inOrderLocked() {
		if k.canServeLocked(ear) {
			k.proveLocked(ear)
		}
		all.add(ear.want)
		switch {
		case filterSetOf(ear.want).isEmpty():
			continue
		case ear.blamed != nil:
			continue
		case ear.proven:
		case fresh == k.batch:
			more = true
			continue
		default:
			fresh++
			todo.open = true
		}
		todo.want.add(ear.want)
		todo.ears = append(todo.ears, ear)
	}
	if todo.want.isEmpty() {
		k.endBlamedLocked() // all others have gone
	}
	todo.nobody = all.isEmpty()
	todo.waiting = more || len(todo.ears) > 1
	todo.wide = k.cur != nil && !all.covers(k.cur.agreed)
	todo.open = todo.open || k.cur == nil && !todo.want.isEmpty() || k.lean && todo.wide
	todo.ending = k.shared.answers && k.endingLocked()
	return todo, true
}

// canServeLocked reports whether an ear that was promised nothing yet needs no other
// stream than there is.
func (k *pipeListenLoop) canServeLocked(ear *subscriber) bool {
	if ear.granted {
		return false
	}
	return filterSetOf(ear.want).isEmpty() || k.cur != nil && k.cur.certain().has(ear.want)
}

func (k *pipeListenLoop) proveLocked(ear *subscriber) {
	ear.proven, ear.blamed = true, nil
	var st upstream // agrees to nothing
	if k.cur != nil {
		st.agreed = k.cur.agreed
	}
	ear.sayLocked(&st)
}

// inOrderLocked returns who listens, in the order in which they came.
func (h *sharedListen) inOrderLocked() []*subscriber {
	ears := make([]*subscriber, 0, len(h.ears))
	for ear := range h.ears {
		ears = append(ears, ear)
	}
	slices.SortFunc(ears, func(a, b *subscriber) int { return cmp.Compare(a.serial, b.serial) })
	return ears
}

// do takes the next step towards what is wanted: it gives a stream up, or asks for
// one where there is none.
func (k *pipeListenLoop) do(todo pipeListenPlan) {
	switch {
	case !todo.wide:
		k.spare = nil
	case k.spare == nil:
		k.spare = time.After(spareTime)
	}
	switch {
	case k.closing != nil:
	case todo.nobody && (k.cur != nil || k.next != nil), todo.stale && k.next != nil:
		k.giveUp()
	case k.next != nil:
		if k.late && todo.waiting {
			k.blame(k.p.lost(nil, "it has not acknowledged the subscription in %v", ackTime))
			k.giveUp()
		}
	case k.retry != nil || !todo.open && !todo.stale:
	case k.cur != nil:
		if k.mayCut() {
			k.giveUp()
		}
	case todo.want.isEmpty():
	case !todo.ending:
		k.tried = todo.ears
		k.open(todo.want)
	case k.patience == nil:
		k.patience = time.After(lastAnswer)
	}
}

// mayCut reports whether the stream may be cut for all now, and sees to it that it is
// looked at again when it may.
func (k *pipeListenLoop) mayCut() bool {
	if k.pace != nil {
		return false
	}
	now := time.Now()
	if k.turn.Before(now) {
		k.turn = now
	}
	if ahead := k.turn.Sub(now); ahead >= reopenBurst*reopenTime {
		k.pace = time.After(ahead - (reopenBurst-1)*reopenTime)
		return false
	}
	k.turn = k.turn.Add(reopenTime)
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
		hub: k.sharedListen, asked: want, acked: make(chan struct{}), done: make(chan struct{}),
		id: call.ID(), opened: time.Now(),
	}
	k.expect(st)
	// Ends with its cancel, or with the keeper, which waits for it.
	st.cancel, _ = k.streams.start(func(ctx context.Context) {
		defer close(st.done)
		_, st.err = k.p.carry(ctx, call, req, &req.Params, st)
	})
	k.next, k.patience = st, nil
	k.late, k.slow, k.lean = false, time.After(ackTime), false
}

// giveUp gives up the stream that there is, so that another one can be asked for.
func (k *pipeListenLoop) giveUp() {
	st := cmp.Or(k.next, k.cur)
	k.cur, k.next, k.slow, k.late, k.idle = nil, nil, nil, false, false
	k.noteEnding(st)
	st.cancel()
	k.closing = st
}

// serve has the acknowledged stream serve all that it was asked for. Those that were
// there before hear of the gap.
func (k *pipeListenLoop) serve() {
	k.cur, k.next, k.slow, k.failures = k.next, nil, nil, 0
	if k.batch < math.MaxInt/2 {
		k.batch *= 2
	}
	k.serveAll()
}

func (k *pipeListenLoop) serveAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ear := range k.ears {
		if k.cur.asked.has(ear.want) {
			k.proveLocked(ear)
		}
	}
	k.endBlamedLocked() // the others are well
}

func (h *sharedListen) endBlamedLocked() {
	for ear := range h.ears {
		if ear.blamed != nil {
			h.endOneLocked(ear, ear.blamed)
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
	k.next, k.slow = nil, nil
	k.noteAnswer(st.id)
	if !answered(st.err) {
		k.failures++
	}
	err := cmp.Or(st.err, error(k.p.lost(nil, "it ended the subscription")))
	switch {
	case k.isDead(err), isMissing(err), k.failures >= deafAfter:
		k.end(err)
	case answered(st.err):
		k.blame(err)
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
func (k *pipeListenLoop) blame(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var fresh, old []*subscriber
	for _, ear := range k.tried {
		switch _, here := k.ears[ear]; {
		case !here:
		case ear.proven:
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
		fresh[0].blamed = err
	case len(fresh) == 1:
		k.endOneLocked(fresh[0], err)
	default: // what it took before it takes no more
		k.doubtLocked(old, err)
	}
}

// doubtLocked has those that the server took before be tried like new ones.
func (k *pipeListenLoop) doubtLocked(old []*subscriber, err error) {
	for ear := range k.ears {
		ear.blamed = nil
	}
	if len(old) == 1 {
		k.endOneLocked(old[0], err)
		return
	}
	k.batch = max(1, len(old)/2)
	for _, ear := range old {
		ear.proven = false
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
	if time.Since(st.opened) > lastRelisten {
		k.breaks = 0
	}
	k.pause()
}

// pause has the next attempt wait, longer each time.
func (k *pipeListenLoop) pause() {
	wait := min(firstRelisten<<min(k.breaks, 10), lastRelisten)
	k.breaks++
	k.retry = time.After(wait/2 + rand.N(wait/2)) //nolint:gosec // jitter, not a secret
}

// expect notes a stream that will be asked for. What the server has forgotten until
// now it is told again by that.
func (h *sharedListen) expect(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shared.unanswered == nil {
		h.shared.unanswered = make(map[mcp.ID]*upstream)
	}
	h.shared.unanswered[st.id] = st
	h.shared.stale = false
}

// noteEnding notes that a stream is given up.
func (h *sharedListen) noteEnding(st *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st.left = time.Now()
	for id, old := range h.shared.unanswered {
		if old.isEnding() && time.Since(old.left) >= abandonedTime {
			delete(h.shared.unanswered, id) // a server may leave it at that
		}
	}
}

func (st *upstream) isEnding() bool { return !st.left.IsZero() }

// noteAnswer notes that the server has answered a listen, and whether that was one that
// was given up: what was asked for since it may have forgotten.
func (h *sharedListen) noteAnswer(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.shared.unanswered[id]
	delete(h.shared.unanswered, id)
	if st != nil && st.isEnding() {
		h.shared.answers, h.shared.stale = true, true
		h.kickLocked()
	}
}

// endingLocked reports whether a stream that was given up is not answered.
func (h *sharedListen) endingLocked() bool {
	for _, st := range h.shared.unanswered {
		if st.isEnding() {
			return true
		}
	}
	return false
}

// forgetEndings takes note of a server that does not answer a listen which was given
// up, as is right (2026-07-28, basic/patterns/cancellation, "Behavior Requirements").
func (h *sharedListen) forgetEndings() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shared.answers = false
}
