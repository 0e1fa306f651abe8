// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// logRouting holds the calls on a shared pipe that requested log messages. On a pipe a
// log message names no call. It can only concern a call that requested its level and is
// open or was recently cancelled (2026-07-28, server/utilities/logging). The zero value
// is ready.
type logRouting struct {
	mu   sync.Mutex
	open []logRequest // oldest first

	// gaveUp holds cancelled calls without a response. The server may log about them,
	// but no longer than AbandonedTime.
	gaveUp []logRequest
}

// logRequest is a call that requested log messages.
type logRequest struct {
	id    mcp.ID
	level mcp.LogLevel // the lowest that it requested
	scope *mcp.Scope   // the client's scope; nil if not known
	ended time.Time    // when it was cancelled
}

func (c *logRequest) isSameClient(o *logRequest) bool { return c.scope != nil && c.scope == o.scope }

// begin adds a call that requested log messages.
func (h *logRouting) begin(id mcp.ID, level mcp.LogLevel, scope *mcp.Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = append(h.open, logRequest{id: id, level: level, scope: scope})
}

// end removes a call that has ended for its caller.
func (h *logRouting) end(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = without(h.open, id)
}

// abandon records that a call is cancelled.
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

// answered records that the server has responded to a call, cancelled or not.
func (h *logRouting) answered(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gaveUp = without(h.gaveUp, id)
}

// without removes one call and keeps the order, which decides where messages go.
func without(calls []logRequest, id mcp.ID) []logRequest {
	return slices.DeleteFunc(calls, func(c logRequest) bool { return c.id == id })
}

// forgetLocked removes calls that were cancelled too long ago to matter.
func (h *logRouting) forgetLocked() {
	h.gaveUp = slices.DeleteFunc(h.gaveUp, func(c logRequest) bool { return time.Since(c.ended) >= call.AbandonedTime })
}

// addressee returns the call that receives a log message of the level, or no id. All
// calls that the message may concern must be of one client: it is dropped rather than
// sent to the wrong client. The oldest call of the client receives it.
func (h *logRouting) addressee(level mcp.LogLevel) mcp.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetLocked()
	var to *logRequest
	for i := range h.open {
		c := &h.open[i]
		switch {
		case level < c.level: // a server must not send a call messages below its level
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
