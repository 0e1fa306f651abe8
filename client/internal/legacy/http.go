// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/client/internal/stdio"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// HTTPDialer opens legacy sessions over Streamable HTTP, and over HTTP with SSE if the
// server has only that.
type HTTPDialer struct {
	*httpconn.Endpoint
	usesSSE atomic.Bool // the server has shown that it has HTTP with SSE
}

// Dial returns a connection that is not open yet, or an open one over HTTP with SSE if the
// server has shown that it has only that.
func (d *HTTPDialer) Dial(ctx context.Context, of *mcp.Request, n stdio.Purpose) (Conn, error) {
	if !d.usesSSE.Load() {
		return newHTTPConn(d.Endpoint), nil
	}
	w, err := SSEDialer{d.Endpoint}.Dial(ctx, of, n)
	if call.IsRejected(err, call.NoCredential) {
		return nil, err
	}
	if f, ok := call.Unwrap(err).(*mcp.Fault); err != nil && (!ok || !isUnreachable(f)) { //nolint:errorlint // only what is a Fault itself
		d.usesSSE.Store(false) // the server may have been replaced
		return newHTTPConn(d.Endpoint), nil
	}
	return w, err
}

// HandshakeFailed makes the next session try Streamable HTTP first, over new
// connections: the server may have been replaced.
func (d *HTTPDialer) HandshakeFailed(Conn) (keep bool) {
	d.usesSSE.Store(false)
	d.ForgetConnections()
	return false
}

// SSEFallback tries HTTP with SSE after the server has refused an initialize with a
// status that servers without Streamable HTTP use. Only a stream that begins with an
// endpoint event proves that the server has the transport.
func (d *HTTPDialer) SSEFallback(ctx context.Context, conn Conn) Conn {
	w, ok := conn.(*httpConn)
	if !ok || !mayBeSSE(w.refusedWith) {
		return nil
	}
	old, err := SSEDialer{d.Endpoint}.open(ctx, w.session.sender.Load())
	if err != nil {
		d.Log.DebugContext(ctx, "backend does not support HTTP with SSE", slog.Any("cause", err))
		return nil
	}
	d.usesSSE.Store(true)
	return old
}

// mayBeSSE reports whether a server that has refused initialize with the status may
// have HTTP with SSE. Opening its stream shows that (2025-11-25, basic/transports,
// "Backwards Compatibility").
func mayBeSSE(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// IsModern reports false: over HTTP, the probe has ended before the handshake begins.
func (d *HTTPDialer) IsModern(Conn) bool { return false }

// SharesStream reports true for HTTP with SSE. In Streamable HTTP each call has its own
// stream.
func (d *HTTPDialer) SharesStream() bool { return d.usesSSE.Load() }

// httpConn is the connection of one legacy session over Streamable HTTP (2025-11-25,
// basic/transports).
type httpConn struct {
	httpSession
	noListen chan struct{} // closed when there is no listening stream, or none any more

	// The fields below are set by the handshake, before the session is shared.
	id          string
	version     mcp.Version
	refusedWith int                         // HTTP status that refused initialize, or 0
	postHeader  atomic.Pointer[http.Header] // headers of the session's POSTs, nil before the handshake's answer
}

func newHTTPConn(e *httpconn.Endpoint) *httpConn {
	return &httpConn{httpSession: newHTTPSession(e), noListen: make(chan struct{})}
}

// headers returns the headers of every request of the session. The initialize request
// has neither a session id nor a version.
func (w *httpConn) headers() http.Header {
	h := maps.Clone(w.Configured)
	if w.id != "" {
		h["Mcp-Session-Id"] = []string{w.id}
	}
	if w.version != "" {
		h["Mcp-Protocol-Version"] = []string{string(w.version)}
	}
	return h
}

// cacheHeaders computes the headers of POSTs once, instead of for each of them.
func (w *httpConn) cacheHeaders() {
	posts := httpconn.MergeHeaders(w.Posts, w.headers())
	w.postHeader.Store(&posts)
}

func (w *httpConn) roundTrip(ctx context.Context, f call.Call, msg jsonrpc.Pieces) (*mcp.Result, error) {
	c := newHTTPCall(w.Endpoint, f, &w.group, msg)
	c.run(ctx, func() { w.exchange(ctx, c) })
	return c.outbound.Run(ctx)
}

// exchange POSTs a request and reads its stream, over reconnects, until the response.
// ctx is the caller's. The lifetime of c ends with ctx and with the call.
//
//nolint:contextcheck,nolintlint // that lifetime is ctx, but for how it ends
func (w *httpConn) exchange(ctx context.Context, c *httpCall) {
	c.due = w.session.pending.add()
	defer c.due.received()
	accepted, err := w.doPost(ctx, c)
	// A suspected loss of the session explains the stream's error, so it is checked
	// first. Resuming is tried before an error is returned, because then nothing is
	// lost yet.
	switch {
	case c.call.IsOver() || c.ctx.Err() != nil:
		return
	case c.doubt != nil:
		w.checkSession(c.ctx, c)
	case accepted:
		w.awaitOnListenStream(c)
	case c.pos.LastID != "":
		w.resume(ctx, c)
	case err != nil:
		c.fail(err)
		c.due.received() // the error is the answer
		w.endSessionIfGone(err)
	default:
		c.fail(w.Lost(nil, "its answer ended without a response"))
	}
}

// doPost sends the POST and reads its own answer. accepted means that the server has
// the request and will answer on another stream.
//
//nolint:contextcheck,nolintlint // as in exchange
func (w *httpConn) doPost(ctx context.Context, c *httpCall) (accepted bool, err error) {
	resp, err := w.send(c.ctx, w.session.about(&c.outbound), &c.out) //nolint:bodyclose // c.Release closes it
	if err != nil {
		return false, err
	}
	defer c.release(resp)
	if resp.StatusCode == http.StatusAccepted {
		c.due.received()
		return true, nil
	}
	c.out.Times.Mark(mcp.StageFirstByte)
	if !httpconn.HasMessages(resp) {
		if c.call.Method() == call.MethodInitialize {
			w.refusedWith = resp.StatusCode
		}
		return false, w.refusal(c.ctx, w.ReadRefusal(resp), c)
	}
	if httpconn.MediaType(resp) == httpconn.TypeEvents {
		c.due.received() // the stream has begun and may take its time
	}
	// The header is read before the body: the body continues the handshake, and its
	// next message must carry the session id.
	if c.call.Method() == call.MethodInitialize {
		w.id = resp.Header.Get("Mcp-Session-Id")
		w.cacheHeaders()
	}
	return false, w.Read(resp, &c.pos, c, func(a *jsonrpc.Arrival) bool { return c.forward(ctx, a) }, func(m *mcp.Message, bad error) bool { return w.receive(ctx, c, m, bad) })
}

// send POSTs a message that belongs to a request with the session's headers.
func (w *httpConn) send(ctx context.Context, about *mcp.Request, out *httpconn.RequestBody) (*http.Response, error) {
	header := w.Posts
	if own := w.postHeader.Load(); own != nil {
		header = *own
	}
	return w.Post(ctx, about, header, out)
}

// receive handles one message of a call's stream. A response ends the call that it
// names, even if it arrives on another call's stream.
func (w *httpConn) receive(ctx context.Context, c *httpCall, m *mcp.Message, bad error) (more bool) {
	isResponse := m.Kind == mcp.KindResult || m.Kind == mcp.KindError
	switch {
	case bad != nil && m.ID == c.call.ID():
		c.fail(w.Malformed(bad))
		return false
	case bad != nil:
		w.Log.WarnContext(ctx, "backend sent an invalid message")
		return true
	case m.Kind == mcp.KindError && m.ID == c.call.ID() && w.noteSessionError(c, m):
		return false
	case m.Kind == mcp.KindError && m.ID.IsZero(), isResponse && m.ID == c.call.ID():
		c.respond(m)
		return false
	case isResponse:
		w.Respond(&w.calls, m.ID, m)
		return true
	case concernsSession(m):
		w.session.route(m)
		return true
	default:
		w.session.noteTaskStatus(m) // and passed to the call, because it arrived on its stream
		return c.deliverMessage(ctx, m)
	}
}

// noteSessionError reports whether an error may mean that the server does not know the
// session. It stores the error in c.doubt until checkSession has asked the server.
func (w *httpConn) noteSessionError(c *httpCall, m *mcp.Message) bool {
	if w.id == "" {
		return false
	}
	e, err := m.WireError()
	if err != nil || !isSessionError(e) {
		return false
	}
	c.doubt = &sessionCheck{said: e, looked: !call.IsReadMethod(c.call.Method())}
	return true
}

// isSessionError reports whether an error that arrived with status 200 names a lost
// session, as some servers do.
func isSessionError(e *mcp.Error) bool {
	switch e.Code {
	case mcp.CodeInvalidRequest, -32000, -32001, -32015:
		return httpconn.NamesLostSession(e.Message)
	default:
		return false
	}
}

// checkSession ends a call after the server has reported an unknown session. A tool may
// report that of its own sessions, so checkSession asks the server whether it knows
// ours. A call that the server may have executed ends with the server's error.
func (w *httpConn) checkSession(ctx context.Context, c *httpCall) {
	said := c.doubt.said
	switch {
	case !w.isForgotten(ctx):
		c.fail(call.Unwrap(said))
		return
	case c.doubt.looked:
		c.fail(call.Unwrap(said))
	default:
		c.fail(w.goneError(said))
	}
	w.endSession(said)
}

// isForgotten pings the server and reports whether the answer is that it does not know
// the session. Any other outcome counts as no.
func (w *httpConn) isForgotten(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, w.Write)
	defer cancel()
	pending, err := w.calls.Open(call.MethodPing)
	if err != nil {
		return false
	}
	defer pending.Finish(session.Terminal{})
	resp, err := w.send(ctx, w.session.own(call.MethodPing), &httpconn.RequestBody{Msg: jsonrpc.Pieces{jsonrpc.AppendRequest(nil, pending.ID(), call.MethodPing, nil)}}) //nolint:bodyclose // Drain closes it
	if err != nil {
		return false
	}
	defer httpconn.Drain(resp, cancel)
	if !httpconn.HasMessages(resp) {
		r := w.ReadRefusal(resp)
		return r.Status == http.StatusNotFound || r.MayMeanSession()
	}
	unknown := false
	err = w.Read(resp, &httpconn.Cursor{}, nil, httpconn.NeverForward, func(m *mcp.Message, bad error) bool {
		if bad == nil && m.Kind == mcp.KindError {
			e, err := m.WireError()
			unknown = err == nil && isSessionError(e)
		}
		return bad == nil && m.ID != pending.ID()
	})
	return err == nil && unknown
}

// refusal returns the error for an HTTP answer without a message. c is the refused
// call, nil if the message was not a call.
func (w *httpConn) refusal(ctx context.Context, r *httpconn.Refusal, c *httpCall) error {
	err := w.Refused(ctx, r)
	switch {
	case w.id != "" && r.Status == http.StatusNotFound:
		return w.goneError(err)
	case w.id != "" && c != nil && r.MayMeanSession():
		c.doubt = &sessionCheck{said: err}
		return err
	case r.RPC != nil && isModernOnly(r.RPC.Code):
		return &call.Rejected{Why: call.WrongEra, Err: err}
	default:
		return err
	}
}

// isModernOnly reports whether only a modern server returns an error of the code.
func isModernOnly(code int64) bool {
	return code == mcp.CodeHeaderMismatch || code == mcp.CodeMissingCapability || code == mcp.CodeUnsupportedVersion
}

// awaitOnListenStream waits for the response to arrive on the listening stream, as long
// as there is one.
func (w *httpConn) awaitOnListenStream(c *httpCall) {
	select {
	case <-c.call.Done():
	case <-c.ctx.Done():
	case <-w.noListen:
		c.fail(w.Lost(nil, "it accepted the request and has no stream to answer it on"))
	}
}

// post sends a message that has no answer. If the server answers that it has forgotten
// the session, the session ends for all its users.
func (w *httpConn) post(ctx context.Context, msg []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := w.send(ctx, w.session.own(""), &httpconn.RequestBody{Msg: jsonrpc.Pieces{msg}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		if httpconn.MediaType(resp) != httpconn.TypeEvents { // a stream may stay open, and is not waited for
			httpconn.Drain(resp, cancel)
		}
		return nil
	}
	err = w.refusal(ctx, w.ReadRefusal(resp), nil)
	w.endSessionIfGone(err)
	return err
}

func (w *httpConn) setVersion(v mcp.Version) {
	w.version = v
	w.cacheHeaders()
}

// listenGrace is how long a session waits for its listening stream before it is used
// without. It exceeds most round trip times. A client waits that long at most once per
// session if the server never answers.
const listenGrace = 500 * time.Millisecond

// initialized opens the listening stream in the background and waits up to listenGrace
// for the server's answer: many servers drop what they send before they have the
// stream. The stream is optional, and so is the answer.
func (w *httpConn) initialized(ctx context.Context) {
	answered := make(chan struct{})
	// Ends with the session, or when the server has no such stream. Waited for by
	// close.
	_, ok := w.group.Start(func(ctx context.Context) { w.listen(ctx, sync.OnceFunc(func() { close(answered) })) })
	if !ok {
		close(w.noListen)
		return
	}
	grace := time.NewTimer(listenGrace)
	defer grace.Stop()
	select {
	case <-answered:
	case <-w.noListen:
	case <-grace.C:
	case <-ctx.Done():
	}
}

func (w *httpConn) noListenStream() <-chan struct{} { return w.noListen }

// deleteTimeout bounds the DELETE of a session.
const deleteTimeout = 5 * time.Second

func (w *httpConn) close(ctx context.Context) {
	w.calls.End(w.Cut())
	w.group.Close()
	if w.id == "" {
		return
	}
	// The DELETE is sent even if ctx has ended; it has its own bound.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	resp, err := w.Fetch(ctx, w.session.own(""), http.MethodDelete, w.headers()) //nolint:bodyclose // Drain closes it
	if err != nil {
		return // the server will expire the session
	}
	httpconn.Drain(resp, cancel)
}
