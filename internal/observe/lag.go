// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"sync"
	"time"
)

const (
	// lagLimit is how late a timer fires where something is wrong. A garbage collection or
	// a busy moment makes it late by far less.
	lagLimit = 500 * time.Millisecond

	// lagSeconds is in how many seconds of a minute that happens before it is told: a
	// machine that was asleep, or a process that was stopped once, is late once.
	lagSeconds = 3

	lagMemory = 60 // seconds
)

// Lag keeps how late the timers of a process fired within the last minute. Where they are
// late again and again the process gets too little processor time, or waits for memory that
// was swapped out: it still serves, and all its deadlines are wrong. Its methods may be
// called concurrently.
type Lag struct {
	began time.Time

	mu   sync.Mutex
	late [lagMemory]second // by the number of the second
	told time.Time
}

// second is the largest lateness within one second.
type second struct {
	number int64
	worst  time.Duration
}

// NewLag returns a Lag that knows of nothing late.
func NewLag() *Lag { return &Lag{began: time.Now()} }

// Note notes how late a timer has fired now. It reports true when that is to be logged,
// which is once a minute at most.
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
	if _, behind := l.worstLocked(n); !behind || late < lagLimit || !l.told.IsZero() && now.Sub(l.told) < time.Minute {
		return false
	}
	l.told = now
	return true
}

// Worst returns the largest lateness of the last minute, and whether timers were late so
// often that the process cannot keep up.
func (l *Lag) Worst() (worst time.Duration, behind bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.worstLocked(l.number(time.Now()))
}

// number counts seconds from 1 on, so that the zero second is none of them.
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
