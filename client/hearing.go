// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// hearing are the calls on a shared pipe that asked for log messages. A message
// names no call; it can only be about one that asked, under way or lately given
// up (2026-07-28, server/utilities/logging). The zero value is ready.
type hearing struct {
	mu   sync.Mutex
	open map[mcp.ID]*mcp.Scope

	// gaveUp are those that were given up and are not answered yet: about them
	// the server may go on to log, for abandonedTime at the most.
	gaveUp map[mcp.ID]givenUpCall
}

// givenUpCall is whose a call was, where that is known, and since when it is
// nobody's.
type givenUpCall struct {
	scope *mcp.Scope
	at    time.Time
}

func (h *hearing) begin(id mcp.ID, scope *mcp.Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = make(map[mcp.ID]*mcp.Scope)
	}
	h.open[id] = scope
}

func (h *hearing) end(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, id)
}

// abandon notes that a call was given up.
func (h *hearing) abandon(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	scope, asked := h.open[id]
	if !asked {
		return
	}
	h.forgetLocked()
	if h.gaveUp == nil {
		h.gaveUp = make(map[mcp.ID]givenUpCall)
	}
	h.gaveUp[id] = givenUpCall{scope: scope, at: time.Now()}
}

// answered notes that the server is done with a call, given up or not.
func (h *hearing) answered(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.gaveUp, id)
}

// forgetLocked forgets what was given up too long ago to matter.
func (h *hearing) forgetLocked() {
	for id, c := range h.gaveUp {
		if time.Since(c.at) >= abandonedTime {
			delete(h.gaveUp, id)
		}
	}
}

// only returns the call that a log message must be about, or no id: where
// several asked, and where it may be about a call of another client.
func (h *hearing) only() mcp.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) != 1 {
		return mcp.ID{}
	}
	h.forgetLocked()
	var only mcp.ID
	for id, scope := range h.open {
		only = id
		for _, c := range h.gaveUp {
			if c.scope == nil || c.scope != scope {
				return mcp.ID{}
			}
		}
	}
	return only
}
