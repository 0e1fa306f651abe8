// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
)

// changeCount counts what a server has said about changes of its lists to the only client,
// whose requests wait until the lists have all of it. The zero value is ready.
type changeCount struct {
	mu sync.Mutex
	n  uint64
}

// add counts one. note is called in the same moment.
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

// NoteChange says that the lists have changed: they are fetched again, and until then
// IsBehind reports true. It does not wait.
func (b *Backend) NoteChange() { b.changes.add(b.Refresh) }

// IsBehind reports whether a change was noted that an Offer of this Backend lacks, and the
// lists are about to be fetched. Of a server that cannot be reached they are not.
func (b *Backend) IsBehind(o *Offer) bool {
	return b.changes.count() > o.changes && b.Offer().State == Live
}

// takeChanges takes what is to be fetched from an ear. A fetch that begins now has all
// changes that were counted.
func (b *Backend) takeChanges(e *listListener) (dirty, said listSet, changes uint64) {
	b.changes.mu.Lock()
	defer b.changes.mu.Unlock()
	select {
	case <-b.refresh: // by NoteChange, which may be for lists that the ear has not heard of
		e.mark(1<<catalog.NumKinds - 1)
	default:
	}
	dirty, said = e.take()
	return dirty, said, b.changes.n
}
