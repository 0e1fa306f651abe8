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

	// The calls that were given up within abandonedTime: when the last was, and
	// whose they all were, nil where that is several clients or not known.
	gaveUp time.Time
	whose  *mcp.Scope
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

// abandon notes that a call was given up, about which the server may go on to
// log for a while.
func (h *hearing) abandon(id mcp.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	scope, asked := h.open[id]
	if !asked {
		return
	}
	if h.latelyLocked() && scope != h.whose {
		scope = nil
	}
	h.gaveUp, h.whose = time.Now(), scope
}

func (h *hearing) latelyLocked() bool {
	return !h.gaveUp.IsZero() && time.Since(h.gaveUp) < abandonedTime
}

// only returns the call that a log message must be about, or no id: where
// several asked, and where it may be about a call of another client.
func (h *hearing) only() mcp.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) != 1 {
		return mcp.ID{}
	}
	for id, scope := range h.open {
		if !h.latelyLocked() || scope != nil && scope == h.whose {
			return id
		}
	}
	return mcp.ID{}
}
