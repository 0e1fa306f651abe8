// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"maps"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// overlap is how long a stream of changes is read on after another one has taken its
// place. The two are connections of their own: what was told on the first before the
// second was acknowledged may arrive after that.
const overlap = 500 * time.Millisecond

// maxPast bounds the streams that are read on. Each of them was open for as long as
// it took to open the next, so that the oldest has had several times that.
const maxPast = 3

// past are the streams of a hub that were replaced, and what they tell still. It is
// nearly always told by the stream in their place as well, and is kept back for as
// long as it may come from there: a change is told once, if it can be, and it is
// told. The zero value is ready.
type past struct {
	streams []*upstream                  // the oldest first
	told    map[string]bool              // what the stream in their place has told so far
	held    map[string]*mcp.Notification // what they have told, and it has not
}

// changeKey says which changes are the same.
func changeKey(n *mcp.Notification) string {
	uri, _ := n.Params.Text(mcp.FieldURI)
	id, _ := n.Params.Text(mcp.FieldTaskID)
	return n.Method + " " + uri + " " + id
}

// isNews reports whether what a stream has told is to be told to the listens now.
func (h *sharedListen) isNews(st *upstream, n *mcp.Notification) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.past.streams) == 0 {
		return true
	}
	switch key := changeKey(n); {
	case !st.replaced:
		// Later than all that the others can tell of it.
		if len(h.past.told) < maxSubResources {
			h.past.told[key] = true
		}
		delete(h.past.held, key)
		return true
	case h.past.told[key]:
		return false
	case len(h.past.held) >= maxSubResources, len(n.Params.Bytes())+len(n.Params.Beside()) > maxUpdate:
		return true // twice rather than never
	default:
		h.past.held[key] = n
		return false
	}
}

// replace has a stream be read on for a while. What was told since the one before it
// was replaced says nothing about what is told on this one.
func (k *upstreamLoop) replace(old *upstream) {
	if old == nil {
		return
	}
	for k.isCrowded() {
		k.closeOld(1)
	}
	k.addPast(old)
	if k.aged == nil {
		k.aged = time.After(overlap)
	}
}

func (h *sharedListen) isCrowded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.past.streams) >= maxPast
}

func (h *sharedListen) addPast(old *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old.replaced, old.until = true, time.Now().Add(overlap)
	h.past.streams = append(h.past.streams, old)
	h.past.told = make(map[string]bool)
	if h.past.held == nil {
		h.past.held = make(map[string]*mcp.Notification)
	}
}

// closeOld closes up to n of the streams that were replaced, the oldest first, and
// tells what was kept back. It reports whether there were any.
func (k *upstreamLoop) closeOld(n int) bool {
	closed, held, next := k.takePast(n)
	for _, st := range closed {
		st.cancel()
	}
	for _, change := range held {
		k.tell(change)
	}
	k.aged = nil
	if !next.IsZero() {
		k.aged = time.After(time.Until(next))
	}
	return len(closed) > 0
}

// takePast takes out up to n streams and all that was kept back, and returns when
// the next stream is due.
func (h *sharedListen) takePast(n int) (closed []*upstream, held []*mcp.Notification, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = min(n, len(h.past.streams))
	closed, h.past.streams = h.past.streams[:n:n], slices.Clone(h.past.streams[n:])
	for _, key := range slices.Sorted(maps.Keys(h.past.held)) {
		held = append(held, h.past.held[key])
	}
	clear(h.past.held)
	if len(h.past.streams) > 0 {
		next = h.past.streams[0].until
	}
	return closed, held, next
}
