// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
	"time"
)

// goroutines is the set of goroutines of one owner: a client, a session, a connection.
// Each has a context that ends with the owner. The owner's close waits for all that it
// owns. The zero value is ready.
type goroutines struct {
	mu      sync.Mutex
	running map[*context.CancelFunc]bool // whether close waits for it
	owned   int                          // those that close waits for
	closing bool
	idle    chan struct{} // closed when closing and owned is 0; nil until needed
}

// start runs f in a goroutine that the owner's close waits for. It ends when f returns,
// which f must do when its context ends. cancel ends that context. start reports false,
// and does not run f, if the owner is closing.
//
//nolint:contextcheck,nolintlint // contextcheck reports here for all callers: f ends with the owner, not with the request that starts it
func (t *goroutines) start(f func(ctx context.Context)) (cancel context.CancelFunc, ok bool) {
	return t.run(f, true)
}

// startUnowned is start for a function that calls foreign code. close ends its context
// but does not wait for it, because the foreign code may be the caller of close.
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

// launch runs f, which must return when cancel is called. It calls cancel after f, or
// instead of f if the owner is closing.
func (t *goroutines) launch(cancel context.CancelFunc, owned bool, f func()) bool {
	if !t.add(&cancel, owned) {
		cancel()
		return false
	}
	// If owned, close waits for it. It ends with f, which the context bounds.
	go func() {
		defer t.remove(&cancel)
		defer cancel()
		f()
	}()
	return true
}

// enter makes close wait for the calling goroutine until it calls leave. It reports
// false if the owner is closing. Meanwhile the goroutine may only wait for something
// that ends before the owner closes, such as a call: its terminal cancels all that is
// done for it.
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

// cancel ends all contexts and rejects new goroutines. It does not wait.
func (t *goroutines) cancel() {
	for _, cancel := range t.refuse() {
		cancel()
	}
}

// finish rejects new goroutines, waits up to d for the owned ones to end by themselves,
// and closes.
func (t *goroutines) finish(d time.Duration) {
	t.refuse()
	within(t.ended(), d)
	t.close()
}

// close is cancel, followed by a wait for the owned goroutines.
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

// ended returns a channel that is closed when the owner is closing and no owned
// goroutine runs.
func (t *goroutines) ended() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	t.noteIdleLocked()
	return t.idle
}

// noteIdleLocked closes idle once its conditions hold. It is called after each change
// of them.
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

// both returns a context that ends with either of the two and has the values of the
// first.
func both(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
