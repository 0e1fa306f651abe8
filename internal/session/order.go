// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// entry is a session in the table. It stands in two lanes, that of all sessions
// and that of its owner, so that neither is ever searched or sorted. The fields
// are guarded by Table.mu.
type entry struct {
	session *Session
	owner   *holding

	at     time.Time // of the last use, or of the beginning
	isUsed bool      // something came after initialize
	links  [lanes]link
}

type link struct{ prev, next *entry }

// The lanes that an entry stands in.
const (
	ofAll = iota
	ofOwner
	lanes
)

// lane keeps sessions in the order in which they are missed least: first those
// that were never used, then the others; in each the longest unused first.
type lane struct{ fresh, used order }

func newLane(index int) lane { return lane{order{index: index}, order{index: index}} }

func (l *lane) of(e *entry) *order {
	if e.isUsed {
		return &l.used
	}
	return &l.fresh
}

// order is a list of entries, the longest unused first.
type order struct {
	index      int // which of an entry's links make this list
	head, tail *entry
}

func (o *order) push(e *entry) {
	e.links[o.index] = link{prev: o.tail}
	if o.tail != nil {
		o.tail.links[o.index].next = e
	} else {
		o.head = e
	}
	o.tail = e
}

func (o *order) remove(e *entry) {
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

// while returns the sessions up to the first that f does not choose, and no more
// than most.
func (o *order) while(most int, f func(*entry) bool) []*Session {
	var out []*Session
	for e := o.head; e != nil && len(out) < most && f(e); e = e.links[o.index].next {
		out = append(out, e.session)
	}
	return out
}
