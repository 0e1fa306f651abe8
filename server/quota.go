// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// quotaKey identifies one share of the quota for requests without a session. Listens stay
// open and are counted apart, so that they do not use up the share of requests that end.
type quotaKey struct {
	principal string
	listens   bool
}

func quotaKeyOf(req *mcp.Request) quotaKey {
	return quotaKey{principal: req.Principal, listens: req.Method == "subscriptions/listen"}
}

// quota bounds the requests in flight for each key. A session bounds its own requests;
// those without a session are bounded here.
type quota struct {
	limit int

	mu   sync.Mutex
	used map[quotaKey]int // keys with at least one in flight
}

// acquire reports whether one more fits; release gives it back.
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

// refuse returns the refusal of a request beyond the quota.
func (q *quota) refuse(id mcp.ID, key quotaKey) *refusal {
	what := "requests of one principal in flight"
	if key.listens {
		what = "subscriptions of one principal"
	}
	return refuseTooMany(id, q.limit, what, "inFlightPerPrincipal")
}
