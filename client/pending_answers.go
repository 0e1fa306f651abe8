// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
	"time"
)

// answerTime is how long the calls of a forgotten session may wait for their own
// answers. What a server refuses it refuses at once.
const answerTime = time.Second

// pendingAnswers are the answers that have not begun in one session. A server that has
// forgotten it refuses most of them as it did the first, without looking at what was
// asked; and a call that reads that itself can be made again, where one that only
// loses its session may have been executed. The zero value is ready.
type pendingAnswers struct {
	mu      sync.Mutex
	awaited int
	none    chan struct{} // closed when none is awaited; nil before the session is forgotten
}

// dueAnswer is one of them. It belongs to one goroutine.
type dueAnswer struct {
	among *pendingAnswers // nil once it has been heard
}

// await notes a call whose answer is awaited.
func (l *pendingAnswers) await() dueAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaited++
	return dueAnswer{among: l}
}

// logRequest is called when the answer has begun, or when the call has ended for want of
// one; more than once does no harm.
func (a *dueAnswer) heard() {
	if a.among != nil {
		a.among.heard()
		a.among = nil
	}
}

func (l *pendingAnswers) heard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaited--
	l.settleLocked()
}

// forget notes that the server has forgotten the session.
func (l *pendingAnswers) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.none == nil {
		l.none = make(chan struct{})
	}
	l.settleLocked()
}

// settleLocked says once that there is nothing to wait for. What is sent in the
// session after that is lost with it.
func (l *pendingAnswers) settleLocked() {
	if l.none != nil && l.awaited == 0 && !isClosed(l.none) {
		close(l.none)
	}
}

// due returns what is closed when none is awaited any more, and nil where there is
// nothing to wait for.
func (l *pendingAnswers) due() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.none == nil || isClosed(l.none) {
		return nil
	}
	return l.none
}

// thenIn has f called by a goroutine of the owner's when no answer is awaited any
// more, or when that takes too long, or the owner closes. It reports false, and does
// not call f, where there is nothing to wait for.
func (l *pendingAnswers) thenIn(owner *goroutines, f func()) bool {
	due := l.due()
	if due == nil {
		return false
	}
	_, ok := owner.start(func(ctx context.Context) {
		timer := time.NewTimer(answerTime)
		defer timer.Stop()
		select {
		case <-due:
		case <-timer.C:
		case <-ctx.Done():
		}
		l.forgo()
		f()
	})
	return ok
}

// forgo has nobody wait any more, nor begin to.
func (l *pendingAnswers) forgo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.none == nil {
		l.none = make(chan struct{})
	}
	if !isClosed(l.none) {
		close(l.none)
	}
}
