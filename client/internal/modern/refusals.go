// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A server that refuses everything is probed again after so many consecutive refusals,
// over at least so long a time.
const (
	refusalsInRow = 3
	refusalTime   = 10 * time.Second
)

// refusals counts the consecutive requests that a server has refused since the last
// success. The zero value is ready.
type refusals struct {
	any atomic.Bool // n > 0: spares successful requests the lock

	mu    sync.Mutex
	n     int
	first time.Time
}

// worked records a request that had a result.
func (r *refusals) worked() {
	if !r.any.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resetLocked()
}

func (r *refusals) resetLocked() {
	r.n = 0
	r.any.Store(false)
}

// refused records a refusal. It reports whether the server must be probed, and then
// resets the count.
func (r *refusals) refused(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		r.first = now
		r.any.Store(true)
	}
	r.n++
	if r.n < refusalsInRow || now.Sub(r.first) < refusalTime {
		return false
	}
	r.resetLocked()
	return true
}

// isOfServer reports whether an error is the server's answer to a request, or a
// malformed one, and may mean that the server has changed its era. A server that is
// busy or rejects the credentials answers before it looks at the message, in either
// era.
func isOfServer(ctx context.Context, err error) bool {
	f, isFault := call.Unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	switch {
	case ctx.Err() != nil:
		return false
	case !isFault:
		return true
	}
	if r, ok := f.Cause.(*httpconn.Refusal); ok { //nolint:errorlint // set unwrapped by Endpoint.Refused
		return !r.IsBeforeMessage()
	}
	return f.Code == mcp.CodeBackendFailed
}
