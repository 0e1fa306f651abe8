// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// clientsServed is who has been served over a pipe: what its server wrote to standard
// error may be about any of them. The zero value is ready.
type clientsServed struct {
	mu    sync.Mutex
	count clientCount
	first identity
}

// clientCount is how many clients an audience is.
type clientCount uint8

const (
	noClient clientCount = iota
	oneClient
	severalClients
)

// identity is what tells one client from another: its session, and where it has
// none, as in the modern era, what tells one session without a scope from another.
type identity struct {
	scope *mcp.Scope
	key   poolKey
}

// note notes for whom a request is sent. A scope that nothing can be said to is no
// client's: the gateway learns by it what a server offers. Nor is what a server is
// asked to say of itself.
func (a *clientsServed) note(req *mcp.Request) {
	who := identity{scope: req.Scope}
	switch {
	case req.Method == methodDiscover:
		return
	case req.Scope == nil:
		who.key = keyOf(req)
	case req.Scope.Unrelated() == nil:
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.count == noClient:
		a.count, a.first = oneClient, who
	case a.first != who:
		a.count = severalClients
	}
}

func (a *clientsServed) size() clientCount {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}
