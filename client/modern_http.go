// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// modernHTTP carries modern requests over Streamable HTTP: each is a POST, and
// its answer is that POST's body (2026-07-28, basic/transports/streamable-http).
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

// abandon does nothing: that the stream is closed is the cancellation, and its
// context closes it.
func (w *modernHTTP) abandon(*session.Call) {}

func (w *modernHTTP) sharedPipe() *modernPipe { return nil }

// follow POSTs the request and brings what its body holds. A modern stream cannot be
// resumed: one that ends without a response has lost the call, and nobody can say
// whether it ran. ctx is the caller's; the httpCall's life ends with it, and with the call.
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

// carryPost reads the POST's answer, to the response.
//
//nolint:contextcheck,nolintlint // the httpCall's life is no other context than ctx, but for how it ends
func (w *modernHTTP) carryPost(ctx context.Context, c *httpCall, header http.Header) error {
	resp, err := w.post(&c.life, header, &c.out)
	if err != nil {
		return err
	}
	defer c.release(resp)
	if !hasMessages(resp) {
		return w.refusal(&c.life, w.readRefusal(resp))
	}
	return w.read(resp, &c.pos, c, func(a *mcp.Arrival) bool { return c.forward(ctx, a) }, func(m *mcp.Message, bad error) bool { return w.take(ctx, c, m, bad) })
}

// take hands on one message of a call's answer. The body is that call's alone: an
// answer to another one is a mistake of the server, and is not looked for elsewhere.
// An error without an id can only be about the one request that was sent.
func (w *modernHTTP) take(ctx context.Context, c *httpCall, m *mcp.Message, bad error) (more bool) {
	switch {
	case bad != nil && m.ID == c.call.ID():
		c.fail(w.malformed(bad))
		return false
	case bad != nil:
		w.log.WarnContext(ctx, "backend sent a message that is none")
		return true
	case m.Kind == mcp.KindNotification || m.Kind == mcp.KindRequest:
		return c.deliverMessage(ctx, m)
	case m.Kind == mcp.KindError && m.ID.IsZero():
		c.respond(m)
		return false
	case m.ID != c.call.ID():
		w.log.WarnContext(ctx, "backend answered a request that was not asked")
		return true
	}
	if c.call.Method() == methodToolsList && m.Kind == mcp.KindResult {
		w.params.learn(&m.Result.Object)
	}
	c.respond(m)
	return false
}

// refusal says what an HTTP answer without a result means in the modern era. Only
// what a modern server would not say means at once that the server has become a legacy
// one: a wrong guess there costs every request a probe and two handshakes. A missing one
// is found out by recheck. Connections are let go where another server may be at their
// other end by now.
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

// isModernError reports whether an error with status 400 is one that a modern
// server gives (basic/transports/streamable-http, "Backward Compatibility").
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

// close ends the calls first, so that each has its reason before its httpCall is cut
// and finds only that the connection is gone.
func (w *modernHTTP) close(context.Context) {
	w.calls.End(w.cut())
	w.group.close()
}
