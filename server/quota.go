// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// party is who has something in flight that belongs to no session. Listens stay
// open, and are counted by themselves, so that they do not take the room of
// requests that end.
type party struct {
	principal string
	listens   bool
}

func partyOf(req *mcp.Request) party {
	return party{principal: req.Principal, listens: req.Method == "subscriptions/listen"}
}

// quota bounds what each party has in flight: a session bounds its own, and what
// has none is bounded here.
type quota struct {
	most int

	mu   sync.Mutex
	used map[party]int // those that have something
}

// take reports whether there is room for one more, which give gives back.
func (q *quota) take(p party) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used[p] >= q.most {
		return false
	}
	if q.used == nil {
		q.used = make(map[party]int)
	}
	q.used[p]++
	return true
}

func (q *quota) give(p party) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used[p]--; q.used[p] == 0 {
		delete(q.used, p)
	}
}

// refuse is the refusal of what there is no room for.
func (q *quota) refuse(id mcp.ID, p party) *refusal {
	what := "requests of one principal in flight"
	if p.listens {
		what = "subscriptions of one principal"
	}
	return refuseTooMany(id, q.most, what, "inFlightPerPrincipal")
}
