// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"sync"
	"time"
)

// Goroutines is the set of goroutines of one owner: a client, a session, a connection.
// Each has a context that ends with the owner. The owner's close waits for all that it
// owns. The zero value is ready.
type Goroutines struct {
	mu      sync.Mutex
	running map[*context.CancelFunc]bool // whether close waits for it
	owned   int                          // those that close waits for
	closing bool
	idle    chan struct{} // closed when closing and owned is 0; nil until needed
}

// Start runs f in a goroutine that the owner's close waits for. It ends when f returns,
// which f must do when its context ends. cancel ends that context. Start reports false,
// and does not run f, if the owner is closing.
//
//nolint:contextcheck,nolintlint // contextcheck reports here for all callers: f ends with the owner, not with the request that starts it
func (t *Goroutines) Start(f func(ctx context.Context)) (cancel context.CancelFunc, ok bool) {
	ctx, cancel := context.WithCancel(context.Background())
	return cancel, t.Launch(cancel, true, func() { f(ctx) })
}

// StartUnowned is Start for a function that calls foreign code. Close ends its context
// but does not wait for it, because the foreign code may be the caller of Close.
//
//nolint:contextcheck,nolintlint // as Start
func (t *Goroutines) StartUnowned(f func(ctx context.Context)) (ok bool) {
	ctx, cancel := context.WithCancel(context.Background())
	return t.Launch(cancel, false, func() { f(ctx) })
}

// Launch runs f, which must return when cancel is called. It calls cancel after f, or
// instead of f if the owner is closing.
func (t *Goroutines) Launch(cancel context.CancelFunc, owned bool, f func()) bool {
	if !t.Add(&cancel, owned) {
		cancel()
		return false
	}
	// If owned, Close waits for it. It ends with f, which the context bounds.
	go func() {
		defer t.Remove(&cancel)
		defer cancel()
		f()
	}()
	return true
}

// Enter makes Close wait for the calling goroutine until it calls Leave. It reports
// false if the owner is closing. Meanwhile the goroutine may only wait for something
// that ends before the owner closes, such as a call: its terminal cancels all that is
// done for it.
func (t *Goroutines) Enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closing {
		t.owned++
	}
	return !t.closing
}

// Leave ends what a successful Enter has begun.
func (t *Goroutines) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owned--
	t.noteIdleLocked()
}

// Cancel ends all contexts and rejects new goroutines. It does not wait.
func (t *Goroutines) Cancel() {
	for _, cancel := range t.refuse() {
		cancel()
	}
}

// Finish rejects new goroutines, waits up to d for the owned ones to end by themselves,
// and closes.
func (t *Goroutines) Finish(d time.Duration) {
	t.refuse()
	Within(t.ended(), d)
	t.Close()
}

// Close is Cancel, followed by a wait for the owned goroutines.
func (t *Goroutines) Close() {
	t.Cancel()
	<-t.ended()
}

// Add registers a goroutine that the caller starts, with what ends its context. It
// reports false if the owner is closing.
func (t *Goroutines) Add(key *context.CancelFunc, owned bool) bool {
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

// Remove is called at the end of a goroutine that was added.
func (t *Goroutines) Remove(key *context.CancelFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[key] {
		t.owned--
	}
	delete(t.running, key)
	t.noteIdleLocked()
}

func (t *Goroutines) refuse() []context.CancelFunc {
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
func (t *Goroutines) ended() <-chan struct{} {
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
func (t *Goroutines) noteIdleLocked() {
	if t.idle != nil && t.closing && t.owned == 0 && !IsClosed(t.idle) {
		close(t.idle)
	}
}

// CloseOnce runs a close function once. Unlike sync.Once it holds no lock while the
// function runs. The zero value is ready.
type CloseOnce struct {
	mu   sync.Mutex
	done chan struct{} // closed when f has returned; nil until Once is called
}

// Once calls f on the first call. Every call returns after f has returned.
func (e *CloseOnce) Once(f func()) {
	e.mu.Lock()
	first := e.done == nil
	if first {
		e.done = make(chan struct{})
	}
	e.mu.Unlock()
	if !first {
		<-e.done
		return
	}
	defer close(e.done)
	f()
}

// Both returns a context that ends with either of the two and has the values of the
// first.
func Both(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// IsClosed reports whether the channel is closed.
func IsClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Within reports whether the channel is closed within d.
func Within(ch <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-timer.C:
		return false
	}
}
