// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"maps"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// overlap is how long a replaced stream of changes is still read. It and its
// replacement are separate connections: a notification sent on the first before the
// second was acknowledged may arrive after that.
const overlap = 500 * time.Millisecond

// maxReplaced limits the replaced streams that are read. Each was current for as long
// as the next one took to open, so the oldest has been read for several times that.
const maxReplaced = 3

// replacedStreams are the replaced streams of a sharedListen that are still read.
// Nearly always the current stream brings the same notifications. So theirs are held
// back for as long as the current stream may bring them: each change is reported at
// least once, and if possible only once. The zero value is ready.
type replacedStreams struct {
	streams  []*upstream                  // oldest first
	seen     map[string]bool              // what the current stream has brought
	heldBack map[string]*mcp.Notification // what only the replaced streams have brought
}

// changeKey returns a key that is equal for the same change.
func changeKey(n *mcp.Notification) string {
	uri, _ := n.Params.Text(mcp.FieldURI)
	id, _ := n.Params.Text(mcp.FieldTaskID)
	return n.Method + " " + uri + " " + id
}

// isNew reports whether a notification of st must be passed to the listens now.
func (h *sharedListen) isNew(st *upstream, n *mcp.Notification) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.replaced.streams) == 0 {
		return true
	}
	switch key := changeKey(n); {
	case !st.replaced:
		// It is newer than any notification about this on the replaced streams.
		if len(h.replaced.seen) < listen.MaxSubResources {
			h.replaced.seen[key] = true
		}
		delete(h.replaced.heldBack, key)
		return true
	case h.replaced.seen[key]:
		return false
	case len(h.replaced.heldBack) >= listen.MaxSubResources, len(n.Params.Bytes())+len(n.Params.Beside()) > listen.MaxUpdate:
		return true // reporting it twice is better than not at all
	default:
		h.replaced.heldBack[key] = n
		return false
	}
}

// retire keeps a replaced stream open for a while. What the previous stream has brought
// does not count as seen for this one.
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

// closeReplaced closes the n oldest replaced streams and publishes what was held back.
// It reports whether there were any.
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

// takeReplaced removes up to n streams and all that was held back. It returns when the
// next stream is due.
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
