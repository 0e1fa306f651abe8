// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/life"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// httpCall is the POST of one call, and whatever continues it, on the goroutine that
// waits for the call. What the call's own stream brings is handed on as it is read, so
// that a caller who is slow to take it slows down the server. What comes for the call
// by other ways does not wait for that stream: a message is handed on by a goroutine of
// its own, and the terminal breaks off whatever the httpCall is about.
type httpCall struct {
	*endpoint
	outbound  outboundCall
	call      *session.Call
	owner     *goroutines
	callerCtx context.Context //nolint:containedctx // of whoever waits for the call, for what is told to the carrier
	out       requestBody
	pos       cursor
	due       dueAnswer // in a session

	life     life.Context // of all that is done for the call
	entered  bool         // the owner's close waits for the goroutine
	answered bool         // the call got its terminal from its own stream
	draining bool         // the rest of that stream is read, and the end of life is for who reads it

	// sessionCheck is set when the server has said something that may mean that it does
	// not know the session.
	doubt *sessionCheck
}

// sessionCheck is an answer that may be about the session, or about the call.
type sessionCheck struct {
	said   error
	looked bool // the server may have executed the call
}

// newHTTPCall returns the httpCall of a call that nobody waits for yet. The call is
// held until its requestBody departs.
func newHTTPCall(e *endpoint, f outboundCall, owner *goroutines, msg mcp.Pieces) *httpCall {
	f.call.Hold()
	c := &httpCall{endpoint: e, outbound: f, call: f.call, owner: owner, pos: cursor{retry: -1}}
	c.out.msg, c.out.call = msg, f.call
	return c
}

// travel has carry do all that the call needs, and returns the call's terminal. The
// httpCall's life ends with ctx, and with the call: from wherever its terminal comes,
// nobody waits for a stream that does not bring it.
func (c *httpCall) do(ctx context.Context, carry func()) (*mcp.Result, error) {
	c.run(ctx, carry)
	return c.outbound.run(ctx)
}

// depart leaves to run what has no terminal yet, because ctx has ended.
//
//nolint:contextcheck,nolintlint // the rest of a stream is read when ctx has ended, so that the connection can be used again
func (c *httpCall) run(ctx context.Context, carry func()) {
	if ctx.Err() != nil {
		return // told of that by a goroutine, carry would have begun
	}
	c.callerCtx = ctx
	c.life.Follow(ctx)
	defer c.keepAlive()
	c.call.Detach(c)
	if c.entered = c.owner.enter(); !c.entered {
		c.fail(c.closed())
		return
	}
	defer c.leave()
	carry()
}

// Comes has what has come for the call by another way handed on.
func (c *httpCall) OnMessage() {
	// Ends when there is nothing to hand on, or when the caller's context does; waited
	// for by run.
	go c.outbound.deliverAll(c.callerCtx)
}

// Ended breaks off what is done for a call whose terminal has come by another way.
func (c *httpCall) OnEnd() { c.cancel() }

// breakOff ends all that is done for the call.
func (c *httpCall) cancel() { c.life.End(nil) }

// letLive leaves to whoever reads the rest of the stream what needs a life still.
func (c *httpCall) keepAlive() {
	if c.draining {
		c.life.Leave()
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

// fail ends the call, if nothing else has.
func (c *httpCall) fail(err error) { c.call.Finish(session.Terminal{Err: err}) }

// respond ends the call with the response that its own stream brought.
func (c *httpCall) respond(m *mcp.Message) {
	c.answered = c.call.Respond(c.terminal(m))
}

// offer hands a message of the call's own stream on. It reports false when the stream
// slotPurpose not be read on.
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
			case <-c.life.Done():
				return false
			}
		}
	}
}

// hand gives the caller a message, and whatever comes by other ways meanwhile. Nobody
// waits for the goroutine while it is the caller's, who may be what closes the client.
func (c *httpCall) deliver(ctx context.Context, m *mcp.Message) bool {
	c.leave()
	c.outbound.deliver(ctx, m)
	c.outbound.deliverAll(ctx)
	c.entered = c.owner.enter()
	return c.entered
}

// The bounds of what is read of a body behind its last message.
const (
	drainBytes = 64 << 10
	drainTime  = 200 * time.Millisecond
)

// letGo lets go of the call's own stream. Where that has brought the terminal and goes
// on, it is read to its end in the background, because the caller has what it waits for.
func (c *httpCall) release(resp *http.Response) {
	if !c.answered || isRead(resp) {
		resp.Body.Close()
		return
	}
	// Ends with the stream, or soon; the owner's close ends it, and waits for it.
	c.draining = c.owner.launch(c.cancel, true, func() { drain(resp, c.cancel) })
}

// drain reads a body to its end, if that is near, and closes it. A connection
// whose answer was read to the end can carry the next request.
func drain(resp *http.Response, cancel context.CancelFunc) {
	defer resp.Body.Close()
	if isRead(resp) {
		return
	}
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	if _, err := io.CopyN(io.Discard, resp.Body, drainBytes); err == nil {
		cancel() // more than is worth reading
	}
}

// answerBody is the body of an answer, and knows whether it was read to its end.
type answerBody struct {
	io.ReadCloser
	read bool
}

// Read reads on.
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
