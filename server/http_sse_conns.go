// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// sseConns are the open connections of HTTP with SSE, by the id in their URLs. The zero
// value is ready.
type sseConns struct {
	mu    sync.Mutex
	open  map[string]*sseConn
	count map[string]int // by principal
}

// add adds a connection within the limits of sessions: each connection counts as one.
func (l *sseConns) add(c *sseConn, limits *Limits) (id string, no *refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.open) >= limits.Sessions:
		return "", refuseTooMany(mcp.ID{}, limits.Sessions, "sessions", "sessions")
	case c.principal != "" && l.count[c.principal] >= limits.SessionsPerPrincipal:
		return "", refuseTooMany(mcp.ID{}, limits.SessionsPerPrincipal, "sessions of one principal", "sessionsPerPrincipal")
	}
	if l.open == nil {
		l.open, l.count = make(map[string]*sseConn), make(map[string]int)
	}
	id = newSessionID()
	l.open[id] = c
	l.count[c.principal]++
	return id, nil
}

func (l *sseConns) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[id]
	delete(l.open, id)
	if l.count[c.principal]--; l.count[c.principal] == 0 {
		delete(l.count, c.principal)
	}
}

func (l *sseConns) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// find returns the connection with the id if it belongs to the principal. Otherwise the
// kind is for the operator only.
func (l *sseConns) find(id, principal string) (*sseConn, EventKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[id]
	switch {
	case c == nil:
		return nil, UnknownSession
	case c.principal != principal:
		return nil, ForeignSession
	default:
		return c, ""
	}
}
