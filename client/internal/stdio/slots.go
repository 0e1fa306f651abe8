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
// process still counts. The methods may be called concurrently.
//
// One more slot is reserved for requests of the gateway itself: it can learn what a
// server offers even if clients occupy all other slots, and no client is evicted for
// that.
type Slots struct {
	Max int // without the reserved one; set before the first Take

	mu               sync.Mutex
	shared, reserved slotCount
	queue            []*waiter
}

// slotCount counts slots of one kind. No more requests wait than slots are closing;
// others are refused at once.
type slotCount struct {
	used    int
	closing int // those of used with a remote end that is ending
}

// Slot is one slot. Its methods may be called more than once.
type Slot struct {
	of *Slots

	// The fields below are guarded by of.mu.
	kind          *slotCount
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
func (s *Slots) Take(ctx context.Context, p Purpose) *Slot {
	for ctx.Err() == nil {
		slot, w := s.ask(p.Internal)
		switch {
		case slot != nil:
			return slot
		case w != nil:
			select {
			case <-w.granted:
			case <-ctx.Done():
				s.withdraw(w)
			}
			return w.got
		// An earlier waiter may get the slot. Then evict another pipe, while there is
		// one.
		case p.Evict == nil || !p.Evict():
			return nil
		}
	}
	return nil
}

// ask returns a slot or a waiter for one, or neither if all are in use.
func (s *Slots) ask(internal bool) (*Slot, *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.grantLocked(internal); slot != nil {
		return slot, nil
	}
	closing := s.shared.closing
	if internal {
		closing += s.reserved.closing
	}
	// Count all waiters, because any of them may get a slot that a client could have.
	if len(s.queue) >= closing {
		return nil, nil
	}
	w := &waiter{internal: internal, granted: make(chan struct{})}
	s.queue = append(s.queue, w)
	return nil, w
}

func (s *Slots) grantLocked(internal bool) *Slot {
	kind := &s.shared
	switch {
	case internal && s.reserved.used == 0:
		kind = &s.reserved
	case s.shared.used >= s.Max:
		return nil
	}
	kind.used++
	return &Slot{of: s, kind: kind}
}

// withdraw removes a waiter, unless it has its slot already.
func (s *Slots) withdraw(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.DeleteFunc(s.queue, func(o *waiter) bool { return o == w })
}

// Swap exchanges the slots: a pipe that was opened for the gateway itself is now a
// client's.
func (s *Slots) Swap(a, b *Slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.free || b.free {
		return // its pipe has ended, and another may hold the slot by now
	}
	if a.closing {
		a.kind.closing--
		b.kind.closing++
	}
	if b.closing {
		b.kind.closing--
		a.kind.closing++
	}
	a.kind, b.kind = b.kind, a.kind
}

// MarkClosing records that the pipe is no longer used and its remote end is ending.
func (t *Slot) MarkClosing() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.closing || t.free {
		return
	}
	t.closing = true
	t.kind.closing++
}

// Release frees the slot. It goes to the first waiter that may have it.
func (t *Slot) Release() {
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.free {
		return
	}
	t.free = true
	t.kind.used--
	if t.closing {
		t.kind.closing--
	}
	for i, w := range s.queue {
		if w.got = s.grantLocked(w.internal); w.got != nil {
			close(w.granted)
			s.queue = slices.Delete(s.queue, i, i+1)
			return // only one slot became free
		}
	}
}
