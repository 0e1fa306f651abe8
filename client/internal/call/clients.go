// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// ClientsServed counts the clients served over a pipe: the server's stderr may be about
// any of them. The zero value is ready.
type ClientsServed struct {
	mu    sync.Mutex
	count ClientCount
	first identity
}

// ClientCount is a number of clients, as far as it matters.
type ClientCount uint8

// The numbers that matter.
const (
	NoClient ClientCount = iota
	OneClient
	SeveralClients
)

// identity identifies a client by its session. Without a session, as in the modern era,
// it is the key by which requests without a scope share sessions.
type identity struct {
	scope *mcp.Scope
	key   ClientKey
}

// Note records the client of a request. It ignores the gateway's own requests: those in
// a scope that cannot be notified, and server/discover.
func (a *ClientsServed) Note(req *mcp.Request) {
	if req.Method == MethodDiscover || IsInternal(req) {
		return
	}
	id := identity{scope: req.Scope}
	if req.Scope == nil {
		id.key = KeyOf(req)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.count == NoClient:
		a.count, a.first = OneClient, id
	case a.first != id:
		a.count = SeveralClients
	}
}

// IsInternal reports whether a request is the gateway's own, in a scope that cannot be
// notified.
func IsInternal(req *mcp.Request) bool { return req.Scope != nil && req.Scope.Unrelated() == nil }

// Size returns the number of clients.
func (a *ClientsServed) Size() ClientCount {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// ClientKey identifies what a session was opened for. The server may have sent the
// session data of its principal, and it relies on the client capabilities; another
// client's request must not use either.
type ClientKey struct {
	Principal, info, capabilities string

	passesExtensions bool // of the client are shown to the server
}

// KeyOf compares bytes: clients that encode the same data differently get a session
// each, which costs more but is never wrong.
func KeyOf(req *mcp.Request) ClientKey {
	k := ClientKey{Principal: req.Principal}
	if req.Client != nil {
		k.info, k.capabilities, k.passesExtensions = string(req.Client.Info), string(req.Client.Capabilities), req.Client.PassesExtensions
	}
	return k
}

// IsOf reports whether a session that was opened for the key serves the request.
func (k *ClientKey) IsOf(req *mcp.Request) bool {
	if k.Principal != req.Principal {
		return false
	}
	if req.Client == nil {
		return k.info == "" && k.capabilities == "" && !k.passesExtensions
	}
	return k.passesExtensions == req.Client.PassesExtensions && k.info == string(req.Client.Info) && k.capabilities == string(req.Client.Capabilities)
}

// Abandoned records when a call was last cancelled on a connection that several clients
// share. The server may still be working on that call. So a message that names no call
// is not necessarily for the only open one. The zero value is ready.
type Abandoned struct{ last atomic.Pointer[time.Time] }

// AbandonedTime is how long a server may continue with a call after it was notified
// that the call is cancelled.
const AbandonedTime = time.Minute

// Note records that a call was cancelled.
func (a *Abandoned) Note() {
	now := time.Now()
	a.last.Store(&now)
}

// Recently reports whether a call was cancelled within AbandonedTime.
func (a *Abandoned) Recently() bool {
	last := a.last.Load()
	return last != nil && time.Since(*last) < AbandonedTime
}
