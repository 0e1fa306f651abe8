// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// openQuestions counts the sessions of a pool in which a question waits for its client.
// Such a session serves nothing else for as long as the client likes, so that each
// principal leaves a part of the sessions to the others. Without principals there are no
// others.
type openQuestions struct {
	max int

	mu  sync.Mutex
	all int
	of  map[string]int // by principal
}

// fairPart is how many sessions of one principal may wait for each one that is left to
// the others: three quarters of all where only one principal has open questions.
const fairPart = 3

// begin notes that a session of the principal waits, or says why it may not.
func (q *openQuestions) begin(principal string) *mcp.Error {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.of[principal]
	if left := q.max - q.all - 1; principal != "" && own > 0 && own/fairPart >= left {
		return mcp.Errorf(mcp.CodeInternalError, "%d requests of this principal wait for input here already, and the other sessions are kept for others (limits.backendSessions: %d)", own, q.max)
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

// questionPlace counts the session of a principal while it waits. nil counts nothing.
type questionPlace struct {
	among     *openQuestions
	principal string
}

func (p *questionPlace) take() *mcp.Error {
	if p == nil {
		return nil
	}
	return p.among.begin(p.principal)
}

func (p *questionPlace) leave() {
	if p != nil {
		p.among.end(p.principal)
	}
}
