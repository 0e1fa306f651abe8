// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// httpConn sends modern requests over Streamable HTTP: each is a POST, and the
// response is that POST's body (2026-07-28, basic/transports/streamable-http).
type httpConn struct {
	*httpconn.Endpoint
	open        context.Context //nolint:containedctx // of the connection: close ends it
	cancel      context.CancelFunc
	drains      call.Goroutines // drain responses
	numbers     *call.Numbers
	last        atomic.Uint64 // calls so far
	params      paramTable
	headerCache headerCache
	refusals    refusals
}

func newHTTPConn(e *httpconn.Endpoint) *httpConn {
	w := &httpConn{Endpoint: e, numbers: call.NewNumbers()}
	w.open, w.cancel = context.WithCancel(context.Background())
	return w
}

// call sends a request. If the server refuses it because of its headers, they are
// refreshed and it is sent once more.
func (w *httpConn) call(ctx context.Context, p *Protocol, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	if ctx.Err() != nil {
		return nil, p.GivenUp(ctx, mcp.NotDispatched)
	}
	res, err := w.post(ctx, p, req, params, caller)
	if call.IsRejected(err, call.HeaderMismatch) && w.refreshHeaders(ctx, p, req) {
		return w.post(ctx, p, req, params, caller)
	}
	return res, err
}

// post sends one request and reads its response, all on the calling goroutine. A modern
// stream cannot be resumed: if it ends without a response the call is lost, and it is
// unknown whether it ran.
func (w *httpConn) post(ctx context.Context, p *Protocol, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	if w.open.Err() != nil {
		return nil, w.Closed()
	}
	c := &httpCall{
		httpConn: w,
		base:     callContext{w.open, ctx},
		id:       jsonrpc.NumberID(w.numbers.ID(w.last.Add(1))),
		outbound: p.outboundCall(req, params, caller),
		pos:      httpconn.Cursor{Retry: -1},
	}
	c.outbound.Sent = c.id
	c.io, c.cancel = context.WithCancel(&c.base)
	defer c.finish()
	defer context.AfterFunc(ctx, c.cancel)()
	c.out.Msg, c.out.Times = p.buildRequest(req, params, c.id), req.Timeline
	resp, err := w.Post(c.io, req, w.headers(req, p.version, params), &c.out) //nolint:bodyclose,contextcheck,nolintlint // read closes it; c.io ends with ctx
	if err == nil {
		req.Timeline.Mark(mcp.StageFirstByte)
		err = c.read(resp)
	}
	switch {
	case c.over:
		if err = c.err; c.answered {
			req.Timeline.Mark(mcp.StageLastByte)
		}
	case c.io.Err() != nil:
		err = c.interrupted()
	case err == nil:
		err = w.Lost(nil, "its answer ended without a response")
	}
	switch {
	case err == nil:
		w.refusals.worked()
	case isOfServer(ctx, err) && w.refusals.refused(time.Now()):
		w.Recheck(req)
	}
	return c.res, err
}

// httpCall is one request and its response.
type httpCall struct {
	*httpConn
	base     callContext
	io       context.Context    //nolint:containedctx // of the POST: ends with the caller's, with the connection, or after the drain of its response
	cancel   context.CancelFunc // ends io
	outbound call.Call
	id       mcp.ID
	out      httpconn.RequestBody
	pos      httpconn.Cursor

	over     bool // the call has its terminal
	res      *mcp.Result
	err      error
	answered bool // the terminal arrived in the response, which may go on
	draining bool // a goroutine drains the response, and then cancels io
}

// callContext is the parent of a POST's context. It ends with the connection only: a
// response may be drained after the caller's context has ended. It has the values of
// that context. Being part of the call saves an object.
type callContext struct {
	context.Context                 //nolint:containedctx // of the connection
	caller          context.Context //nolint:containedctx // of the waiting caller
}

// Value returns the connection's values first. The context package needs them to find
// what ends with the connection.
func (v *callContext) Value(key any) any {
	if value := v.Context.Value(key); value != nil {
		return value
	}
	return v.caller.Value(key)
}

// finish ends io, unless the response is being drained.
func (c *httpCall) finish() {
	if !c.draining {
		c.cancel()
	}
}

// end sets the call's terminal.
func (c *httpCall) end(res *mcp.Result, err error) { c.over, c.res, c.err = true, res, err }

// interrupted is the error of a call after its context has ended, or after close has
// cancelled it.
func (c *httpCall) interrupted() error {
	outcome := mcp.NotDispatched
	if c.out.Sent.Load() {
		outcome = mcp.Unknown
	}
	if c.base.caller.Err() != nil {
		return c.GivenUp(c.base.caller, outcome)
	}
	f := c.Cut()
	f.Outcome = outcome
	return f
}

// read reads the response. Its error is nil if it ended in order.
func (c *httpCall) read(resp *http.Response) error {
	defer c.release(resp)
	if !httpconn.HasMessages(resp) {
		return c.refusal(c.io, c.ReadRefusal(resp))
	}
	return c.Read(resp, &c.pos, c, c.forward, c.take)
}

// release closes the response. If the terminal has arrived and the response goes on, it is
// drained in the background, because the caller has its result.
func (c *httpCall) release(resp *http.Response) {
	if !c.answered || httpconn.IsRead(resp) {
		resp.Body.Close()
		return
	}
	c.draining = httpconn.StartDrain(resp, &c.drains, c.cancel)
}

// take handles one message of the response. The response belongs to this call only, so
// a response to another call is an error of the server. An error without an id can only
// concern this request.
func (c *httpCall) take(m *mcp.Message, bad error) (more bool) {
	switch {
	case bad != nil && m.ID == c.id:
		c.end(nil, c.Malformed(bad))
		return false
	case bad != nil:
		c.Log.WarnContext(c.base.caller, "backend sent an invalid message")
		return true
	case m.Kind == mcp.KindNotification:
		c.outbound.Deliver(c.io, m)
		return c.io.Err() == nil
	case m.Kind == mcp.KindRequest:
		c.outbound.Owner.Asked(c.base.caller, &c.outbound, m)
		return true
	case m.Kind == mcp.KindError && m.ID.IsZero():
	case m.ID != c.id:
		c.Log.WarnContext(c.base.caller, "backend sent a response to an unknown request")
		return true
	}
	if c.outbound.Req.Method == call.MethodToolsList && m.Kind == mcp.KindResult {
		c.params.learn(&m.Result.Object)
	}
	t := c.Terminal(m)
	c.end(t.Result, t.Err)
	c.answered = true
	return false
}

// forward offers the result to the caller while it arrives.
func (c *httpCall) forward(a *jsonrpc.Arrival) bool {
	if !c.outbound.CanForward(a, c.id) {
		return false
	}
	res := jsonrpc.NewArriving(a, c.outbound.Version, c.cancel)
	taken, err := c.outbound.Caller.Extension().Receive(c.base.caller, res)
	switch {
	case !taken:
		return false
	case err == nil:
		c.end(res.Result(), nil)
		c.answered = true
	case c.base.caller.Err() == nil:
		c.end(nil, c.ForwardError(c.base.caller, err))
	}
	return true
}

// Room reserves memory for the response, and ends the call if there is none. The server
// is not read from meanwhile.
func (c *httpCall) Room(bytes int, _ []byte) error {
	err := c.outbound.Req.Reserve(c.io, bytes)
	if err != nil {
		c.end(nil, err)
	}
	return err
}

// stats returns zeros: a response cannot be late, or reach another call.
func (w *httpConn) stats() session.CallStats { return session.CallStats{} }

// abandon does nothing: the end of its POST cancels a call.
func (w *httpConn) abandon(*session.Call) {}

// close cancels the calls, and waits until no response is drained any more.
func (w *httpConn) close(context.Context) {
	w.cancel()
	w.drains.Close()
}

// refusal interprets an HTTP response without a result. Only a response that no modern
// server would send means at once that the server is now a legacy one: a wrong guess
// costs every request a probe and two handshakes. recheck finds the remaining cases.
// Idle connections are closed if another server may be at their other end.
func (w *httpConn) refusal(ctx context.Context, r *httpconn.Refusal) error {
	err := w.Refused(ctx, r)
	switch {
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		w.ForgetConnections()
		return err
	case r.RPC != nil && r.RPC.Code == mcp.CodeHeaderMismatch:
		return &call.Rejected{Why: call.HeaderMismatch, Err: err}
	case r.RPC != nil && r.RPC.Code == mcp.CodeUnsupportedVersion:
		return &call.Rejected{Why: call.WrongEra, Err: err}
	case r.Status == http.StatusBadRequest && !isModernError(r.RPC),
		(r.Status == http.StatusNotFound || r.Status == http.StatusMethodNotAllowed) && r.RPC == nil:
		w.ForgetConnections()
		return &call.Rejected{Why: call.WrongEra, Err: err}
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
	case ctx.Err() != nil, call.IsRejected(err, call.NoCredential):
		return false
	case !isFault:
		return true
	}
	if r, ok := f.Cause.(*httpconn.Refusal); ok { //nolint:errorlint // set unwrapped by Endpoint.Refused
		return !r.IsBeforeMessage()
	}
	return f.Code == mcp.CodeBackendFailed
}
