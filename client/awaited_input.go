// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	// inputTime is how long a client is expected to give input that a server has asked for.
	inputTime = 10 * time.Minute

	// maxAwaited bounds the recorded requests for input. Further ones are not recorded.
	maxAwaited = 4096
)

// awaitedInput records the requests that a server has answered with input_required, and
// that the client itself retries. What the server keeps for such a request is lost with
// its process. The zero value is ready.
type awaitedInput struct {
	seed  maphash.Seed
	mu    sync.Mutex
	until map[uint64]time.Time // by the hash of requestState
}

// note records the response to a request.
func (a *awaitedInput) note(req *mcp.Request, res *mcp.Result, err error) {
	_, failed := err.(*mcp.Error) //nolint:errorlint // only the server's own error
	given, asked := req.Params.Raw(mcp.FieldRequestState), []byte(nil)
	if res != nil && res.Type() == mcp.ResultInputRequired {
		asked = res.Raw(mcp.FieldRequestState)
	}
	if given == nil && asked == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil {
		a.until, a.seed = make(map[uint64]time.Time), maphash.MakeSeed()
	}
	if given != nil && (res != nil || failed) {
		delete(a.until, maphash.Bytes(a.seed, given))
	}
	if len(a.until) >= maxAwaited {
		a.dropExpiredLocked()
	}
	if asked != nil && len(a.until) < maxAwaited {
		a.until[maphash.Bytes(a.seed, asked)] = time.Now().Add(inputTime)
	}
}

// any reports whether the server waits for input.
func (a *awaitedInput) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropExpiredLocked()
	return len(a.until) > 0
}

func (a *awaitedInput) dropExpiredLocked() {
	now := time.Now()
	maps.DeleteFunc(a.until, func(_ uint64, until time.Time) bool { return !until.After(now) })
}
