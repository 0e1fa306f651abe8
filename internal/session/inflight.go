// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "github.com/signalbox-mcp/signalbox/mcp"

// inflight is a list of a session's exchanges in flight, oldest first. They are few, so
// that a linear search is enough, and an intrusive list needs no memory of its own.
type inflight struct {
	first, last *Exchange
	count       int
}

// find returns the exchange of that id, or nil. Notifications have no id and are never
// found.
func (f *inflight) find(id mcp.ID) *Exchange {
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

func (f *inflight) add(x *Exchange) {
	x.prev = f.last
	if f.last != nil {
		f.last.next = x
	} else {
		f.first = x
	}
	f.last = x
	f.count++
}

func (f *inflight) remove(x *Exchange) {
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
