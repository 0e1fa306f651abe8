// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// RateLimit bounds how often something may happen: Burst times at once, and after
// that once in Every. The zero RateLimit bounds nothing.
type RateLimit struct {
	Burst int
	Every time.Duration
}

// meter is what was used of a pace: the time at which a whole burst may be had
// again. Its zero value has used nothing.
type meter struct{ whole time.Time }

// due returns when the next may be. Where that is not after now it may be now.
func (m *meter) due(p RateLimit) time.Time {
	return m.whole.Add(-time.Duration(p.Burst-1) * p.Every)
}

// use notes that one was.
func (m *meter) use(p RateLimit, now time.Time) {
	if m.whole.Before(now) {
		m.whole = now
	}
	m.whole = m.whole.Add(p.Every)
}

// Report appends a message of class Progress or Log, at the pace that the limits
// allow to one exchange. Beyond it a log message is dropped, and of the progress
// the latest is kept: due says then when Release is worth calling. What is kept
// when the terminal comes goes before that, whenever that is. Progress that is not
// further than what was reported before goes nowhere. Otherwise Report is as
// [Stream.Append].
func (x *Exchange) Report(m Message, now time.Time) (due time.Time, full <-chan struct{}, err error) {
	s := &x.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if m.Class == Progress && x.reached.stalls(m.Value) && !s.ended && !s.isDeafLocked() {
		s.core.rules.Counts.Dropped.Add(1)
		return time.Time{}, nil, nil
	}
	used, pace := x.meterLocked(m.Class)
	if at := used.due(pace); at.After(now) && !s.ended && !s.isDeafLocked() {
		return x.keepLocked(m, at), nil, nil
	}
	full, err = s.appendLocked(m)
	if full != nil || err != nil {
		return time.Time{}, full, err
	}
	used.use(pace, now)
	if m.Class == Progress {
		x.forgetLateLocked()
	}
	x.reached.reach(m.Value)
	return time.Time{}, nil, nil
}

func (x *Exchange) meterLocked(c Class) (*meter, RateLimit) {
	l := &x.stream.core.rules.Limits
	if c == Log {
		return &x.logs, l.Logs
	}
	return &x.progress, l.Progress
}

// keepLocked does with a message what is done beyond the pace.
func (x *Exchange) keepLocked(m Message, due time.Time) time.Time {
	if m.Class == Log {
		x.stream.core.rules.Counts.Dropped.Add(1)
		return time.Time{}
	}
	x.forgetLateLocked()
	x.late = &m
	x.reached.reach(m.Value)
	return due
}

// forgetLateLocked drops the progress that was kept, because there is newer.
func (x *Exchange) forgetLateLocked() {
	if x.late != nil {
		x.stream.core.rules.Counts.Merged.Add(1)
		x.late = nil
	}
}

// Release appends the progress that Report has kept, if its time has come. If
// not, or if there is no room for it, due says when it is worth calling again.
func (x *Exchange) Release(now time.Time) (due time.Time) {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	pace := x.stream.core.rules.Limits.Progress
	if x.late == nil || x.over {
		return time.Time{}
	}
	if at := x.progress.due(pace); at.After(now) {
		return at
	}
	if full, _ := x.stream.appendLocked(*x.late); full != nil {
		return now.Add(pace.Every)
	}
	x.progress.use(pace, now)
	x.late = nil
	return time.Time{}
}

// flushLocked has the progress that was kept precede the terminal. One message
// more than fits does no harm where nothing but the terminal follows.
func (x *Exchange) flushLocked() {
	late := x.late
	x.late = nil
	if late == nil || x.stream.lost {
		return
	}
	if x.stream.slowLocked() {
		x.stream.dropLocked(late.same)
	}
	x.stream.pushLocked(*late)
}
