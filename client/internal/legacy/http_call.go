// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"net/http"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// httpCall runs one request over HTTP: the POST and any GETs that resume its stream. It
// runs on the caller's goroutine. Messages of the call's own stream are delivered as
// they are read, so that a slow caller slows the server down. Messages that arrive
// another way do not wait for that stream: they are delivered by a separate goroutine,
// and a terminal cancels whatever the httpCall is doing.
type httpCall struct {
	*httpconn.Endpoint
	outbound  call.Call
	call      *session.Call
	owner     *call.Goroutines
	callerCtx context.Context //nolint:containedctx // of the waiting caller, for OnMessage
	out       httpconn.RequestBody
	pos       httpconn.Cursor
	due       pendingAnswer // in a session

	ctx      context.Context //nolint:containedctx // ends when nothing more is done for the call
	cancel   context.CancelFunc
	entered  bool // the owner's close waits for this goroutine
	answered bool // the terminal arrived on the call's own stream
	draining bool // a goroutine drains that stream and ends ctx

	// doubt is set after a response that may mean that the server does not know the
	// session.
	doubt *sessionCheck
}

// sessionCheck is a response that may be about the session or about the call.
type sessionCheck struct {
	said   error
	looked bool // the server may have executed the call
}

// newHTTPCall returns an httpCall that is not waited for yet. The call is held until its
// RequestBody is read.
func newHTTPCall(e *httpconn.Endpoint, f call.Call, owner *call.Goroutines, msg jsonrpc.Pieces) *httpCall {
	f.Call.Hold()
	c := &httpCall{Endpoint: e, outbound: f, call: f.Call, owner: owner, pos: httpconn.Cursor{Retry: -1}}
	c.out.Msg, c.out.Call, c.out.Times = msg, f.Call, timesOf(f.Req)
	return c
}

// timesOf returns the Timeline of a request, which may be nil.
func timesOf(req *mcp.Request) *mcp.Timeline {
	if req == nil {
		return nil
	}
	return req.Timeline
}

// run calls carry. The context of the httpCall ends with ctx and with the call: once the
// terminal has arrived, no stream is waited for. If ctx has ended, run does nothing:
// outbound.Run then ends the call.
//
//nolint:contextcheck,nolintlint // the stream is drained after ctx has ended, so that the connection can be reused
func (c *httpCall) run(ctx context.Context, carry func()) {
	if ctx.Err() != nil {
		return // AfterFunc would cancel only after carry had begun
	}
	c.callerCtx = ctx
	c.ctx, c.cancel = context.WithCancel(context.Background())
	unfollow := context.AfterFunc(ctx, c.cancel)
	defer func() {
		unfollow()
		if !c.draining {
			c.cancel()
		}
	}()
	c.call.Detach(c)
	if c.entered = c.owner.Enter(); !c.entered {
		c.fail(c.Closed())
		return
	}
	defer c.leave()
	carry()
}

// OnMessage delivers messages that arrived other than on the call's own stream.
func (c *httpCall) OnMessage() {
	// Ends when there is nothing left to deliver, or with the caller's context. run
	// waits for it.
	go c.outbound.DeliverAll(c.callerCtx)
}

// OnEnd cancels what is done for a call that has ended another way.
func (c *httpCall) OnEnd() { c.cancel() }

func (c *httpCall) leave() {
	if c.entered {
		c.entered = false
		c.owner.Leave()
	}
}

// fail ends the call with err, if it has not ended.
func (c *httpCall) fail(err error) { c.call.Finish(session.Terminal{Err: err}) }

// respond ends the call with a response from its own stream.
func (c *httpCall) respond(m *mcp.Message) {
	c.answered = c.call.Respond(c.Terminal(m))
}

// deliverMessage delivers a message of the call's own stream. It reports false if the
// stream must not be read any further.
func (c *httpCall) deliverMessage(ctx context.Context, m *mcp.Message) bool {
	for {
		switch c.call.Offer(m) {
		case session.DeliverDirectly:
			return c.deliver(ctx, m)
		case session.Queued:
			return true
		case session.Dropped:
			return false
		default:
			select {
			case <-c.call.Space():
			case <-c.ctx.Done():
				return false
			}
		}
	}
}

// deliver passes a message to the caller, and any that arrive another way meanwhile.
// The owner's close does not wait for this goroutine during that time, because the
// caller may be the one that closes the client.
func (c *httpCall) deliver(ctx context.Context, m *mcp.Message) bool {
	c.leave()
	c.outbound.Deliver(ctx, m)
	c.outbound.DeliverAll(ctx)
	c.entered = c.owner.Enter()
	return c.entered
}

// Room reserves memory for the response to the call, and ends the call if there is
// none. The server is not read from meanwhile.
func (c *httpCall) Room(bytes int, _ []byte) error {
	err := c.outbound.Req.Reserve(c.ctx, bytes)
	if err != nil {
		c.fail(err)
	}
	return err
}

// forward offers the call's result to its caller while it arrives, and ends the call
// when the caller has all of it or never will. The owner's close does not wait for the
// caller, which may be the one that closes the client.
func (c *httpCall) forward(ctx context.Context, a *jsonrpc.Arrival) bool {
	f := &c.outbound
	if !f.CanForward(a, c.call.ID()) {
		return false
	}
	c.due.received() // the rest may take its time
	res := jsonrpc.NewArriving(a, f.Version, c.cancel)
	c.leave()
	taken, err := f.Caller.Extension().Receive(ctx, res)
	c.entered = c.owner.Enter()
	switch {
	case !taken:
		return false
	case err == nil:
		c.answered = c.call.Respond(session.Terminal{Result: res.Result()})
	case ctx.Err() == nil: // otherwise outbound.Run gives the call up
		c.fail(c.ForwardError(ctx, err))
	}
	return true
}

// release closes the call's own stream. If the terminal has arrived on it and the
// stream goes on, it is drained in the background, because the caller has its result.
func (c *httpCall) release(resp *http.Response) {
	if !c.answered || httpconn.IsRead(resp) {
		resp.Body.Close()
		return
	}
	c.draining = httpconn.StartDrain(resp, c.owner, c.cancel)
}
