// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net/http"
	"time"

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
	*endpoint
	outbound  outboundCall
	call      *session.Call
	owner     *goroutines
	callerCtx context.Context //nolint:containedctx // of the waiting caller, for OnMessage
	out       requestBody
	pos       cursor
	due       pendingAnswer // in a session

	ctx      context.Context //nolint:containedctx // ends when nothing more is done for the call
	end      context.CancelCauseFunc
	unfollow func() bool // lets ctx outlive callerCtx
	entered  bool        // the owner's close waits for this goroutine
	answered bool        // the terminal arrived on the call's own stream
	draining bool        // a goroutine drains that stream and ends ctx

	// doubt is set after a response that may mean that the server does not know the
	// session.
	doubt *sessionCheck
}

// sessionCheck is a response that may be about the session or about the call.
type sessionCheck struct {
	said   error
	looked bool // the server may have executed the call
}

// newHTTPCall returns an httpCall for a call that is not waited for yet. The call is
// held until its requestBody is read.
func newHTTPCall(e *endpoint, f outboundCall, owner *goroutines, msg jsonrpc.Pieces) *httpCall {
	f.call.Hold()
	c := &httpCall{endpoint: e, outbound: f, call: f.call, owner: owner, pos: cursor{retry: -1}}
	c.out.msg, c.out.call = msg, f.call
	return c
}

// do runs carry and returns the call's terminal. The httpCall's context ends with ctx
// and with the call: once the terminal has arrived, no stream is waited for.
func (c *httpCall) do(ctx context.Context, carry func()) (*mcp.Result, error) {
	c.run(ctx, carry)
	return c.outbound.run(ctx)
}

// run runs carry. If ctx has ended it does nothing: outbound.run then ends the call.
//
//nolint:contextcheck,nolintlint // the stream is drained after ctx has ended, so that the connection can be reused
func (c *httpCall) run(ctx context.Context, carry func()) {
	if ctx.Err() != nil {
		return // AfterFunc would cancel only after carry had begun
	}
	c.callerCtx = ctx
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.unfollow = context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })
	defer c.keepAlive()
	c.call.Detach(c)
	if c.entered = c.owner.enter(); !c.entered {
		c.fail(c.closed())
		return
	}
	defer c.leave()
	carry()
}

// OnMessage delivers messages that arrived other than on the call's own stream.
func (c *httpCall) OnMessage() {
	// Ends when there is nothing left to deliver, or with the caller's context. run
	// waits for it.
	go c.outbound.deliverAll(c.callerCtx)
}

// OnEnd cancels what is done for a call that has ended another way.
func (c *httpCall) OnEnd() { c.cancel() }

// cancel cancels all that is done for the call.
func (c *httpCall) cancel() { c.end(nil) }

// keepAlive leaves the context to the goroutine that drains the stream, or ends it.
func (c *httpCall) keepAlive() {
	c.unfollow()
	if c.draining {
		return
	}
	c.cancel()
}

func (c *httpCall) leave() {
	if c.entered {
		c.entered = false
		c.owner.leave()
	}
}

// fail ends the call with err, if it has not ended.
func (c *httpCall) fail(err error) { c.call.Finish(session.Terminal{Err: err}) }

// respond ends the call with a response from its own stream.
func (c *httpCall) respond(m *mcp.Message) {
	c.answered = c.call.Respond(c.terminal(m))
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
	c.outbound.deliver(ctx, m)
	c.outbound.deliverAll(ctx)
	c.entered = c.owner.enter()
	return c.entered
}

// Limits of reading a body after its last message.
const (
	drainBytes = 64 << 10
	drainTime  = 200 * time.Millisecond
)

// release closes the call's own stream. If the terminal has arrived on it and the
// stream goes on, it is drained in the background, because the caller has its result.
func (c *httpCall) release(resp *http.Response) {
	if !c.answered || isRead(resp) {
		resp.Body.Close()
		return
	}
	c.draining = startDrain(resp, c.owner, c.cancel)
}

// startDrain drains a response in a goroutine of the group, which then calls cancel. It
// reports false, and closes the response, if the group is closing.
func startDrain(resp *http.Response, group *goroutines, cancel context.CancelFunc) bool {
	// Ends with the stream, or after drainTime. The group's close cancels it and waits
	// for it.
	ok := group.launch(cancel, true, func() { drain(resp, cancel) })
	if !ok {
		resp.Body.Close()
	}
	return ok
}

// drain reads a body to its end, if that is near, and closes it. Only a connection that
// was read to the end can carry the next request.
func drain(resp *http.Response, cancel context.CancelFunc) {
	defer resp.Body.Close()
	if isRead(resp) {
		return
	}
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	if _, err := io.CopyN(io.Discard, resp.Body, drainBytes); err == nil {
		cancel() // too much to read
	}
}

// answerBody is a response body that records whether it was read to its end.
type answerBody struct {
	io.ReadCloser
	read bool
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.read = true
	}
	return n, err
}

// isRead reports whether the body was read to its end.
func isRead(resp *http.Response) bool {
	b, ok := resp.Body.(*answerBody)
	return ok && b.read || resp.Body == http.NoBody
}
