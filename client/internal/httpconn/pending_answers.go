// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
)

// pendingAnswerTimeout is how long the calls of a forgotten session may wait for their
// own answers. A server that refuses a request does so at once.
const pendingAnswerTimeout = time.Second

// PendingAnswers counts the calls of one session that wait for the beginning of their
// answers.
//
// A server that has forgotten the session refuses most of these calls as it did the
// first, without executing them. A call that receives its own refusal can be sent
// again, while a call that merely loses its session may have been executed. So the
// session waits for these answers before it ends. The zero value is ready.
type PendingAnswers struct {
	mu      sync.Mutex
	count   int
	settled chan struct{} // closed when the wait is over; nil before the session is forgotten
}

// PendingAnswer is one of them. It must be used by one goroutine.
type PendingAnswer struct {
	owner *PendingAnswers // nil once received
}

// Add counts a call that waits for its answer.
func (l *PendingAnswers) Add() PendingAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return PendingAnswer{owner: l}
}

// Received is called when the answer has begun, or when the call has ended without one.
// Further calls do nothing.
func (a *PendingAnswer) Received() {
	l := a.owner
	if l == nil {
		return
	}
	a.owner = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	if l.settled != nil && l.count == 0 {
		l.settleLocked()
	}
}

// SessionForgotten is called when the server has forgotten the session. Calls that are
// sent in the session after the wait are lost with it.
func (l *PendingAnswers) SessionForgotten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled == nil {
		l.settled = make(chan struct{})
	}
	if l.count == 0 {
		l.settleLocked()
	}
}

// Settle ends the wait, and any later one.
func (l *PendingAnswers) Settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled == nil {
		l.settled = make(chan struct{})
	}
	l.settleLocked()
}

func (l *PendingAnswers) settleLocked() {
	if !call.IsClosed(l.settled) {
		close(l.settled)
	}
}

// RunWhenSettled calls f on a goroutine of the owner when no answer is pending, after
// pendingAnswerTimeout, or when the owner closes. If there is nothing to wait for, it
// reports false and does not call f.
func (l *PendingAnswers) RunWhenSettled(owner *call.Goroutines, f func()) bool {
	l.mu.Lock()
	settled := l.settled
	l.mu.Unlock()
	if settled == nil || call.IsClosed(settled) {
		return false
	}
	_, ok := owner.Start(func(ctx context.Context) {
		timer := time.NewTimer(pendingAnswerTimeout)
		defer timer.Stop()
		select {
		case <-settled:
		case <-timer.C:
		case <-ctx.Done():
		}
		l.Settle()
		f()
	})
	return ok
}
