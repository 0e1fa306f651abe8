// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"
)

const (
	// lagLimit is the lateness of a timer that indicates a problem. A garbage collection
	// or a short load causes far less.
	lagLimit = 500 * time.Millisecond

	// lagSeconds is in how many seconds of a minute a timer must be late before it is
	// logged. After a suspension of the machine or process it is late once.
	lagSeconds = 3

	lagMemory = 60 // seconds
)

// Lag records how late timers of the process fired within the last minute. Timers that are
// late repeatedly mean that the process has too little CPU time or waits for swapped memory:
// it still serves, but its deadlines are wrong. Its methods may be called concurrently.
type Lag struct {
	began time.Time

	mu     sync.Mutex
	late   [lagMemory]second // indexed by the number of the second, modulo lagMemory
	logged time.Time
}

// second is the largest lateness within one second.
type second struct {
	number int64
	worst  time.Duration
}

// NewLag returns an empty Lag.
func NewLag() *Lag { return &Lag{began: time.Now()} }

// Note records the lateness of a timer that has just fired. It reports whether this should be
// logged, which is true at most once a minute.
func (l *Lag) Note(late time.Duration) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.number(now)
	s := &l.late[n%lagMemory]
	if s.number != n {
		*s = second{number: n}
	}
	s.worst = max(s.worst, late)
	if _, behind := l.worstLocked(n); !behind || late < lagLimit || !l.logged.IsZero() && now.Sub(l.logged) < time.Minute {
		return false
	}
	l.logged = now
	return true
}

// Worst returns the largest lateness of the last minute, and whether timers were late so often
// that the process cannot keep up.
func (l *Lag) Worst() (worst time.Duration, behind bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.worstLocked(l.number(time.Now()))
}

// number returns the number of a second, from 1 on; zero marks an unused element.
func (l *Lag) number(now time.Time) int64 { return int64(now.Sub(l.began)/time.Second) + 1 }

func (l *Lag) worstLocked(now int64) (worst time.Duration, behind bool) {
	seconds := 0
	for _, s := range l.late {
		if s.number == 0 || s.number <= now-lagMemory {
			continue
		}
		worst = max(worst, s.worst)
		if s.worst >= lagLimit {
			seconds++
		}
	}
	return worst, seconds >= lagSeconds
}
