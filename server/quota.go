// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
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

// memory is the [mcp.Memory] of a request.
type memory struct {
	server      *Server
	reservation session.Reservation
}

// trackMemory makes the answer of a request count against the limits of its principal.
func (s *Server) trackMemory(ir *inflightRequest) {
	ir.memory.server = s
	ir.memory.reservation.Init(s.rules.Pending, ir.original.Principal)
	ir.original.Memory = &ir.memory
}

// Reserve blocks until the bytes are available, for as long as a client may take to read
// a part of its answer.
func (m *memory) Reserve(ctx context.Context, bytes int) error {
	var late <-chan time.Time
	for {
		excess, room := m.reservation.Grow(int64(bytes))
		switch excess {
		case session.NoExcess:
			return nil
		case session.RequestEnded:
			return mcp.ErrRequestEnded
		case session.PrincipalExcess, session.TotalExcess:
		}
		if late == nil {
			t := time.NewTimer(m.server.cfg.WriteTimeout)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-room:
		case <-late:
			return m.server.pendingFault(excess)
		case <-ctx.Done():
			return m.server.pendingFault(excess)
		}
	}
}

// reserveTerminal reserves the memory for a terminal message, or returns the error to send
// instead. A result that was received with a reservation fits, even if the translation for
// the client's revision made it a little longer.
func (m *memory) reserveTerminal(terminal *session.Message) *mcp.Error {
	if m.server == nil || terminal.Len() <= mcp.ReserveFrom {
		return nil
	}
	excess, _ := m.reservation.Grow(int64(terminal.Len() - mcp.ReserveFrom))
	if excess == session.NoExcess || excess == session.RequestEnded {
		return nil
	}
	return m.server.pendingFault(excess).Wire()
}

// pendingFault is the error of a request with an answer that cannot be held.
func (s *Server) pendingFault(excess session.Excess) *mcp.Fault {
	text, key := s.excessText(excess)
	return &mcp.Fault{Code: mcp.CodeLimit, Outcome: mcp.Completed, Message: "the answer was dropped: " + text + " (" + key + ")"}
}

// excessText describes the limit that is exceeded, and returns its key.
func (s *Server) excessText(excess session.Excess) (text, key string) {
	l := &s.cfg.Limits
	if excess == session.TotalExcess {
		return bytesText(l.Pending) + " of answers wait for clients to read", "limits.pending"
	}
	return bytesText(l.PendingPerPrincipal) + " of answers to one principal wait for clients to read", "limits.pendingPerPrincipal"
}

// checkPending refuses a new request of a principal that does not read its answers.
func (s *Server) checkPending(id mcp.ID, principal string) *refusal {
	excess := s.rules.Pending.Excess(principal)
	if excess == session.NoExcess {
		return nil
	}
	text, key := s.excessText(excess)
	return refuseLimit(id, text, key)
}
