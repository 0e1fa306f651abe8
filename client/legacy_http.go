// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// httpDialer opens legacy sessions over Streamable HTTP, and over HTTP with SSE if the
// server has only that.
type httpDialer struct {
	*endpoint
	usesSSE atomic.Bool // the server has shown that it has HTTP with SSE
}

func (d *httpDialer) dial(ctx context.Context, n slotPurpose) (legacyWire, error) {
	if !d.usesSSE.Load() {
		return newLegacyHTTP(d.endpoint), nil
	}
	w, err := sseDialer{d.endpoint}.dial(ctx, n)
	if f, ok := unwrap(err).(*mcp.Fault); err != nil && (!ok || !isUnreachable(f)) { //nolint:errorlint // only what is a Fault itself
		d.usesSSE.Store(false) // the server may have been replaced
		return newLegacyHTTP(d.endpoint), nil
	}
	return w, err
}

func (d *httpDialer) failed(legacyWire) (keep bool) {
	d.usesSSE.Store(false)
	d.forgetConnections()
	return false
}

// sseFallback tries HTTP with SSE after the server has refused an initialize with a
// status that servers without Streamable HTTP use. Only a stream that begins with an
// endpoint event proves that the server has the transport.
func (d *httpDialer) sseFallback(ctx context.Context, wire legacyWire) legacyWire {
	w, ok := wire.(*legacyHTTP)
	if !ok || !mayBeSSE(w.refusedWith) {
		return nil
	}
	old, err := sseDialer{d.endpoint}.open(ctx)
	if err != nil {
		d.log.DebugContext(ctx, "backend does not support HTTP with SSE", slog.Any("cause", err))
		return nil
	}
	d.usesSSE.Store(true)
	return old
}

// isModern: over HTTP, the probe has been answered before the handshake begins.
func (d *httpDialer) isModern(legacyWire) bool { return false }

// sharesStream: in Streamable HTTP each call has its own stream.
func (d *httpDialer) sharesStream() bool { return d.usesSSE.Load() }

// legacyHTTP is the connection of one legacy session over Streamable HTTP (2025-11-25,
// basic/transports).
type legacyHTTP struct {
	*endpoint
	calls    session.Calls
	group    goroutines
	session  *legacySession
	noListen chan struct{} // closed when there is no listening stream, or none any more

	// The fields below are set by the handshake, before the session is shared.
	id          string
	version     mcp.Version
	refusedWith int                         // HTTP status that refused initialize, or 0
	postHeader  atomic.Pointer[http.Header] // headers of the session's POSTs, nil before the handshake's answer
}

func newLegacyHTTP(e *endpoint) *legacyHTTP {
	return &legacyHTTP{endpoint: e, calls: session.Calls{Numbers: newNumbers()}, noListen: make(chan struct{})}
}

func (w *legacyHTTP) callTable() *session.Calls { return &w.calls }

func (w *legacyHTTP) attach(s *legacySession) { w.session = s }

// headers returns the headers of every request of the session. The initialize request
// has neither a session id nor a version.
func (w *legacyHTTP) headers() http.Header {
	h := maps.Clone(w.configured)
	if w.id != "" {
		h["Mcp-Session-Id"] = []string{w.id}
	}
	if w.version != "" {
		h["Mcp-Protocol-Version"] = []string{string(w.version)}
	}
	return h
}

// cacheHeaders computes the headers of POSTs once, instead of for each of them.
func (w *legacyHTTP) cacheHeaders() {
	posts := mergeHeaders(w.posts, w.headers())
	w.postHeader.Store(&posts)
}

func (w *legacyHTTP) roundTrip(ctx context.Context, f outboundCall, msg jsonrpc.Pieces) (*mcp.Result, error) {
	c := newHTTPCall(w.endpoint, f, &w.group, msg)
	return c.do(ctx, func() { w.exchange(ctx, c) })
}

// noteClient does nothing: an HTTP server has no output that is attributed to clients.
func (w *legacyHTTP) noteClient(*mcp.Request) {}

// exchange POSTs a request and reads its stream, over reconnects, until the response.
// ctx is the caller's. The lifetime of c ends with ctx and with the call.
//
//nolint:contextcheck,nolintlint // that lifetime is ctx, but for how it ends
func (w *legacyHTTP) exchange(ctx context.Context, c *httpCall) {
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
	case c.pos.lastID != "":
		w.resume(ctx, c)
	case err != nil:
		c.fail(err)
		c.due.received() // the error is the answer
		w.endSessionIfGone(err)
	default:
		c.fail(w.lost(nil, "its answer ended without a response"))
	}
}

// doPost sends the POST and reads its own answer. accepted means that the server has
// the request and will answer on another stream.
//
//nolint:contextcheck,nolintlint // as in exchange
func (w *legacyHTTP) doPost(ctx context.Context, c *httpCall) (accepted bool, err error) {
	resp, err := w.send(c.ctx, &c.out)
	if err != nil {
		return false, err
	}
	defer c.release(resp)
	if resp.StatusCode == http.StatusAccepted {
		c.due.received()
		return true, nil
	}
	if !hasMessages(resp) {
		if c.call.Method() == methodInitialize {
			w.refusedWith = resp.StatusCode
		}
		return false, w.refusal(c.ctx, w.readRefusal(resp), c)
	}
	if mediaType(resp) == typeEvents {
		c.due.received() // the stream has begun and may take its time
	}
	// The header is read before the body: the body continues the handshake, and its
	// next message must carry the session id.
	if c.call.Method() == methodInitialize {
		w.id = resp.Header.Get("Mcp-Session-Id")
		w.cacheHeaders()
	}
	return false, w.read(resp, &c.pos, c, func(a *jsonrpc.Arrival) bool { return c.forward(ctx, a) }, func(m *mcp.Message, bad error) bool { return w.receive(ctx, c, m, bad) })
}

// send POSTs a message with the session's headers.
func (w *legacyHTTP) send(ctx context.Context, out *requestBody) (*http.Response, error) {
	header := w.posts
	if own := w.postHeader.Load(); own != nil {
		header = *own
	}
	return w.endpoint.post(ctx, header, out)
}

// receive handles one message of a call's stream. A response ends the call that it
// names, even if it arrives on another call's stream.
func (w *legacyHTTP) receive(ctx context.Context, c *httpCall, m *mcp.Message, bad error) (more bool) {
	switch {
	case bad != nil && m.ID == c.call.ID():
		c.fail(w.malformed(bad))
		return false
	case bad != nil:
		w.log.WarnContext(ctx, "backend sent an invalid message")
		return true
	case m.Kind == mcp.KindError && m.ID.IsZero():
		c.respond(m)
		return false
	case m.Kind == mcp.KindError && m.ID == c.call.ID() && w.noteSessionError(c, m):
		return false
	case m.Kind == mcp.KindResult || m.Kind == mcp.KindError:
		return w.routeResponse(c, m)
	case concernsSession(m):
		w.session.route(m)
		return true
	default:
		w.session.noteTaskStatus(m) // and passed to the call, because it arrived on its stream
		return c.deliverMessage(ctx, m)
	}
}

// routeResponse ends the call that a response names. It reports false if that is the
// call of the stream.
func (w *legacyHTTP) routeResponse(c *httpCall, m *mcp.Message) (more bool) {
	if m.ID == c.call.ID() {
		c.respond(m)
		return false
	}
	w.respond(&w.calls, m.ID, m)
	return true
}

// noteSessionError reports whether an error may mean that the server does not know the
// session. It stores the error in c.doubt until checkSession has asked the server.
func (w *legacyHTTP) noteSessionError(c *httpCall, m *mcp.Message) bool {
	if w.id == "" {
		return false
	}
	e, err := m.WireError()
	if err != nil || !isSessionError(e) {
		return false
	}
	c.doubt = &sessionCheck{said: e, looked: !isReadMethod(c.call.Method())}
	return true
}

// isSessionError reports whether an error that arrived with status 200 names a lost
// session, as some servers do.
func isSessionError(e *mcp.Error) bool {
	switch e.Code {
	case mcp.CodeInvalidRequest, -32000, -32001, -32015:
		return namesLostSession(e.Message)
	default:
		return false
	}
}

// checkSession ends a call after the server has reported an unknown session. A tool may
// report that of its own sessions, so checkSession asks the server whether it knows
// ours. A call that the server may have executed ends with the server's error.
func (w *legacyHTTP) checkSession(ctx context.Context, c *httpCall) {
	said := c.doubt.said
	switch {
	case !w.isForgotten(ctx):
		c.fail(unwrap(said))
		return
	case c.doubt.looked:
		c.fail(unwrap(said))
	default:
		c.fail(w.goneError(said))
	}
	w.endSession(said)
}

// isForgotten pings the server and reports whether the answer is that it does not know
// the session. Any other outcome counts as no.
func (w *legacyHTTP) isForgotten(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, w.Write)
	defer cancel()
	call, err := w.calls.Open(methodPing)
	if err != nil {
		return false
	}
	defer call.Finish(session.Terminal{})
	resp, err := w.send(ctx, &requestBody{msg: jsonrpc.Pieces{jsonrpc.AppendRequest(nil, call.ID(), methodPing, nil)}})
	if err != nil {
		return false
	}
	defer drain(resp, cancel)
	if !hasMessages(resp) {
		r := w.readRefusal(resp)
		return r.status == http.StatusNotFound || r.mayMeanSession()
	}
	unknown := false
	err = w.read(resp, &cursor{}, nil, neverForward, func(m *mcp.Message, bad error) bool {
		if bad == nil && m.Kind == mcp.KindError {
			e, err := m.WireError()
			unknown = err == nil && isSessionError(e)
		}
		return bad == nil && m.ID != call.ID()
	})
	return err == nil && unknown
}

// goneError returns the error of a request that the server refused because it has
// forgotten the session. No new request uses the session from now on. endSession ends
// its other calls after this one has its error; their outcome is unknown.
func (w *legacyHTTP) goneError(cause error) error {
	w.session.markEnded(w.lost(cause, "it has ended the session"))
	w.session.pending.sessionForgotten()
	return &rejected{why: sessionGone, err: w.unavailable(cause, "it has ended the session")}
}

// endSession ends the session with all its calls. It first waits for the answers of the
// calls that the server may be refusing for the same reason at this moment.
func (w *legacyHTTP) endSession(cause error) {
	w.forgetConnections()
	err := w.lost(unwrap(cause), "it has ended the session")
	w.session.markEnded(err)
	w.session.pending.sessionForgotten()
	lose := func() { w.session.end(err) }
	if !w.session.pending.runWhenSettled(&w.group, lose) {
		lose()
	}
}

// refusal returns the error for an HTTP answer without a message. c is the refused
// call, nil if the message was not a call.
func (w *legacyHTTP) refusal(ctx context.Context, r *refusal, c *httpCall) error {
	err := w.refused(ctx, r)
	switch {
	case w.id != "" && r.status == http.StatusNotFound:
		return w.goneError(err)
	case w.id != "" && c != nil && r.mayMeanSession():
		c.doubt = &sessionCheck{said: err}
		return err
	case r.rpc != nil && isModernOnly(r.rpc.Code):
		return &rejected{why: wrongEra, err: err}
	default:
		return err
	}
}

// endSessionIfGone ends the session if err is that of goneError. It is called after the
// call that received the refusal has its error, which may allow another attempt. The
// other calls are only lost.
func (w *legacyHTTP) endSessionIfGone(err error) {
	if isRejected(err, sessionGone) {
		w.endSession(err)
	}
}

// isModernOnly reports whether only a modern server returns an error of the code.
func isModernOnly(code int64) bool {
	return code == mcp.CodeHeaderMismatch || code == mcp.CodeMissingCapability || code == mcp.CodeUnsupportedVersion
}

// awaitOnListenStream waits for the response to arrive on the listening stream, as long
// as there is one.
func (w *legacyHTTP) awaitOnListenStream(c *httpCall) {
	select {
	case <-c.call.Done():
	case <-c.ctx.Done():
	case <-w.noListen:
		c.fail(w.lost(nil, "it accepted the request and has no stream to answer it on"))
	}
}

// post sends a message that has no answer. If the server answers that it has forgotten
// the session, the session ends for all its users.
func (w *legacyHTTP) post(ctx context.Context, msg []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := w.send(ctx, &requestBody{msg: jsonrpc.Pieces{msg}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		if mediaType(resp) != typeEvents { // a stream may stay open, and is not waited for
			drain(resp, cancel)
		}
		return nil
	}
	err = w.refusal(ctx, w.readRefusal(resp), nil)
	w.endSessionIfGone(err)
	return err
}

func (w *legacyHTTP) setVersion(v mcp.Version) {
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
func (w *legacyHTTP) initialized(ctx context.Context) {
	answered := make(chan struct{})
	// Ends with the session, or when the server has no such stream. Waited for by
	// close.
	_, ok := w.group.start(func(ctx context.Context) { w.listen(ctx, sync.OnceFunc(func() { close(answered) })) })
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

func (w *legacyHTTP) noListenStream() <-chan struct{} { return w.noListen }

// retire does nothing: HTTP sessions are limited when they are opened, not by their
// connections.
func (w *legacyHTTP) retire() {}

// deleteTimeout bounds the DELETE of a session.
const deleteTimeout = 5 * time.Second

func (w *legacyHTTP) close(ctx context.Context) {
	w.calls.End(w.cut())
	w.group.close()
	if w.id == "" {
		return
	}
	// The DELETE is sent even if ctx has ended; it has its own bound.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	resp, err := w.fetch(ctx, http.MethodDelete, w.headers())
	if err != nil {
		return // the server will expire the session
	}
	drain(resp, cancel)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
