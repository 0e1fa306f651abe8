// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"slices"
	"sync"
)

// processSlots bound the pipes to one server that are open at a time, each of which is
// a process of the machine, often. A pipe has its place from before it is opened
// until its far end has really gone, so that what is ending still counts.
//
// One place more is kept for what no client has asked for: what a server offers
// can be learned however many clients keep it busy, and no client has to leave
// for that.
type processSlots struct {
	max int

	mu       sync.Mutex
	used     int  // without the kept one
	reserved bool // the kept one is taken
	queue    []*waiter

	// leaving are those of used whose far end is on its way out, keptLeaving says
	// so of the kept one. Never more wait than will be free: who cannot be
	// promised a place is refused at once.
	closing         int
	reservedClosing bool
}

// processSlot is one of them. All methods may be called more than once.
type processSlot struct {
	of *processSlots

	// Below: guarded by of.mu.
	reserved      bool
	closing, free bool
}

// slotPurpose is what a pipe is wanted for.
type slotPurpose struct {
	// ours: no client has asked, so that the kept place will do.
	internal bool

	// makeRoom has one pipe end that is not used now and reports false where all
	// are. It is called with nothing locked. nil: none can be ended for this.
	evict func() bool
}

// waiter is one who was promised a place.
type waiter struct {
	internal bool
	granted  chan struct{} // closed when got is set
	got      *processSlot
}

// take returns a place, nil when there is none and none can be made, or none
// came free before ctx ended.
func (r *processSlots) take(ctx context.Context, n slotPurpose) *processSlot {
	for ctx.Err() == nil {
		pl, w := r.ask(n.internal)
		switch {
		case pl != nil:
			return pl
		case w != nil:
			return r.await(ctx, w)
		// What is made is not ours yet: somebody who came earlier may get it. Then
		// room is made once more, as long as there is somebody to make it.
		case n.evict == nil || !n.evict():
			return nil
		}
	}
	return nil
}

// ask returns a place or the promise of one; neither where all are in use.
func (r *processSlots) ask(ours bool) (*processSlot, *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pl := r.grantLocked(ours); pl != nil {
		return pl, nil
	}
	free := r.closing
	if ours && r.reservedClosing {
		free++
	}
	// All who wait count, because any of them may be given what a client can have.
	if len(r.queue) >= free {
		return nil, nil
	}
	w := &waiter{internal: ours, granted: make(chan struct{})}
	r.queue = append(r.queue, w)
	return nil, w
}

func (r *processSlots) grantLocked(ours bool) *processSlot {
	switch {
	case ours && !r.reserved:
		r.reserved = true
		return &processSlot{of: r, reserved: true}
	case r.used < r.max:
		r.used++
		return &processSlot{of: r}
	default:
		return nil
	}
}

func (r *processSlots) await(ctx context.Context, w *waiter) *processSlot {
	select {
	case <-w.granted:
	case <-ctx.Done():
		r.withdraw(w)
	}
	return w.got
}

// withdraw takes a waiter out, unless it has been given its place already.
func (r *processSlots) withdraw(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = slices.DeleteFunc(r.queue, func(o *waiter) bool { return o == w })
}

// swap gives the second place's room to the first, and the first one's to the
// second: a pipe that was opened for nobody is now a client's.
func (r *processSlots) swap(a, b *processSlot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.free || b.free {
		return // its pipe has ended, and somebody else may have the room by now
	}
	r.countLocked(a, -1)
	r.countLocked(b, -1)
	a.reserved, b.reserved = b.reserved, a.reserved
	r.countLocked(a, +1)
	r.countLocked(b, +1)
}

// countLocked adds a place to those that are leaving, or takes it out, if it is
// one.
func (r *processSlots) countLocked(pl *processSlot, by int) {
	switch {
	case !pl.closing || pl.free:
	case pl.reserved:
		r.reservedClosing = by > 0
	default:
		r.closing += by
	}
}

// leave says that the pipe is used no more and its far end on its way out.
func (pl *processSlot) markClosing() {
	r := pl.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if pl.closing || pl.free {
		return
	}
	pl.closing = true
	r.countLocked(pl, +1)
}

// release gives the place back; who has waited for longest and may have it gets
// it.
func (pl *processSlot) release() {
	r := pl.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if pl.free {
		return
	}
	r.countLocked(pl, -1)
	pl.free = true
	if pl.reserved {
		r.reserved = false
	} else {
		r.used--
	}
	r.serveLocked()
}

func (r *processSlots) serveLocked() {
	for i, w := range r.queue {
		if w.got = r.grantLocked(w.internal); w.got != nil {
			close(w.granted)
			r.queue = slices.Delete(r.queue, i, i+1)
			return // one came free
		}
	}
}
