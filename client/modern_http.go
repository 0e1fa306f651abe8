// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// modernHTTP sends modern requests over Streamable HTTP: each is a POST, and the
// response is that POST's body (2026-07-28, basic/transports/streamable-http).
type modernHTTP struct {
	*endpoint
	calls       session.Calls
	group       goroutines
	params      paramTable
	headerCache headerCache
	refusals    refusals
}

func newModernHTTP(e *endpoint) *modernHTTP {
	return &modernHTTP{endpoint: e, calls: session.Calls{Numbers: newNumbers()}}
}

func (w *modernHTTP) open(method string) (*session.Call, error) { return w.calls.Open(method) }

func (w *modernHTTP) carry(ctx context.Context, f outboundCall, out outboundRequest) (*mcp.Result, error) {
	header := w.headers(f.req, &out)
	c := newHTTPCall(w.endpoint, f, &w.group, out.msg)
	res, err := c.do(ctx, func() { w.follow(ctx, c, header) })
	switch {
	case err == nil:
		w.refusals.worked()
	case isOfServer(ctx, err) && w.refusals.refused(time.Now()):
		w.recheck()
	}
	return res, err
}

// abandon does nothing: closing the stream cancels the call, and its context closes it.
func (w *modernHTTP) abandon(*session.Call) {}

func (w *modernHTTP) sharedPipe() *modernPipe { return nil }

// follow POSTs the request and reads the response. A modern stream cannot be resumed:
// if it ends without a response the call is lost, and it is unknown whether it ran. ctx
// is the caller's. The httpCall's life ends with it and with the call.
func (w *modernHTTP) follow(ctx context.Context, c *httpCall, header http.Header) {
	err := w.carryPost(ctx, c, header)
	switch {
	case c.call.IsOver() || c.life.Err() != nil:
	case err == nil:
		c.fail(w.lost(nil, "its answer ended without a response"))
	default:
		c.fail(err)
	}
}

// carryPost sends the POST and reads its response.
//
//nolint:contextcheck,nolintlint // the httpCall's life follows ctx
func (w *modernHTTP) carryPost(ctx context.Context, c *httpCall, header http.Header) error {
	resp, err := w.post(&c.life, header, &c.out)
	if err != nil {
		return err
	}
	defer c.release(resp)
	if !hasMessages(resp) {
		return w.refusal(&c.life, w.readRefusal(resp))
	}
	return w.read(resp, &c.pos, c, func(a *jsonrpc.Arrival) bool { return c.forward(ctx, a) }, func(m *mcp.Message, bad error) bool { return w.take(ctx, c, m, bad) })
}

// take handles one message of a call's response body. The body belongs to that call
// only, so a response to another call is an error of the server. An error without an id
// can only concern this request.
func (w *modernHTTP) take(ctx context.Context, c *httpCall, m *mcp.Message, bad error) (more bool) {
	switch {
	case bad != nil && m.ID == c.call.ID():
		c.fail(w.malformed(bad))
		return false
	case bad != nil:
		w.log.WarnContext(ctx, "backend sent an invalid message")
		return true
	case m.Kind == mcp.KindNotification || m.Kind == mcp.KindRequest:
		return c.deliverMessage(ctx, m)
	case m.Kind == mcp.KindError && m.ID.IsZero():
		c.respond(m)
		return false
	case m.ID != c.call.ID():
		w.log.WarnContext(ctx, "backend sent a response to an unknown request")
		return true
	}
	if c.call.Method() == methodToolsList && m.Kind == mcp.KindResult {
		w.params.learn(&m.Result.Object)
	}
	c.respond(m)
	return false
}

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

func (w *modernHTTP) stats() session.CallStats { return w.calls.Stats() }

// close ends the calls first, so that each has its error before its httpCall is
// cancelled and sees only a closed connection.
func (w *modernHTTP) close(context.Context) {
	w.calls.End(w.cut())
	w.group.close()
}
