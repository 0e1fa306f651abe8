// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// openQuestions counts the sessions of a pool in which a question waits for its client.
// Such a session serves no other request until the client answers, so each principal
// must leave a share of the sessions to the others. The share does not apply to
// requests without a principal.
type openQuestions struct {
	max int

	mu  sync.Mutex
	all int
	of  map[string]int // by principal
}

// fairShare is how many sessions of one principal may wait per session that is left to
// the others: three quarters of all if only one principal has open questions.
const fairShare = 3

// begin counts a session of the principal that waits. It returns an error if the
// principal has too many.
func (q *openQuestions) begin(principal string) *mcp.Error {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.of[principal]
	if left := q.max - q.all - 1; principal != "" && own > 0 && own/fairShare >= left {
		return mcp.Errorf(mcp.CodeInternalError, "%d requests of this principal are already waiting for input, and the other sessions are reserved for other principals (limits.backendSessions: %d)", own, q.max)
	}
	if q.of == nil {
		q.of = make(map[string]int)
	}
	q.of[principal]++
	q.all++
	return nil
}

func (q *openQuestions) end(principal string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all--
	if q.of[principal]--; q.of[principal] == 0 {
		delete(q.of, principal)
	}
}

func (q *openQuestions) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all
}

// questionSlot counts one session of a principal while it waits. A nil slot counts
// nothing.
type questionSlot struct {
	among     *openQuestions
	principal string
}

func (p *questionSlot) acquire() *mcp.Error {
	if p == nil {
		return nil
	}
	return p.among.begin(p.principal)
}

func (p *questionSlot) release() {
	if p != nil {
		p.among.end(p.principal)
	}
}
