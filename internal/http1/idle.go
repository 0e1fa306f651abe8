// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"slices"
	"sync"
	"time"
)

// idle has the unused connections. They have no goroutines: they are checked before they are
// used, and periodically.
type idle struct {
	mu    sync.Mutex
	all   map[string][]*conn // by address, the most recently used last
	round int                // the number of calls of closeAll
	timer *time.Timer        // set while there are connections
}

// sweepInterval bounds how long a connection stays open after the server has closed it.
const sweepInterval = 15 * time.Second

// take returns the most recently used connection that is usable, or nil, and the current
// round. It closes connections that the server has closed or will close soon, or on which it
// sent unexpected data.
func (i *idle) take(address string) (c *conn, round int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	some, now := i.all[address], time.Now()
	for len(some) > 0 && c == nil {
		last := len(some) - 1
		c, some[last] = some[last], nil
		some = some[:last]
		if !c.isUsable(now) {
			c.Close()
			c = nil
		}
	}
	if i.all != nil {
		i.all[address] = some
	}
	return c, i.round
}

// put keeps a connection, or returns false if it must be closed.
func (i *idle) put(c *conn) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c.round != i.round || c.keepFor <= 0 || len(i.all[c.address]) >= c.of.MaxIdle {
		return false
	}
	if i.all == nil {
		i.all = make(map[string][]*conn)
	}
	i.all[c.address] = append(i.all[c.address], c)
	if i.timer == nil {
		i.timer = time.AfterFunc(sweepInterval, i.sweep)
	}
	return true
}

// sweep closes connections that were idle for too long or were closed by the server.
func (i *idle) sweep() {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	for address, some := range i.all {
		some = slices.DeleteFunc(some, func(c *conn) bool {
			fit := c.isUsable(now)
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
	i.timer.Reset(sweepInterval)
}

// closeAll closes all idle connections, and keeps none that was created before.
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
