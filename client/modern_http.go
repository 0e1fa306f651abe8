// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// modernHTTP sends modern requests over Streamable HTTP: each is a POST, and the
// response is that POST's body (2026-07-28, basic/transports/streamable-http).
type modernHTTP struct {
	*endpoint
	numbers     *numbers
	last        atomic.Uint64 // calls so far
	group       goroutines    // calls, which close cancels, and goroutines that drain responses
	params      paramTable
	headerCache headerCache
	refusals    refusals
}

// call sends one request and reads its response, all on the calling goroutine. A modern
// stream cannot be resumed: if it ends without a response the call is lost, and it is
// unknown whether it ran.
func (w *modernHTTP) call(ctx context.Context, p *modern, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	c := &modernHTTPCall{
		modernHTTP: w,
		ctx:        ctx,
		id:         jsonrpc.NumberID(w.numbers.ID(w.last.Add(1))),
		outbound:   p.outboundCall(req, params, caller),
		pos:        cursor{retry: -1},
	}
	if !c.begin() {
		return nil, w.closed()
	}
	defer c.finish()
	c.out.msg = p.buildRequest(req, params, c.id)
	resp, err := w.post(c.io, w.headers(req, p.version, params), &c.out) //nolint:bodyclose,contextcheck,nolintlint // read closes it; c.io ends with ctx
	if err == nil {
		err = c.read(resp)
	}
	switch {
	case c.over:
		err = c.err
	case c.io.Err() != nil:
		err = c.interrupted()
	case err == nil:
		err = w.lost(nil, "its answer ended without a response")
	}
	switch {
	case err == nil:
		w.refusals.worked()
	case isOfServer(ctx, err) && w.refusals.refused(time.Now()):
		w.recheck()
	}
	return c.res, err
}

// modernHTTPCall is one request and its response.
type modernHTTPCall struct {
	*modernHTTP
	ctx      context.Context //nolint:containedctx // of the caller
	io       context.Context //nolint:containedctx // of the POST: ends with ctx or after the drain of its response
	cancel   context.CancelFunc
	detach   func() bool // makes io independent of ctx
	outbound outboundCall
	id       mcp.ID
	out      requestBody
	pos      cursor

	over     bool // the call has its terminal
	res      *mcp.Result
	err      error
	answered bool // the terminal arrived in the response, which may go on
	draining bool // a goroutine drains the response, and then cancels io
}

// begin reports false if the protocol is closing, which cancels io otherwise.
func (c *modernHTTPCall) begin() bool {
	c.io, c.cancel = context.WithCancel(context.WithoutCancel(c.ctx))
	if !c.group.add(&c.cancel, false) {
		c.cancel()
		return false
	}
	c.detach = context.AfterFunc(c.ctx, c.cancel)
	return true
}

func (c *modernHTTPCall) finish() {
	c.detach()
	c.group.remove(&c.cancel)
	if !c.draining {
		c.cancel()
	}
}

// end sets the call's terminal.
func (c *modernHTTPCall) end(res *mcp.Result, err error) { c.over, c.res, c.err = true, res, err }

// interrupted is the error of a call whose context has ended, or that close has
// cancelled.
func (c *modernHTTPCall) interrupted() error {
	outcome := mcp.NotDispatched
	if c.out.sent.Load() {
		outcome = mcp.Unknown
	}
	if c.ctx.Err() != nil {
		return c.givenUp(c.ctx, outcome)
	}
	f := c.cut()
	f.Outcome = outcome
	return f
}

// read reads the response. Its error is nil if it ended in order.
func (c *modernHTTPCall) read(resp *http.Response) error {
	defer c.release(resp)
	if !hasMessages(resp) {
		return c.refusal(c.io, c.readRefusal(resp))
	}
	return c.endpoint.read(resp, &c.pos, c, c.forward, c.take)
}

// release closes the response. If the terminal has arrived and the response goes on, it is
// drained in the background, because the caller has its result.
func (c *modernHTTPCall) release(resp *http.Response) {
	if !c.answered || isRead(resp) {
		resp.Body.Close()
		return
	}
	c.draining = startDrain(resp, &c.group, c.cancel)
}

// take handles one message of the response. The response belongs to this call only, so
// a response to another call is an error of the server. An error without an id can only
// concern this request.
func (c *modernHTTPCall) take(m *mcp.Message, bad error) (more bool) {
	switch {
	case bad != nil && m.ID == c.id:
		c.end(nil, c.malformed(bad))
		return false
	case bad != nil:
		c.log.WarnContext(c.ctx, "backend sent an invalid message")
		return true
	case m.Kind == mcp.KindNotification:
		c.outbound.deliver(c.io, m)
		return c.io.Err() == nil
	case m.Kind == mcp.KindRequest:
		c.outbound.owner.asked(c.ctx, &c.outbound, m)
		return true
	case m.Kind == mcp.KindError && m.ID.IsZero():
	case m.ID != c.id:
		c.log.WarnContext(c.ctx, "backend sent a response to an unknown request")
		return true
	}
	if c.outbound.req.Method == methodToolsList && m.Kind == mcp.KindResult {
		c.params.learn(&m.Result.Object)
	}
	t := c.terminal(m)
	c.end(t.Result, t.Err)
	c.answered = true
	return false
}

// forward offers the result to the caller while it arrives.
func (c *modernHTTPCall) forward(a *jsonrpc.Arrival) bool {
	if !c.outbound.canForward(a, c.id) {
		return false
	}
	res := jsonrpc.NewArriving(a, c.outbound.version, c.cancel)
	taken, err := c.outbound.caller.Extension().Receive(c.ctx, res)
	switch {
	case !taken:
		return false
	case err == nil:
		c.end(res.Result(), nil)
		c.answered = true
	case c.ctx.Err() == nil:
		c.end(nil, c.forwardError(c.ctx, err))
	}
	return true
}

// Room reserves memory for the response, and ends the call if there is none. The server
// is not read from meanwhile.
func (c *modernHTTPCall) Room(bytes int, _ []byte) error {
	err := c.outbound.req.Reserve(c.io, bytes)
	if err != nil {
		c.end(nil, err)
	}
	return err
}

func (w *modernHTTP) sharedPipe() *modernPipe { return nil }

// refusal interprets an HTTP response without a result. Only a response that no modern
// server would send means at once that the server is now a legacy one: a wrong guess
// costs every request a probe and two handshakes. recheck finds the remaining cases.
// Idle connections are closed if another server may be at their other end.
func (w *modernHTTP) refusal(ctx context.Context, r *refusal) error {
	err := w.refused(ctx, r)
	switch {
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		w.forgetConnections()
		return err
	case r.rpc != nil && r.rpc.Code == mcp.CodeHeaderMismatch:
		return &rejected{why: headerMismatch, err: err}
	case r.rpc != nil && r.rpc.Code == mcp.CodeUnsupportedVersion:
		return &rejected{why: wrongEra, err: err}
	case r.status == http.StatusBadRequest && !isModernError(r.rpc),
		(r.status == http.StatusNotFound || r.status == http.StatusMethodNotAllowed) && r.rpc == nil:
		w.forgetConnections()
		return &rejected{why: wrongEra, err: err}
	default:
		return err
	}
}

// isModernError reports whether an error with status 400 is one that a modern server
// sends (basic/transports/streamable-http, "Backward Compatibility").
func isModernError(e *mcp.Error) bool {
	if e == nil {
		return false
	}
	switch e.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion,
		mcp.CodeInvalidParams, mcp.CodeMethodNotFound, mcp.CodeParseError:
		return true
	default:
		return false
	}
}

// stats returns zeros: a response cannot be late, or reach another call.
func (w *modernHTTP) stats() session.CallStats { return session.CallStats{} }

// close cancels the calls, and waits until no response is drained any more.
func (w *modernHTTP) close(context.Context) { w.group.close() }
