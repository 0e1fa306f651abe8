// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
	"time"
)

// goroutines are the goroutines of one owner: a client, a session, a connection. The
// zero value is ready. Each has a context that ends with the owner, and the
// owner's end waits for all of them.
type goroutines struct {
	mu      sync.Mutex
	running map[*context.CancelFunc]bool // whether close waits for it
	owned   int                          // those that it waits for
	closing bool
	idle    chan struct{} // closed when closing and owned is 0; nil until somebody waits
}

// start runs f in a goroutine of its own, which the owner's close waits for and
// which f's own end, or the end of its context, ends. The returned function
// ends that context. It reports false, and does not run f, when the owner is
// closing.
//
//nolint:contextcheck,nolintlint // read from here by contextcheck for all callers: the owner's life bounds f, and not that of a request which happens to start it
func (t *goroutines) start(f func(ctx context.Context)) (cancel context.CancelFunc, ok bool) {
	return t.run(f, true)
}

// lend is start for a function that calls into code which is not ours. The
// owner's close ends its context and does not wait for it, because that code may
// be what called close.
//
//nolint:contextcheck,nolintlint // as start
func (t *goroutines) startUnowned(f func(ctx context.Context)) (ok bool) {
	_, ok = t.run(f, false)
	return ok
}

func (t *goroutines) run(f func(ctx context.Context), owned bool) (cancel context.CancelFunc, ok bool) {
	ctx, cancel := context.WithCancel(context.Background())
	return cancel, t.launch(cancel, owned, func() { f(ctx) })
}

// launch runs f, which ends when cancel is called, and calls that behind it, or
// instead of it when the owner is closing.
func (t *goroutines) launch(cancel context.CancelFunc, owned bool, f func()) bool {
	if !t.add(&cancel, owned) {
		cancel()
		return false
	}
	// Waited for by close where it is owned; ended by f's return, which the
	// context bounds.
	go func() {
		defer t.remove(&cancel)
		defer cancel()
		f()
	}()
	return true
}

// join has the owner's close wait for the calling goroutine too, until that leaves. It
// reports false when the owner is closing. What the goroutine waits for meanwhile has
// to be something that ends before the owner closes: a call, whose terminal breaks off
// all that is done for it.
func (t *goroutines) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closing {
		t.owned++
	}
	return !t.closing
}

func (t *goroutines) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owned--
	t.noteIdleLocked()
}

// cancel ends the contexts of all and refuses new ones. It does not wait.
func (t *goroutines) cancel() {
	for _, cancel := range t.refuse() {
		cancel()
	}
}

// finish refuses new ones, gives those that run so long to end by themselves, and
// is then close.
func (t *goroutines) finish(d time.Duration) {
	t.refuse()
	within(t.ended(), d)
	t.close()
}

// close is cancel, and waits until nothing runs but what was lent.
func (t *goroutines) close() {
	t.cancel()
	<-t.ended()
}

func (t *goroutines) add(key *context.CancelFunc, owned bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return false
	}
	if t.running == nil {
		t.running = make(map[*context.CancelFunc]bool)
	}
	t.running[key] = owned
	if owned {
		t.owned++
	}
	return true
}

func (t *goroutines) remove(key *context.CancelFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[key] {
		t.owned--
	}
	delete(t.running, key)
	t.noteIdleLocked()
}

func (t *goroutines) refuse() []context.CancelFunc {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closing = true
	all := make([]context.CancelFunc, 0, len(t.running))
	for key := range t.running {
		all = append(all, *key)
	}
	return all
}

// ended returns a channel that is closed when the owner closes and nothing
// of its own runs.
func (t *goroutines) ended() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	t.noteIdleLocked()
	return t.idle
}

// noteIdleLocked wakes those who wait for the end, once. It is looked at after every
// change of what it depends on.
func (t *goroutines) noteIdleLocked() {
	if t.idle == nil || !t.closing || t.owned > 0 {
		return
	}
	select {
	case <-t.idle:
	default:
		close(t.idle)
	}
}

// both returns a context that ends with either of the two and has the values of
// the first.
func both(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
