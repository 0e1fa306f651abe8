// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// logRouting are the calls on a shared pipe that asked for log messages. A message
// names no call, on a pipe: it can only be about one that asked for its level,
// under way or lately given up (2026-07-28, server/utilities/logging). The zero
// value is ready.
type logRouting struct {
	mu   sync.Mutex
	open []logRequest // oldest first

	// gaveUp are those that were given up and are not answered yet: about them
	// the server may go on to log, for abandonedTime at the most.
	gaveUp []logRequest
}

// logRequest is one of them.
type logRequest struct {
	id    mcp.ID
	level mcp.LogLevel // the lowest that it asked for
	scope *mcp.Scope   // whose it is, nil where that is not known
	ended time.Time    // when it was given up
}

func (c *logRequest) isSameClient(o *logRequest) bool { return c.scope != nil && c.scope == o.scope }

// begin notes a call that asked for log messages. One that asked for none hears
// none, and need not be known here.
func (h *logRouting) begin(id mcp.ID, level mcp.LogLevel, scope *mcp.Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = append(h.open, logRequest{id: id, level: level, scope: scope})
}

// end is the end of a call for its caller, whatever the server does.
func (h *logRouting) end(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = without(h.open, id)
}

// abandon notes that a call was given up.
func (h *logRouting) abandon(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetLocked()
	for _, c := range h.open {
		if c.id == id {
			c.ended = time.Now()
			h.gaveUp = append(h.gaveUp, c)
		}
	}
}

// answered notes that the server is done with a call, given up or not.
func (h *logRouting) answered(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gaveUp = without(h.gaveUp, id)
}

// without takes one call out and keeps the order, which decides whose a message is.
func without(calls []logRequest, id mcp.ID) []logRequest {
	return slices.DeleteFunc(calls, func(c logRequest) bool { return c.id == id })
}

// forgetLocked forgets what was given up too long ago to matter.
func (h *logRouting) forgetLocked() {
	h.gaveUp = slices.DeleteFunc(h.gaveUp, func(c logRequest) bool { return time.Since(c.ended) >= abandonedTime })
}

// addressee returns the call to which a log message of the level is given, or no
// id. What it may be about has to be of one client: a message is nobody's rather
// than another client's. Among the calls of one client the oldest gets it.
func (h *logRouting) addressee(level mcp.LogLevel) mcp.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetLocked()
	var to *logRequest
	for i := range h.open {
		c := &h.open[i]
		switch {
		case level < c.level: // a server sends a call nothing below what it asked for
		case to == nil:
			to = c
		case !to.isSameClient(c):
			return mcp.ID{}
		}
	}
	if to == nil {
		return mcp.ID{}
	}
	for i := range h.gaveUp {
		if c := &h.gaveUp[i]; level >= c.level && !to.isSameClient(c) {
			return mcp.ID{}
		}
	}
	return to.id
}
