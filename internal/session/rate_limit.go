// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// RateLimit limits how often an event may happen: Burst times at once, and after that once
// per Every. The zero RateLimit is no limit.
type RateLimit struct {
	Burst int
	Every time.Duration
}

// rateLimiter is the state of a RateLimit: the time at which a whole burst is available
// again. The zero value is unused.
type rateLimiter struct{ fullAt time.Time }

// next returns when the next event is allowed, which may be in the past.
func (m *rateLimiter) next(p RateLimit) time.Time {
	return m.fullAt.Add(-time.Duration(p.Burst-1) * p.Every)
}

// take records an event.
func (m *rateLimiter) take(p RateLimit, now time.Time) {
	if m.fullAt.Before(now) {
		m.fullAt = now
	}
	m.fullAt = m.fullAt.Add(p.Every)
}

// Report appends a message of class Progress or Log within the rate limits of an exchange.
// Beyond the limit a log message is dropped, and the latest progress is deferred: due is
// when to call Release. Deferred progress is sent before the terminal in any case. Progress
// that does not increase is dropped. Otherwise Report is like [Stream.Append].
func (x *Exchange) Report(m Message, now time.Time) (due time.Time, full <-chan struct{}, err error) {
	s := &x.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	used, limit := &x.progress, s.core.rules.Limits.Progress
	if m.Class == Log {
		used, limit = &x.logs, s.core.rules.Limits.Logs
	}
	switch at := used.next(limit); {
	case s.ended, s.isDiscardingLocked():
	case m.Class == Progress && isStale(x.lastProgress, m.Value), m.Class == Log && at.After(now):
		s.core.rules.Counts.Dropped.Add(1)
		return time.Time{}, nil, nil
	case at.After(now):
		x.dropDeferredLocked()
		late := m
		x.deferred = &late
		x.advanceLocked(m.Value)
		return at, nil, nil
	}
	full, err = s.appendLocked(m)
	if full != nil || err != nil {
		return time.Time{}, full, err
	}
	used.take(limit, now)
	if m.Class == Progress {
		x.dropDeferredLocked()
	}
	x.advanceLocked(m.Value)
	return time.Time{}, nil, nil
}

// dropDeferredLocked drops the deferred progress in favour of a newer one.
func (x *Exchange) dropDeferredLocked() {
	if x.deferred != nil {
		x.stream.core.rules.Counts.Merged.Add(1)
		x.deferred = nil
	}
}

// Release appends the deferred progress if its time has come. If it has not, or if there is
// no space, due is when to call Release again.
func (x *Exchange) Release(now time.Time) (due time.Time) {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	limit := x.stream.core.rules.Limits.Progress
	if x.deferred == nil || x.ended {
		return time.Time{}
	}
	if at := x.progress.next(limit); at.After(now) {
		return at
	}
	if full, _ := x.stream.appendLocked(*x.deferred); full != nil {
		return now.Add(limit.Every)
	}
	x.progress.take(limit, now)
	x.deferred = nil
	return time.Time{}
}

// flushDeferredLocked queues the deferred progress before the terminal. Exceeding the
// limits by one message is harmless if only the terminal follows.
func (x *Exchange) flushDeferredLocked() {
	late := x.deferred
	x.deferred = nil
	if late == nil || x.stream.lost {
		return
	}
	if x.stream.slowLocked() {
		x.stream.dropLocked(late.same)
	}
	x.stream.pushLocked(*late)
}
