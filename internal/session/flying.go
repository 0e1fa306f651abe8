// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "github.com/signalbox-mcp/signalbox/mcp"

// flying are the exchanges of a session that are not over, in the order in which they
// began. They are few, so that they are looked through; and a list, which takes no
// room while there are none, and none of its own while there are.
type flying struct {
	first, last *Exchange
	count       int
}

// find returns the exchange of that id, nil where there is none. Notifications have
// no id, and are never found.
func (f *flying) find(id mcp.ID) *Exchange {
	if id.IsZero() {
		return nil
	}
	for x := f.first; x != nil; x = x.next {
		if x.id == id {
			return x
		}
	}
	return nil
}

func (f *flying) add(x *Exchange) {
	x.prev = f.last
	if f.last != nil {
		f.last.next = x
	} else {
		f.first = x
	}
	f.last = x
	f.count++
}

func (f *flying) remove(x *Exchange) {
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		f.first = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	} else {
		f.last = x.prev
	}
	x.prev, x.next = nil, nil
	f.count--
}
