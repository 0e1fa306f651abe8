// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
)

// pendingAnswerTimeout is how long the calls of a forgotten session may wait for their
// own answers. A server that refuses a request does so at once.
const pendingAnswerTimeout = time.Second

// pendingAnswers counts the calls of one session that wait for the beginning of their
// answers.
//
// A server that has forgotten the session refuses most of these calls as it did the
// first, without executing them. A call that receives its own refusal can be sent
// again, while a call that merely loses its session may have been executed. So the
// session waits for these answers before it ends. The zero value is ready.
type pendingAnswers struct {
	mu      sync.Mutex
	count   int
	settled chan struct{} // closed when the wait is over; nil before the session is forgotten
}

// pendingAnswer is one of them. It must be used by one goroutine.
type pendingAnswer struct {
	owner *pendingAnswers // nil once received
}

// add counts a call that waits for its answer.
func (l *pendingAnswers) add() pendingAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return pendingAnswer{owner: l}
}

// received is called when the answer has begun, or when the call has ended without one.
// Further calls do nothing.
func (a *pendingAnswer) received() {
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

// sessionForgotten is called when the server has forgotten the session. Calls that are
// sent in the session after the wait are lost with it.
func (l *pendingAnswers) sessionForgotten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled == nil {
		l.settled = make(chan struct{})
	}
	if l.count == 0 {
		l.settleLocked()
	}
}

// settle ends the wait, and any later one.
func (l *pendingAnswers) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled == nil {
		l.settled = make(chan struct{})
	}
	l.settleLocked()
}

func (l *pendingAnswers) settleLocked() {
	if !call.IsClosed(l.settled) {
		close(l.settled)
	}
}

// runWhenSettled calls f on a goroutine of the owner when no answer is pending, after
// pendingAnswerTimeout, or when the owner closes. If there is nothing to wait for, it
// reports false and does not call f.
func (l *pendingAnswers) runWhenSettled(owner *call.Goroutines, f func()) bool {
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
		l.settle()
		f()
	})
	return ok
}
