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
	mu    sync.Mutex
	calls []logRequest // oldest first
}

// logRequest is a call that requested log messages. A cancelled call without a response
// is kept, because the server may log about it, but no longer than AbandonedTime.
type logRequest struct {
	id    mcp.ID
	level mcp.LogLevel // the lowest that it requested
	scope *mcp.Scope   // the client's scope; nil if not known
	ended time.Time    // when it was cancelled, or zero
}

func (c *logRequest) isOpen() bool { return c.ended.IsZero() }

func (c *logRequest) isSameClient(o *logRequest) bool { return c.scope != nil && c.scope == o.scope }

// begin adds a call that requested log messages.
func (h *logRouting) begin(id mcp.ID, level mcp.LogLevel, scope *mcp.Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, logRequest{id: id, level: level, scope: scope})
}

// end removes a call that has ended for its caller, unless it is cancelled.
func (h *logRouting) end(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = slices.DeleteFunc(h.calls, func(c logRequest) bool { return c.id == id && c.isOpen() })
}

// abandon records that a call is cancelled.
func (h *logRouting) abandon(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetLocked()
	for i := range h.calls {
		if h.calls[i].id == id {
			h.calls[i].ended = time.Now()
		}
	}
}

// answered records that the server has responded to a call. It removes the call if that
// is cancelled.
func (h *logRouting) answered(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = slices.DeleteFunc(h.calls, func(c logRequest) bool { return c.id == id && !c.isOpen() })
}

// forgetLocked removes calls that were cancelled too long ago to matter.
func (h *logRouting) forgetLocked() {
	h.calls = slices.DeleteFunc(h.calls, func(c logRequest) bool {
		return !c.isOpen() && time.Since(c.ended) >= call.AbandonedTime
	})
}

// addressee returns the call that receives a log message of the level, or no id. All
// calls that the message may concern must be of one client: it is dropped rather than
// sent to the wrong client. The oldest open call of the client receives it.
func (h *logRouting) addressee(level mcp.LogLevel) mcp.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetLocked()
	var first, to *logRequest
	for i := range h.calls {
		c := &h.calls[i]
		if level < c.level { // a server must not send a call messages below its level
			continue
		}
		switch {
		case first == nil:
			first = c
		case !first.isSameClient(c):
			return mcp.ID{}
		}
		if to == nil && c.isOpen() {
			to = c
		}
	}
	if to == nil {
		return mcp.ID{}
	}
	return to.id
}
