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
type quotaKey struct {
	principal string
	listens   bool
}

func quotaKeyOf(req *mcp.Request) quotaKey {
	return quotaKey{principal: req.Principal, listens: req.Method == "subscriptions/listen"}
}

// quota bounds what each party has in flight: a session bounds its own, and what
// has none is bounded here.
type quota struct {
	limit int

	mu   sync.Mutex
	used map[quotaKey]int // those that have something
}

// take reports whether there is room for one more, which give gives back.
func (q *quota) acquire(key quotaKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used[key] >= q.limit {
		return false
	}
	if q.used == nil {
		q.used = make(map[quotaKey]int)
	}
	q.used[key]++
	return true
}

func (q *quota) release(key quotaKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used[key]--; q.used[key] == 0 {
		delete(q.used, key)
	}
}

// refuse is the refusal of what there is no room for.
func (q *quota) refuse(id mcp.ID, key quotaKey) *refusal {
	what := "requests of one principal in flight"
	if key.listens {
		what = "subscriptions of one principal"
	}
	return refuseTooMany(id, q.limit, what, "inFlightPerPrincipal")
}
