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
const maxReplaced = 3

// past are the streams of a hub that were replaced, and what they tell still. It is
// nearly always told by the stream in their place as well, and is kept back for as
// long as it may come from there: a change is told once, if it can be, and it is
// told. The zero value is ready.
type replacedStreams struct {
	streams  []*upstream                  // the oldest first
	seen     map[string]bool              // what the stream in their place has told so far
	heldBack map[string]*mcp.Notification // what they have told, and it has not
}

// changeKey says which changes are the same.
func changeKey(n *mcp.Notification) string {
	uri, _ := n.Params.Text(mcp.FieldURI)
	id, _ := n.Params.Text(mcp.FieldTaskID)
	return n.Method + " " + uri + " " + id
}

// isNews reports whether what a stream has told is to be told to the listens now.
func (h *sharedListen) isNew(st *upstream, n *mcp.Notification) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.replaced.streams) == 0 {
		return true
	}
	switch key := changeKey(n); {
	case !st.replaced:
		// Later than all that the others can tell of it.
		if len(h.replaced.seen) < maxSubResources {
			h.replaced.seen[key] = true
		}
		delete(h.replaced.heldBack, key)
		return true
	case h.replaced.seen[key]:
		return false
	case len(h.replaced.heldBack) >= maxSubResources, len(n.Params.Bytes())+len(n.Params.Beside()) > maxUpdate:
		return true // twice rather than never
	default:
		h.replaced.heldBack[key] = n
		return false
	}
}

// replace has a stream be read on for a while. What was told since the one before it
// was replaced says nothing about what is told on this one.
func (k *upstreamLoop) retire(old *upstream) {
	if old == nil {
		return
	}
	for k.isReplacedFull() {
		k.closeReplaced(1)
	}
	k.addReplaced(old)
	if k.oldTimer == nil {
		k.oldTimer = time.After(overlap)
	}
}

func (h *sharedListen) isReplacedFull() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.replaced.streams) >= maxReplaced
}

func (h *sharedListen) addReplaced(old *upstream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old.replaced, old.until = true, time.Now().Add(overlap)
	h.replaced.streams = append(h.replaced.streams, old)
	h.replaced.seen = make(map[string]bool)
	if h.replaced.heldBack == nil {
		h.replaced.heldBack = make(map[string]*mcp.Notification)
	}
}

// closeOld closes up to n of the streams that were replaced, the oldest first, and
// tells what was kept back. It reports whether there were any.
func (k *upstreamLoop) closeReplaced(n int) bool {
	closed, held, next := k.takeReplaced(n)
	for _, st := range closed {
		st.cancel()
	}
	for _, change := range held {
		k.publish(change)
	}
	k.oldTimer = nil
	if !next.IsZero() {
		k.oldTimer = time.After(time.Until(next))
	}
	return len(closed) > 0
}

// takePast takes out up to n streams and all that was kept back, and returns when
// the next stream is due.
func (h *sharedListen) takeReplaced(n int) (closed []*upstream, held []*mcp.Notification, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = min(n, len(h.replaced.streams))
	closed, h.replaced.streams = h.replaced.streams[:n:n], slices.Clone(h.replaced.streams[n:])
	for _, key := range slices.Sorted(maps.Keys(h.replaced.heldBack)) {
		held = append(held, h.replaced.heldBack[key])
	}
	clear(h.replaced.heldBack)
	if len(h.replaced.streams) > 0 {
		next = h.replaced.streams[0].until
	}
	return closed, held, next
}
