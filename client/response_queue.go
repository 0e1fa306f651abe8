// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
)

// The bounds of the responses that are being sent at a time, and of those that wait.
const (
	maxResponseSenders = 4
	maxQueuedResponses = 1024
)

// responseQueue sends short messages that no goroutine waits for: refusals, answers to
// pings, notifications of a client. There may be any number of them at any time, and
// sending may be slow, so they are queued. Beyond the bound they are dropped: a server
// that sends requests faster than it accepts responses gets no more than that. The zero
// value is ready.
type responseQueue struct {
	mu      sync.Mutex
	queue   [][]byte
	senders int
	dropped uint64
}

// put queues a message. It does not wait.
func (r *responseQueue) put(s *legacySession, msg []byte) {
	need, dropped := r.add(msg)
	if dropped == 1 {
		s.log.Warn("backend sends requests faster than it accepts responses; dropping responses")
	}
	if !need {
		return
	}
	// Ends when the queue is empty, or with the session. The session's close waits for
	// it.
	if _, ok := s.group.start(func(ctx context.Context) { r.drain(ctx, s) }); !ok {
		r.next(true)
	}
}

// add reports whether another sender is needed. dropped is the number of dropped
// messages if this one was dropped, otherwise 0.
func (r *responseQueue) add(msg []byte) (need bool, dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) >= maxQueuedResponses {
		r.dropped++
		return false, r.dropped
	}
	r.queue = append(r.queue, msg)
	if r.senders >= maxResponseSenders {
		return false, 0
	}
	r.senders++
	return true, 0
}

func (r *responseQueue) drain(ctx context.Context, s *legacySession) {
	for msg := r.next(false); msg != nil; msg = r.next(ctx.Err() != nil) {
		s.sendWithRetry(ctx, msg)
	}
}

// next returns the next message. It returns nil if the queue is empty or stop is set;
// then the sender must end.
func (r *responseQueue) next(stop bool) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stop || len(r.queue) == 0 {
		r.senders--
		return nil
	}
	msg := r.queue[0]
	r.queue = r.queue[1:]
	return msg
}
