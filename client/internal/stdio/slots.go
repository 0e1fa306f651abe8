// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"context"
	"slices"
	"sync"
)

// Slots limits the pipes to one server, which often are processes. A pipe holds
// a slot from before it is opened until its remote end has ended, so that an ending
// process still counts.
//
// One more slot is reserved for requests of the gateway itself: it can learn what a
// server offers even if clients occupy all other slots, and no client is evicted for
// that.
type Slots struct {
	Max int

	mu       sync.Mutex
	used     int  // without the reserved one
	reserved bool // the reserved one is in use
	queue    []*waiter

	// closing counts those of used with a remote end that is ending; reservedClosing is
	// the same for the reserved one. No more requests wait than slots will become free;
	// others are refused at once.
	closing         int
	reservedClosing bool
}

// Slot is one slot. Its methods may be called more than once.
type Slot struct {
	of *Slots

	// The fields below are guarded by of.mu.
	reserved      bool
	closing, free bool
}

// Purpose is what a pipe is opened for.
type Purpose struct {
	// Internal is set for a request of the gateway itself, for which the reserved slot
	// will do.
	Internal bool

	// Evict closes one idle pipe, and reports false if no pipe is idle. It is called
	// without locks. If nil, no pipe may be evicted.
	Evict func() bool
}

// waiter waits for a slot that was promised to it.
type waiter struct {
	internal bool
	granted  chan struct{} // closed when got is set
	got      *Slot
}

// Take returns a slot. It returns nil if no slot is free and no pipe can be evicted, or
// if ctx ends first.
func (r *Slots) Take(ctx context.Context, n Purpose) *Slot {
	for ctx.Err() == nil {
		pl, w := r.ask(n.Internal)
		switch {
		case pl != nil:
			return pl
		case w != nil:
			return r.await(ctx, w)
		// An earlier waiter may get the slot. Then evict another pipe, while there is
		// one.
		case n.Evict == nil || !n.Evict():
			return nil
		}
	}
	return nil
}

// ask returns a slot or a waiter for one, or neither if all are in use.
func (r *Slots) ask(internal bool) (*Slot, *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pl := r.grantLocked(internal); pl != nil {
		return pl, nil
	}
	free := r.closing
	if internal && r.reservedClosing {
		free++
	}
	// Count all waiters, because any of them may get a slot that a client could have.
	if len(r.queue) >= free {
		return nil, nil
	}
	w := &waiter{internal: internal, granted: make(chan struct{})}
	r.queue = append(r.queue, w)
	return nil, w
}

func (r *Slots) grantLocked(internal bool) *Slot {
	switch {
	case internal && !r.reserved:
		r.reserved = true
		return &Slot{of: r, reserved: true}
	case r.used < r.Max:
		r.used++
		return &Slot{of: r}
	default:
		return nil
	}
}

func (r *Slots) await(ctx context.Context, w *waiter) *Slot {
	select {
	case <-w.granted:
	case <-ctx.Done():
		r.withdraw(w)
	}
	return w.got
}

// withdraw removes a waiter, unless it has its slot already.
func (r *Slots) withdraw(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = slices.DeleteFunc(r.queue, func(o *waiter) bool { return o == w })
}

// Swap exchanges the slots: a pipe that was opened for the gateway itself is now a
// client's.
func (r *Slots) Swap(a, b *Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.free || b.free {
		return // its pipe has ended, and another may hold the slot by now
	}
	r.countLocked(a, -1)
	r.countLocked(b, -1)
	a.reserved, b.reserved = b.reserved, a.reserved
	r.countLocked(a, +1)
	r.countLocked(b, +1)
}

// countLocked adds by to the count of closing slots, if pl is closing.
func (r *Slots) countLocked(pl *Slot, by int) {
	switch {
	case !pl.closing || pl.free:
	case pl.reserved:
		r.reservedClosing = by > 0
	default:
		r.closing += by
	}
}

// MarkClosing records that the pipe is no longer used and its remote end is ending.
func (pl *Slot) MarkClosing() {
	r := pl.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if pl.closing || pl.free {
		return
	}
	pl.closing = true
	r.countLocked(pl, +1)
}

// Release frees the slot. It goes to the first waiter that may have it.
func (pl *Slot) Release() {
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

func (r *Slots) serveLocked() {
	for i, w := range r.queue {
		if w.got = r.grantLocked(w.internal); w.got != nil {
			close(w.granted)
			r.queue = slices.Delete(r.queue, i, i+1)
			return // only one slot became free
		}
	}
}
