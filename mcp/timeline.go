// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"sync"
	"sync/atomic"
	"time"
)

// Stage is a point on the way of a request through a gateway.
type Stage uint8

// The stages, in the order in which a request reaches them.
const (
	StageAdmitted  Stage = iota // its Handler is called: limits and quotas are passed
	StageResolved               // the backend that serves it is known
	StageLeased                 // a connection to the backend is ready for it
	StageSent                   // its first byte is about to be sent to the backend
	StageFirstByte              // the answer begins; unknown on a pipe, where lines arrive whole
	StageLastByte               // the answer has arrived
	NumStages
)

// A Timeline records when a request reached each [Stage]. It is a part of what its
// maker allocates for the request, so that recording allocates nothing. A nil Timeline
// records nothing.
//
// Begin is called before the request is passed on. The other methods may be called
// concurrently, also after the request has ended, unless they say otherwise.
type Timeline struct {
	received time.Time
	id       atomic.Uint64
	at       [NumStages]atomic.Int64 // nanoseconds after received, plus one; 0 means not reached
	leasing  atomic.Int64            // likewise: since when the request waits for a connection
	attempts atomic.Int32

	starting, handshake atomic.Int64 // nanoseconds of the lease
	installing          atomic.Int64 // those of starting

	record    uint64 // see OnDelivered
	delivered func(record uint64, after time.Duration)

	mu      sync.Mutex
	asking  int32 // unanswered requests to the client
	asks    int32
	since   int64 // since asking is not zero
	waiting int64
}

// Begin sets the time at which the request was received.
func (t *Timeline) Begin(received time.Time) { t.received = received }

// Received returns the time that Begin set.
func (t *Timeline) Received() time.Time { return t.received }

// Take sets the id of the call. It reports false if the request has one: then it belongs
// to another gateway in this process.
func (t *Timeline) Take(id CallID) bool { return t.id.CompareAndSwap(0, uint64(id)) }

// ID returns the id of the call, or zero if it has none.
func (t *Timeline) ID() CallID {
	if t == nil {
		return 0
	}
	return CallID(t.id.Load())
}

// now returns the time since the request was received, plus one nanosecond.
func (t *Timeline) now() int64 { return int64(time.Since(t.received)) + 1 }

// Mark records that the request has reached the stage now. Of several times the last
// counts, for StageSent and StageFirstByte the first one of an attempt: a request may
// take more than one message.
func (t *Timeline) Mark(s Stage) {
	if t == nil {
		return
	}
	switch s {
	case StageSent, StageFirstByte:
		if t.at[s].Load() == 0 {
			t.at[s].CompareAndSwap(0, t.now())
		}
	default:
		t.at[s].Store(t.now())
	}
}

// Unmark records that the request did not reach the stage after all.
func (t *Timeline) Unmark(s Stage) {
	if t != nil {
		t.at[s].Store(0)
	}
}

// At returns when the request reached the stage, as the time since it was received. It
// reports false if it did not, or if that is not known.
func (t *Timeline) At(s Stage) (time.Duration, bool) {
	at := t.at[s].Load()
	return time.Duration(at - 1), at > 0
}

// Attempt records that the request is about to be sent to the backend, once or once
// more. The stages of an attempt before are forgotten.
func (t *Timeline) Attempt() {
	if t == nil {
		return
	}
	if t.attempts.Add(1) == 1 {
		t.leasing.Store(t.at[StageResolved].Load())
		return
	}
	t.leasing.Store(t.now())
	for s := StageLeased; s < NumStages; s++ {
		t.at[s].Store(0)
	}
}

// Attempts returns how often Attempt was called.
func (t *Timeline) Attempts() int { return int(t.attempts.Load()) }

// NoteOpening records the part of the attempt's wait for a connection in which the
// connection was being opened: from its start until the process responded for the first
// time, and from then until it was ready. A connection without a process has a zero
// start. If the process is a package manager, it has begun the server's own program at
// began; otherwise that is zero. It must be called before StageLeased is marked again, and
// costs next to nothing for a connection that was ready before.
func (t *Timeline) NoteOpening(start, began, responded, ready time.Time) {
	if t == nil {
		return
	}
	since := t.received.Add(time.Duration(t.leasing.Load() - 1))
	if !ready.After(since) {
		return
	}
	if !start.IsZero() {
		t.starting.Add(int64(overlap(start, responded, since)))
	}
	if !began.IsZero() {
		t.installing.Add(int64(overlap(start, began, since)))
	}
	t.handshake.Add(int64(overlap(responded, ready, since)))
}

// overlap returns how much of the time between from and to is after since.
func overlap(from, to, since time.Time) time.Duration {
	if from.Before(since) {
		from = since
	}
	return max(0, to.Sub(from))
}

// Opening returns how long the request waited for the start of a process, and for the
// handshake on a connection.
func (t *Timeline) Opening() (start, handshake time.Duration) {
	return time.Duration(t.starting.Load()), time.Duration(t.handshake.Load())
}

// Installing returns how much of the start of a process a package manager took, before it
// began the server's own program.
func (t *Timeline) Installing() time.Duration { return time.Duration(t.installing.Load()) }

// Asked records that the client was sent a request that belongs to this one (+1), or
// that it needs no answer any more (-1).
func (t *Timeline) Asked(delta int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if delta > 0 {
		t.asks++
	}
	if t.asking == 0 {
		t.since = t.now()
	}
	if t.asking += int32(delta); t.asking == 0 {
		t.waiting += t.now() - t.since
	}
}

// Asks returns how many requests the client was sent, and how long at least one of them
// was unanswered.
func (t *Timeline) Asks() (n int, waiting time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total := t.waiting
	if t.asking > 0 {
		total += t.now() - t.since
	}
	return int(t.asks), time.Duration(total)
}

// OnDelivered has Delivered call f with the number of the call's record, and with the
// time since the request was received. It must be called before the Handler returns.
func (t *Timeline) OnDelivered(record uint64, f func(record uint64, after time.Duration)) {
	t.record, t.delivered = record, f
}

// Delivered records that the answer was written to the client. It is called after the
// Handler has returned, once at most.
func (t *Timeline) Delivered() {
	if t != nil && t.delivered != nil {
		t.delivered(t.record, time.Duration(t.now()))
	}
}
