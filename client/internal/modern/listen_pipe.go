// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/task"
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

// listen serves a listen. All of them share one stream.
func (w *pipeConn) listen(ctx context.Context, p *Protocol, req *mcp.Request, want listen.Filter, sink mcp.Caller) error {
	w.Served.Note(req)
	if req.Client == nil || !task.Declared(req.Client.Capabilities) {
		want.TaskIDs = nil // the stream would ask for them in the gateway's name
	}
	k := &pipeLoop{pipeListens: &w.listens, p: p, wire: w, batch: math.MaxInt}
	return w.listens.serve(ctx, p, k.run, want, sink)
}

// pipeListens are the listens on a pipe. Some servers have one set of subscriptions per
// pipe, which the end of any listen empties. So there is never more than one stream. It
// asks for the union of all filters. When the union changes, the old stream is
// cancelled and must end before the next one is opened. Changes during the gap may be
// missed, so everything is then reported as changed.
//
// A listen that the server refuses must not end the others. If the server refuses the
// union, the new listens are tried in halves, and finally one by one.
type pipeListens struct {
	listenGroup

	// The fields below are guarded by listenGroup.mu. They outlast the goroutine.

	// cancelled are the listens that were cancelled and have no response, each with the
	// time of that. Some servers respond to a cancelled listen when it has ended for
	// them, and then also drop the subscriptions of the next listen if that has begun.
	// answersCancelled is set if this server does so; stale, if it did so after another
	// listen had begun.
	cancelled        map[mcp.ID]time.Time
	answersCancelled bool
	stale            bool
}

// noteAnswer records that the server has responded to a request. If that was a
// cancelled listen, the server may have dropped the subscriptions made since.
func (g *pipeListens) noteAnswer(id mcp.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.cancelled[id]; !ok {
		return
	}
	delete(g.cancelled, id)
	g.answersCancelled, g.stale = true, true
	g.wakeLocked()
}

// noteCancelledLocked records that a listen is cancelled. It removes those that were
// cancelled so long ago that the server will not respond to them.
func (g *pipeListens) noteCancelledLocked(id mcp.ID, now time.Time) {
	if g.cancelled == nil {
		g.cancelled = make(map[mcp.ID]time.Time)
	}
	maps.DeleteFunc(g.cancelled, func(_ mcp.ID, at time.Time) bool { return now.Sub(at) >= call.AbandonedTime })
	g.cancelled[id] = now
}

// mayOpenAtLocked returns when the next listen may be sent, or zero if it may be sent
// now. A server that responds to cancelled listens is waited for. Once it has not
// responded in time, it is taken for one that does not respond, as the specification
// requires (2026-07-28, basic/patterns/cancellation, "Behavior Requirements").
func (g *pipeListens) mayOpenAtLocked(now time.Time) time.Time {
	var last time.Time
	for _, at := range g.cancelled {
		if at.After(last) {
			last = at
		}
	}
	if at := last.Add(cancelAckTime); g.answersCancelled && now.Before(at) {
		return at
	}
	g.answersCancelled = g.answersCancelled && last.IsZero()
	return time.Time{}
}

// streamState is the state of the single stream of a pipe.
type streamState uint8

const (
	noStream streamState = iota // none, or it has ended
	opening                     // requested, and not acknowledged
	live                        // acknowledged
	idle                        // acknowledged, and ended in order: the server has nothing to notify about
	closing                     // cancelled, and its call has not returned
)

// pipeLoop maintains the stream of pipeListens, on one goroutine.
type pipeLoop struct {
	*pipeListens
	p       *Protocol
	wire    *pipeConn
	streams call.Goroutines

	state  streamState
	stream *upstream     // nil in noStream
	tried  []*subscriber // the listens that stream was opened for

	batch    int // how many new listens are tried at once
	failures int // in a row
	breaks   int // streams in a row that did not last

	retryAt    time.Time // when a stream may be opened again after a failure
	nextReopen time.Time // when the stream could be interrupted without a burst
	wideSince  time.Time // since when the stream carries unwanted notifications; zero if it does not
}

// run maintains the stream until no listen is left or ctx ends.
func (k *pipeLoop) run(ctx context.Context) {
	defer k.streams.Close()
	for {
		do, again, ok := k.step(time.Now())
		switch {
		case !ok:
			return
		case do != nil:
			do()
		case !k.wait(ctx, again):
			k.stop(k.p.Closed())
			return
		}
	}
}

// step updates the state after an event. It returns what to do next,
// if anything, and otherwise when to look again if nothing happens, or zero. ok is false
// if no listen and no stream is left. The loop has then ended, and the next listen
// starts another one.
//
// Only step and open change the state:
//
//	noStream -> opening             a listen wants something
//	opening -> live                 the server has acknowledged the stream
//	opening -> noStream             the server has refused it
//	live -> noStream, idle          the server has ended it
//	opening, live, idle -> closing  another stream is needed, or none
//	closing -> noStream
func (k *pipeLoop) step(now time.Time) (do func(), again time.Time, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state == opening && k.stream.acked {
		k.state = live
		k.acknowledgedLocked()
	}
	if k.state != noStream && k.state != idle && k.stream.ended {
		k.endedLocked(now)
	}
	if len(k.subscribers) == 0 && k.state == noStream {
		k.running = false
		return nil, again, false
	}
	todo := k.planLocked(now)
	switch k.state {
	case opening:
		late := k.stream.opened.Add(ackTime)
		switch {
		case todo.nothing, k.stale:
			return k.cancelLocked(now), again, true
		case !todo.waiting:
			return nil, again, true
		case now.Before(late):
			return nil, late, true
		}
		// The others must not wait for the listen that causes this.
		k.isolateLocked(k.p.Lost(nil, "it has not acknowledged the subscription in %v", ackTime))
		return k.cancelLocked(now), again, true
	case live, idle:
		switch {
		case todo.nothing:
			return k.cancelLocked(now), again, true
		case !todo.reopen && !k.stale:
			return nil, todo.narrowAt, true
		}
		if again = k.pace(now); again.IsZero() {
			do = k.cancelLocked(now)
		}
		return do, again, true
	case noStream:
		switch {
		case now.Before(k.retryAt):
			return nil, k.retryAt, true
		case todo.want.IsEmpty():
			return nil, again, true
		}
		if again = k.mayOpenAtLocked(now); again.IsZero() {
			k.tried, k.stale = todo.tried, false // the next stream renews all subscriptions
			do = func() { k.open(todo.want) }
		}
		return do, again, true
	case closing:
	}
	return nil, again, true
}

// cancelLocked returns a function that cancels the stream.
func (k *pipeLoop) cancelLocked(now time.Time) func() {
	if k.state != idle {
		k.noteCancelledLocked(k.stream.id, now)
	}
	k.state = closing
	return k.stream.cancel
}

// pace returns when the stream may be interrupted for all listens. It is zero if that
// is now, which counts as done.
func (k *pipeLoop) pace(now time.Time) time.Time {
	if k.nextReopen.Before(now) {
		k.nextReopen = now
	}
	if at := k.nextReopen.Add(-(reopenBurst - 1) * reopenInterval); at.After(now) {
		return at
	}
	k.nextReopen = k.nextReopen.Add(reopenInterval)
	return time.Time{}
}

// plan is what the listens need.
type plan struct {
	want     listen.Set    // the filter of the next stream
	tried    []*subscriber // the listens that it is for
	nothing  bool          // no listen wants anything
	waiting  bool          // several listens wait for the next stream
	reopen   bool          // the current stream does not suffice, or carries too much for too long
	narrowAt time.Time     // when it carries too much for too long; zero if it does not
}

// planLocked computes the plan, and accepts the listens that the stream serves.
func (k *pipeLoop) planLocked(now time.Time) plan {
	todo := plan{want: listen.NewSet()}
	all, fresh, more := listen.NewSet(), 0, false
	for _, sub := range k.subscribers {
		isEmpty := listen.SetOf(sub.want).IsEmpty()
		if !sub.granted && (isEmpty || k.servesLocked() && k.stream.settled().Has(sub.want)) {
			k.acceptLocked(sub)
		}
		all.Add(sub.want)
		switch {
		case isEmpty || sub.pendingErr != nil:
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
		todo.tried = append(todo.tried, sub)
	}
	if todo.want.IsEmpty() {
		k.endPendingLocked() // all other listens have ended
	}
	todo.nothing = all.IsEmpty()
	todo.waiting = more || len(todo.tried) > 1
	switch {
	case !k.servesLocked() || all.Covers(k.stream.agreed):
		k.wideSince = time.Time{}
		return todo
	case k.wideSince.IsZero():
		k.wideSince = now
	}
	todo.narrowAt = k.wideSince.Add(narrowDelay)
	todo.reopen = todo.reopen || !now.Before(todo.narrowAt)
	return todo
}

// servesLocked reports whether what the server has agreed to on the stream holds.
func (k *pipeLoop) servesLocked() bool { return (k.state == live || k.state == idle) && !k.stale }

// acceptLocked acknowledges a listen that the stream serves, or that asks for nothing.
func (k *pipeLoop) acceptLocked(sub *subscriber) {
	sub.accepted, sub.pendingErr = true, nil
	var agreed listen.Set
	if k.stream != nil {
		agreed = k.stream.agreed
	}
	sub.grantLocked(agreed)
}

// acknowledgedLocked acknowledges all listens that the stream was opened for. Those
// that another stream served before learn of the gap.
func (k *pipeLoop) acknowledgedLocked() {
	k.failures = 0
	if k.batch < math.MaxInt/2 {
		k.batch *= 2
	}
	for _, sub := range k.subscribers {
		if k.servesLocked() && k.stream.asked.Has(sub.want) {
			k.acceptLocked(sub)
		}
	}
	k.endPendingLocked() // the other listens work
}

// endedLocked handles the end of the stream.
func (k *pipeLoop) endedLocked(now time.Time) {
	was, st := k.state, k.stream
	if was == live && st.err == nil && st.agreed.IsEmpty() {
		k.state = idle
		return
	}
	k.state, k.stream = noStream, nil
	if was == closing {
		if st.err == nil || call.Answered(st.err) {
			delete(k.cancelled, st.id) // the server had responded before
		}
		return
	}
	if was == opening && !call.Answered(st.err) {
		k.failures++
	}
	isMissing := errors.Is(st.err, &mcp.Error{Code: mcp.CodeMethodNotFound}) // the server does not support subscriptions at all
	err := cmp.Or(st.err, error(k.p.Lost(nil, "it ended the subscription")))
	switch {
	case st.pipeEnded, was == opening && (isMissing || k.failures >= call.MaxListenFailures):
		k.endLocked(func(*subscriber) error { return err })
		return
	case was == opening && call.Answered(st.err):
		k.isolateLocked(err)
		return
	case was == live && now.Sub(st.opened) > call.MaxListenWait:
		k.breaks = 0
	}
	k.retryAt = now.Add(reopenDelay(k.breaks))
	k.breaks++
}

// isolateLocked finds out which listen caused the refusal of a stream. No listen gets
// an error that another one has caused: if only one is new, it gets the error once the
// others work without it. Equal listens that have joined since are tried in their turn.
func (k *pipeLoop) isolateLocked(err error) {
	var fresh, old []*subscriber
	for _, sub := range k.tried {
		switch {
		case !slices.Contains(k.subscribers, sub): // it has ended
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
	default: // the server refuses what it accepted before: treat that like new listens
		for _, sub := range k.subscribers {
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
}

func (k *pipeLoop) endOneLocked(only *subscriber, err error) {
	k.endLocked(func(sub *subscriber) error {
		if sub != only {
			return nil
		}
		return err
	})
}

// endPendingLocked ends the listens that have an error of their own.
func (k *pipeLoop) endPendingLocked() {
	k.endLocked(func(sub *subscriber) error { return sub.pendingErr })
}

// open opens the next stream.
func (k *pipeLoop) open(want listen.Set) {
	req, err := k.p.newListen(want)
	if err != nil {
		k.end(err)
		return
	}
	req.Client, req.Scope, req.LogLevel = k.p.Self(), mcp.NewScope("", nil), mcp.LogNone
	if len(want.Tasks) > 0 {
		req = declaringTasks(req)
	}
	c, err := k.wire.open(call.MethodListen)
	if err != nil {
		k.end(err)
		return
	}
	st := &upstream{group: &k.listenGroup, asked: want, id: c.ID(), opened: time.Now()}
	st.receive = func(n *mcp.Notification) { k.publish(n) }
	st.start(&k.streams, func(ctx context.Context) error {
		_, err := k.wire.roundTrip(ctx, k.p, c, req, &req.Params, st)
		st.pipeEnded = k.wire.Calls.Err() != nil || call.IsRejected(err, call.WrongEra)
		return err
	})
	k.state, k.stream = opening, st
}
