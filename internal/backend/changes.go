// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
)

// changeCount counts the changes that a server has notified to the only client.
// Requests of that client wait until the lists contain all of them. The zero value is
// ready.
type changeCount struct {
	mu sync.Mutex
	n  uint64
}

// add counts one change and calls note, both under the lock.
func (c *changeCount) add(note func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	note()
}

func (c *changeCount) count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// NoteChange records that the lists have changed: they are fetched again, and until
// then IsBehind reports true. It does not block.
func (b *Backend) NoteChange() { b.changes.add(b.Refresh) }

// IsBehind reports whether a change was noted that an Offer of this Backend lacks, and
// the lists are about to be fetched. They are not if the server cannot be reached.
func (b *Backend) IsBehind(o *Offer) bool {
	return b.changes.count() > o.changes && b.Offer().State == Live
}

// takeChanges takes the lists to fetch from a listListener. A fetch that begins now
// includes all changes that were counted.
func (b *Backend) takeChanges(l *listListener) (dirty, announced listSet, changes uint64) {
	b.changes.mu.Lock()
	defer b.changes.mu.Unlock()
	select {
	case <-b.refresh: // by NoteChange, possibly for lists that the listener has not marked
		l.mark(1<<catalog.NumKinds - 1)
	default:
	}
	dirty, announced = l.take()
	return dirty, announced, b.changes.n
}
