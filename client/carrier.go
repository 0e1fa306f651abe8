// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// carrier is the POST of one call, and whatever continues it.
type carrier struct {
	*endpoint
	call *session.Call
	pos  position

	// brought is set before the call gets its terminal from this carrier: then
	// the rest of the body is read, so that the connection can be used again.
	brought atomic.Bool

	// doubt is set when the server has said something that may mean that it does
	// not know the session.
	doubt *doubt
}

// doubt is an answer that may be about the session, or about the call.
type doubt struct {
	said   error
	looked bool // the server may have executed the call
}

// newCarrier returns the carrier of a call that nobody waits for yet. The call is
// held until its parcel departs.
func newCarrier(e *endpoint, call *session.Call) *carrier {
	call.Hold()
	return &carrier{endpoint: e, call: call, pos: position{retry: -1}}
}

// launch runs the carrier in a goroutine of the owner's. The returned function
// is called when the call is over: it ends a carrier that is still waiting for
// something.
func (c *carrier) launch(owner *tasks, carry func(ctx context.Context)) (release func()) {
	cancel, ok := owner.start(carry)
	if !ok {
		c.call.Finish(session.Terminal{Err: c.closed()})
	}
	return func() {
		if !c.brought.Load() {
			cancel()
		}
	}
}

// fail ends the call, if nothing else has.
func (c *carrier) fail(err error) { c.call.Finish(session.Terminal{Err: err}) }

// respond ends the call with a response that this carrier brought.
func (c *carrier) respond(calls *session.Calls, id mcp.ID, m *mcp.Message) {
	if id == c.call.ID() {
		c.brought.Store(true)
	}
	c.setup.respond(calls, id, m)
}

// offer hands a message to the call, and waits for room: the stream is the
// call's alone. It reports false when the call has ended.
func (c *carrier) offer(ctx context.Context, m *mcp.Message) bool {
	for {
		switch c.call.Offer(m) {
		case session.Taken:
			return true
		case session.Lost:
			return false
		default:
			select {
			case <-c.call.Room():
			case <-ctx.Done():
				return false
			}
		}
	}
}

// The bounds of what is read of a body behind its last message.
const (
	drainBytes = 64 << 10
	drainTime  = 200 * time.Millisecond
)

// drain reads a body to its end, if that is near, and closes it. A connection
// whose answer was read to the end can carry the next request.
func drain(resp *http.Response, cancel context.CancelFunc) {
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	_, err := io.CopyN(io.Discard, resp.Body, drainBytes)
	if err == nil {
		cancel() // more than is worth reading
	}
	resp.Body.Close()
}
