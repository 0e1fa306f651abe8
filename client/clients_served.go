// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// clientsServed counts the clients served over a pipe: the server's stderr may be about
// any of them. The zero value is ready.
type clientsServed struct {
	mu    sync.Mutex
	count clientCount
	first identity
}

// clientCount is a number of clients, as far as it matters.
type clientCount uint8

const (
	noClient clientCount = iota
	oneClient
	severalClients
)

// identity identifies a client by its session. Without a session, as in the modern era,
// it is the key by which requests without a scope share sessions.
type identity struct {
	scope *mcp.Scope
	key   poolKey
}

// note records the client of a request. It ignores the gateway's own requests: those in
// a scope that cannot be notified, and server/discover.
func (a *clientsServed) note(req *mcp.Request) {
	id := identity{scope: req.Scope}
	switch {
	case req.Method == methodDiscover:
		return
	case req.Scope == nil:
		id.key = keyOf(req)
	case req.Scope.Unrelated() == nil:
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.count == noClient:
		a.count, a.first = oneClient, id
	case a.first != id:
		a.count = severalClients
	}
}

func (a *clientsServed) size() clientCount {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}
