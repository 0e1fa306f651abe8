// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Limits of starting a server that keeps exiting.
const (
	maxCrashes     = 5
	crashWindow    = time.Minute
	minRespawnWait = 100 * time.Millisecond // after the second exit; doubled each time
)

// crashBackoff delays the start of a child that keeps exiting. A start costs more than
// an error, and a model that receives an error often tries again at once. After a while
// a start is attempted again, because the cause may have been fixed meanwhile. The zero
// value is ready.
type crashBackoff struct {
	mu      sync.Mutex
	deaths  []time.Time // within the window, oldest first; includes failed starts
	last    string      // how it ended last, or why it was not started
	started bool        // last describes an exit, not a failed start
}

// died records an exit that the gateway did not cause. Children that the gateway ended
// do not count.
func (c *crashBackoff) died(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaths = append(c.recentLocked(now), now)
}

// explain records how the child ended. That is the cause to fix, so it appears in the
// errors while no child is started.
func (c *crashBackoff) explain(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.started = how, true
}

// failed records that the child could not be started, and why.
func (c *crashBackoff) failed(now time.Time, why string) {
	c.died(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.started = why, false
}

// admit returns how long to wait before the next start, or an error if none is allowed
// now. After a single exit there is no wait: a server that exits when idle is started
// by the next call and should not delay it.
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

// refusalLocked returns the error for a start that is not allowed now.
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

// recentLocked drops exits outside the window, so that the list is bounded by those
// that count.
func (c *crashBackoff) recentLocked(now time.Time) []time.Time {
	for len(c.deaths) > 0 && now.Sub(c.deaths[0]) >= crashWindow {
		c.deaths = c.deaths[1:]
	}
	return c.deaths
}
