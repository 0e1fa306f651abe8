// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// Limits of starting a server that keeps exiting.
const (
	maxCrashes     = 5
	crashWindow    = time.Minute
	minRespawnWait = 100 * time.Millisecond // after the second exit; doubled each time
)

// startPause is the time after a failed start in which no other start is attempted. It
// is short, because a failed start costs little.
const startPause = 500 * time.Millisecond

// failure is why there is no process, for an error.
type failure struct {
	code string // package code has the codes
	text string
}

// crashBackoff delays the start of a child that keeps exiting. A start costs more than
// an error, and a model that receives an error often tries again at once. After a while
// a start is attempted again, because the cause may have been fixed meanwhile. The zero
// value is ready.
type crashBackoff struct {
	mu        sync.Mutex
	deaths    []time.Time // within the window, oldest first
	last      failure     // how it ended last
	unstarted failure     // why the last start failed
	failedAt  time.Time   // when that was
}

// died records an exit that the gateway did not cause. Children that the gateway ended
// do not count.
func (c *crashBackoff) died(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaths = append(recent(c.deaths, now, crashWindow), now)
}

// explain records how the child ended. That is the cause to fix, so it appears in the
// errors while no child is started.
func (c *crashBackoff) explain(how failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = how
}

// failed records that the child could not be started, and why. It does not count as an
// exit.
func (c *crashBackoff) failed(now time.Time, why *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unstarted, c.failedAt = *why, now
}

// reset forgets what has happened: the cause may have been fixed.
func (c *crashBackoff) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaths, c.failedAt = nil, time.Time{}
}

// admit returns how long to wait before the next start, or why none is allowed
// now. After a single exit there is no wait: a server that exits when idle is started
// by the next call and should not delay it.
func (c *crashBackoff) admit(now time.Time) (wait time.Duration, refused *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.failedAt) < startPause {
		why := c.unstarted
		return 0, &why
	}
	c.deaths = recent(c.deaths, now, crashWindow)
	n := len(c.deaths)
	if n >= maxCrashes {
		next := c.deaths[n-maxCrashes].Add(crashWindow).Sub(now).Round(time.Second)
		text := fmt.Sprintf("its process ended %d times within %v; the next start is in %v", n, crashWindow, next)
		if c.last.text != "" {
			text += "; " + c.last.text
		}
		return 0, &failure{cmp.Or(c.last.code, code.TalkExited), text}
	}
	if n < 2 {
		return 0, nil
	}
	due := c.deaths[n-1].Add(minRespawnWait << (n - 2))
	return max(due.Sub(now), 0), nil
}
