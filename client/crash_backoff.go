// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// The limits of starting a server that keeps dying.
const (
	maxCrashes     = 5
	crashWindow    = time.Minute
	minRespawnWait = 100 * time.Millisecond // after the second death; doubled each time
)

// crashBackoff keeps a child that dies again and again from being started each time
// somebody asks: a start costs the machine more than an answer, and a model that
// meets an error tries again at once. It opens for a time, never for
// good: what made the child die may be mended without us.
type crashBackoff struct {
	mu      sync.Mutex
	deaths  []time.Time // within the window, oldest first; starts that failed included
	last    string      // how it ended last, or why it was not started
	started bool        // last is how it ended
}

func newCrashBackoff() *crashBackoff { return &crashBackoff{} }

// died notes that a child ended which nobody had ended. What we ended ourselves, or
// what ended after a call on purpose, is no sign of trouble and is not noted.
func (c *crashBackoff) died(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaths = append(c.recentLocked(now), now)
}

// explain notes how the child ended. It stands in the errors of the time in which
// nothing is started: that nothing is started is not what is to be mended.
func (c *crashBackoff) explain(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.started = how, true
}

// failed notes that the child could not be started, and why.
func (c *crashBackoff) failed(now time.Time, why string) {
	c.died(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.started = why, false
}

// admit says how long to wait before the next start, or that there is none now. The
// first death costs nothing: servers that end after a while of being idle are
// started again by the next call, and should not be late for that.
func (c *crashBackoff) admit(now time.Time) (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaths = c.recentLocked(now)
	n := len(c.deaths)
	if n >= maxCrashes {
		next := c.deaths[n-maxCrashes].Add(crashWindow).Sub(now)
		return 0, c.refusalLocked(n, next.Round(time.Second))
	}
	if n < 2 {
		return 0, nil
	}
	due := c.deaths[n-1].Add(minRespawnWait << (n - 2))
	return max(due.Sub(now), 0), nil
}

// refusalLocked says why there is no start now.
func (c *crashBackoff) refusalLocked(times int, next time.Duration) error {
	if !c.started && c.last != "" {
		return fmt.Errorf("%s; it was tried %d times within %v; the next start is in %v", c.last, times, crashWindow, next)
	}
	text := fmt.Sprintf("its process ended %d times within %v; the next start is in %v", times, crashWindow, next)
	if c.last != "" {
		text += "; " + c.last
	}
	return errors.New(text)
}

// recentLocked drops what is out of the window, so that the list cannot grow beyond
// the deaths that count.
func (c *crashBackoff) recentLocked(now time.Time) []time.Time {
	for len(c.deaths) > 0 && now.Sub(c.deaths[0]) >= crashWindow {
		c.deaths = c.deaths[1:]
	}
	return c.deaths
}
