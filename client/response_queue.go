// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
)

// The bounds of the answers that are on their way to a server: as many at a time,
// and as many that wait.
const (
	maxRepliers = 4
	maxReplies  = 1024
)

// responseQueue are short messages to a server that nobody waits for, and of which there
// may be any number at any time: refusals, the answers to pings, what a client says
// of itself. Sending one may take a while, so that they wait in line; a server that
// serverRequests faster than it takes answers gets no more than the bound. The zero value is
// ready.
type responseQueue struct {
	mu      sync.Mutex
	queue   [][]byte
	senders int
	dropped uint64
}

// put has a message sent, without waiting.
func (r *responseQueue) put(s *legacySession, msg []byte) {
	need, dropped := r.add(msg)
	if dropped == 1 {
		s.log.Warn("backend asks faster than it takes answers; some get none")
	}
	if !need {
		return
	}
	// Ends when the queue is empty, or with the session, which waits for it.
	if _, ok := s.tasks.start(func(ctx context.Context) { r.drain(ctx, s) }); !ok {
		r.next(true)
	}
}

// add reports whether another sender is needed, and the how-manieth message was
// dropped, 0 where none was.
func (r *responseQueue) add(msg []byte) (need bool, dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) >= maxReplies {
		r.dropped++
		return false, r.dropped
	}
	r.queue = append(r.queue, msg)
	if r.senders >= maxRepliers {
		return false, 0
	}
	r.senders++
	return true, 0
}

func (r *responseQueue) drain(ctx context.Context, s *legacySession) {
	for msg := r.next(false); msg != nil; msg = r.next(ctx.Err() != nil) {
		s.deliver(ctx, msg)
	}
}

// next returns the next message, or nil when there is none or no more are to be
// sent; then the sender is over.
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
