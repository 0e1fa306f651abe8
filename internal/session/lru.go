// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// entry is a session in the table. It is in two lists, that of all sessions and that of its
// owner, so that neither is ever searched or sorted. The fields are guarded by Table.mu.
type entry struct {
	session *Session
	usage   *ownerUsage

	lastUse time.Time // of the last use, or of the beginning
	used    bool      // a request followed initialize
	links   [numLists]link
}

type link struct{ prev, next *entry }

// The lists that an entry is in.
const (
	listAll = iota
	listOwner
	numLists
)

// lru orders sessions for eviction: first those that were never used, then the others; the
// longest idle first in each.
type lru struct{ fresh, used lruList }

func newLRU(index int) lru { return lru{lruList{index: index}, lruList{index: index}} }

func (l *lru) list(e *entry) *lruList {
	if e.used {
		return &l.used
	}
	return &l.fresh
}

// firstIdle returns when the first session will have been idle for as long as its kind may be,
// and zero without sessions.
func (l *lru) firstIdle(fresh, used time.Duration) (first time.Time) {
	if e := l.used.head; e != nil {
		first = e.lastUse.Add(used)
	}
	if e := l.fresh.head; e != nil {
		if at := e.lastUse.Add(fresh); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// lruList is a list of entries, the longest idle first.
type lruList struct {
	index      int // of the entry's links that form this list
	head, tail *entry
}

func (o *lruList) push(e *entry) {
	e.links[o.index] = link{prev: o.tail}
	if o.tail != nil {
		o.tail.links[o.index].next = e
	} else {
		o.head = e
	}
	o.tail = e
}

func (o *lruList) remove(e *entry) {
	l := e.links[o.index]
	if l.prev != nil {
		l.prev.links[o.index].next = l.next
	} else {
		o.head = l.next
	}
	if l.next != nil {
		l.next.links[o.index].prev = l.prev
	} else {
		o.tail = l.prev
	}
	e.links[o.index] = link{}
}

// idleFor returns the sessions that have been idle for d, the longest idle first, at most
// limit.
func (o *lruList) idleFor(d time.Duration, now time.Time, limit int) []*Session {
	var out []*Session
	for e := o.head; e != nil && len(out) < limit && now.Sub(e.lastUse) >= d; e = e.links[o.index].next {
		out = append(out, e.session)
	}
	return out
}
