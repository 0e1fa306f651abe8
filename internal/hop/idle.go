// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package hop

import (
	"slices"
	"sync"
	"time"
)

// idle has the connections that nobody uses. There is no goroutine for them: they are
// looked at before they are used, and now and then.
type idle struct {
	mu    sync.Mutex
	all   map[string][]*conn // by address; the one that was used last is the last
	round int                // how often all were closed
	timer *time.Timer        // runs while there are some
}

// lookAfter is how long a connection that the other end has closed may stay open here.
const lookAfter = 15 * time.Second

// take returns the connection that was used last of those that can be, nil where there
// is none, and what round it is. A server that has closed one or is about to, or said
// something that nobody has asked for, is not asked on it.
func (i *idle) take(address string) (c *conn, round int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	some, now := i.all[address], time.Now()
	for len(some) > 0 && c == nil {
		last := len(some) - 1
		c, some[last] = some[last], nil
		some = some[:last]
		if !c.isFit(now) {
			c.Close()
			c = nil
		}
	}
	if i.all != nil {
		i.all[address] = some
	}
	return c, i.round
}

// put keeps a connection, and reports false where that is not to be kept.
func (i *idle) put(c *conn) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c.round != i.round || c.rest <= 0 || len(i.all[c.address]) >= c.of.MaxIdle {
		return false
	}
	if i.all == nil {
		i.all = make(map[string][]*conn)
	}
	i.all[c.address] = append(i.all[c.address], c)
	if i.timer == nil {
		i.timer = time.AfterFunc(lookAfter, i.look)
	}
	return true
}

// look closes what was idle for too long, and what has been closed by the other end.
func (i *idle) look() {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	for address, some := range i.all {
		some = slices.DeleteFunc(some, func(c *conn) bool {
			fit := c.isFit(now)
			if !fit {
				c.Close()
			}
			return !fit
		})
		if i.all[address] = some; len(some) == 0 {
			delete(i.all, address)
		}
	}
	if len(i.all) == 0 {
		i.timer = nil
		return
	}
	i.timer.Reset(lookAfter)
}

// closeAll closes all that are idle, and lets none be kept that was made before.
func (i *idle) closeAll() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.round++
	for _, some := range i.all {
		for _, c := range some {
			c.Close()
		}
	}
	i.all = nil
	if i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
}
