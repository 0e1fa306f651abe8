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

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// httpDialer opens legacy sessions over Streamable HTTP, and over the transport that was
// before it where the server has no other.
type httpDialer struct {
	*endpoint
	isOlder atomic.Bool // the server has shown that it has the older one
}

func (d *httpDialer) dial(ctx context.Context, n slotPurpose) (legacyWire, error) {
	if !d.isOlder.Load() {
		return newLegacyHTTP(d.endpoint), nil
	}
	w, err := sseDialer{d.endpoint}.dial(ctx, n)
	if f, ok := unwrap(err).(*mcp.Fault); err != nil && (!ok || !isUnreachable(f)) { //nolint:errorlint // only what is a Fault itself
		d.isOlder.Store(false) // it may have become another
		return newLegacyHTTP(d.endpoint), nil
	}
	return w, err
}

func (d *httpDialer) failed(legacyWire) (keep bool) {
	d.isOlder.Store(false)
	d.forgetConnections()
	return false
}

// sseFallback asks a server for the sseFallback transport that has refused an initialize in one of
// the ways of a server which has no other. Only a stream that begins as one of that
// transport does is an answer.
func (d *httpDialer) sseFallback(ctx context.Context, wire legacyWire) legacyWire {
	w, ok := wire.(*legacyHTTP)
	if !ok || !mayBeOlder(w.refusedWith) {
		return nil
	}
	old, err := d.openSSE(ctx)
	if err != nil {
		d.log.DebugContext(ctx, "backend has no older transport", slog.Any("cause", err))
		return nil
	}
	d.isOlder.Store(true)
	return old
}

// mistaken: over HTTP the probe has been answered before there is a handshake.
func (d *httpDialer) isModern(legacyWire) bool { return false }

// sharesStream: each call has a stream of its own.
func (d *httpDialer) sharesStream() bool { return d.isOlder.Load() }

// legacyHTTP carries one legacy session over Streamable HTTP
// (2025-11-25, basic/transports).
type legacyHTTP struct {
	*endpoint
	calls    session.Calls
	tasks    goroutines
	s        *legacySession
	noListen chan struct{} // closed when there is no listening stream, or none any more

	// Set by the handshake, before the session is given to anybody.
	id          string
	version     mcp.Version
	refusedWith int                         // HTTP status; 0 where it was not
	posts       atomic.Pointer[http.Header] // of the messages of the session; nil before it has an id or a version
}

func newLegacyHTTP(e *endpoint) *legacyHTTP {
	return &legacyHTTP{endpoint: e, calls: session.Calls{Numbers: newNumbers()}, noListen: make(chan struct{})}
}

func (w *legacyHTTP) table() *session.Calls { return &w.calls }

func (w *legacyHTTP) attach(s *legacySession) { w.s = s }

// headers are those of every request of the session. The handshake itself has
// none of them.
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

// fixHeaders makes the headers of messages, which need not be made for each of them.
func (w *legacyHTTP) fixHeaders() {
	posts := mergeHeaders(w.endpoint.posts, w.headers())
	w.posts.Store(&posts)
}

func (w *legacyHTTP) carry(ctx context.Context, f outboundCall, msg mcp.Pieces) (*mcp.Result, error) {
	c := newHTTPCall(w.endpoint, f, &w.tasks, msg)
	return c.do(ctx, func() { w.follow(ctx, c) })
}

// serves: what an HTTP server says that is not for a client it says to nobody here.
func (w *legacyHTTP) serves(*mcp.Request) {}

// follow POSTs a request and follows its stream, over reconnects, to the response. ctx
// is the caller's; the httpCall's life ends with it, and with the call.
//
//nolint:contextcheck,nolintlint // that life is no other context than ctx, but for how it ends
func (w *legacyHTTP) follow(ctx context.Context, c *httpCall) {
	c.due = w.s.due.await()
	defer c.due.heard()
	accepted, err := w.carryPost(ctx, c)
	// A doubt comes before the stream's own error, because it explains it; and what
	// can be resumed comes before any error, because then nothing is lost yet.
	switch {
	case c.call.IsOver() || c.life.Err() != nil:
		return
	case c.doubt != nil:
		w.resolve(&c.life, c)
	case accepted:
		w.awaitElsewhere(c)
	case c.pos.lastID != "":
		w.resume(ctx, c)
	case err != nil:
		c.fail(err)
		c.due.heard() // this was one
		w.noteIfGone(err)
	default:
		c.fail(w.lost(nil, "its answer ended without a response"))
	}
}

// carryPost reads the POST's own answer. accepted means that the server has the
// request and will answer on another stream.
//
//nolint:contextcheck,nolintlint // as in follow
func (w *legacyHTTP) carryPost(ctx context.Context, c *httpCall) (accepted bool, err error) {
	resp, err := w.send(&c.life, &c.out)
	if err != nil {
		return false, err
	}
	defer c.release(resp)
	if resp.StatusCode == http.StatusAccepted {
		c.due.heard()
		return true, nil
	}
	if !hasMessages(resp) {
		if c.call.Method() == methodInitialize {
			w.refusedWith = resp.StatusCode
		}
		return false, w.refusal(&c.life, w.readRefusal(resp), c)
	}
	if mediaType(resp) == typeEvents {
		c.due.heard() // and may take its time from here on
	}
	// Before the body is read: with the answer the handshake goes on, and its next
	// message has to name the session.
	if c.call.Method() == methodInitialize {
		w.id = resp.Header.Get("Mcp-Session-Id")
		w.fixHeaders()
	}
	return false, w.read(resp, &c.pos, c, func(a *mcp.Arrival) bool { return c.forward(ctx, a) }, func(m *mcp.Message, bad error) bool { return w.take(ctx, c, m, bad) })
}

// send POSTs a message with the session's headers.
func (w *legacyHTTP) send(ctx context.Context, out *requestBody) (*http.Response, error) {
	header := w.endpoint.posts
	if own := w.posts.Load(); own != nil {
		header = *own
	}
	return w.endpoint.post(ctx, header, out)
}

// take hands on one message of a call's stream. A response ends the call that it
// names, whichever stream brings it.
func (w *legacyHTTP) take(ctx context.Context, c *httpCall, m *mcp.Message, bad error) (more bool) {
	switch {
	case bad != nil && m.ID == c.call.ID():
		c.fail(w.malformed(bad))
		return false
	case bad != nil:
		w.log.WarnContext(ctx, "backend sent a message that is none")
		return true
	case m.Kind == mcp.KindError && m.ID.IsZero():
		c.respond(m)
		return false
	case m.Kind == mcp.KindError && m.ID == c.call.ID() && w.doubts(c, m):
		return false
	case m.Kind == mcp.KindResult || m.Kind == mcp.KindError:
		return w.answer(c, m)
	case concernsSession(m):
		w.s.route(m)
		return true
	default:
		w.s.noteTask(m) // the call is told as well: the server has put it there
		return c.deliverMessage(ctx, m)
	}
}

// answer ends the call that a response names, and reports false where that is the
// stream's own.
func (w *legacyHTTP) answer(c *httpCall, m *mcp.Message) (more bool) {
	if m.ID == c.call.ID() {
		c.respond(m)
		return false
	}
	w.respond(&w.calls, m.ID, m)
	return true
}

// doubts reports whether an error may mean that the server does not know the
// session, and keeps it until that has been found out.
func (w *legacyHTTP) doubts(c *httpCall, m *mcp.Message) bool {
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

// isSessionError reports whether an error that came with status 200 says that the
// session is unknown, which some servers do.
func isSessionError(e *mcp.Error) bool {
	switch e.Code {
	case mcp.CodeInvalidRequest, -32000, -32001, -32015:
		return namesLostSession(e.Message)
	default:
		return false
	}
}

// resolve ends a call whose server said that it knows no such session. A tool may
// say so of sessions of its own, so that the server is asked whether it knows
// ours. A call that it may have executed ends with what it said.
func (w *legacyHTTP) resolve(ctx context.Context, c *httpCall) {
	said := c.doubt.said
	switch {
	case !w.forgotten(ctx):
		c.fail(unwrap(said))
		return
	case c.doubt.looked:
		c.fail(unwrap(said))
	default:
		c.fail(w.gone(said))
	}
	w.noteGone(said)
}

// forgotten asks the server whether it knows the session. Only that it does not
// is an answer.
func (w *legacyHTTP) forgotten(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, w.Write)
	defer cancel()
	call, err := w.calls.Open(methodPing)
	if err != nil {
		return false
	}
	defer call.Finish(session.Terminal{})
	resp, err := w.send(ctx, &requestBody{msg: mcp.Pieces{mcp.AppendRequest(nil, call.ID(), methodPing, nil)}})
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

// gone is the error of a request that the server refused because it has forgotten
// the session. Nobody uses the session from now on; its other calls are ended by
// noteGone, after this one has its error, because nobody knows what became of
// them.
func (w *legacyHTTP) gone(cause error) error {
	w.s.markGone(w.lost(cause, "it has ended the session"))
	w.s.due.forget()
	return &rejected{why: sessionGone, err: w.unavailable(cause, "it has ended the session")}
}

// noteGone ends the session with all its calls, but not before those of which the
// server may be saying the same at this moment.
func (w *legacyHTTP) noteGone(cause error) {
	w.forgetConnections()
	err := w.lost(unwrap(cause), "it has ended the session")
	w.s.markGone(err)
	w.s.due.forget()
	lose := func() { w.s.lose(err) }
	if !w.s.due.thenIn(&w.tasks, lose) {
		lose()
	}
}

// refusal says what an HTTP answer without a message means in a session. c is the
// httpCall of the call that was refused, nil where it was none.
func (w *legacyHTTP) refusal(ctx context.Context, r *refusal, c *httpCall) error {
	err := w.refused(ctx, r)
	switch {
	case w.id != "" && r.status == http.StatusNotFound:
		return w.gone(err)
	case w.id != "" && c != nil && r.mayMeanSession():
		c.doubt = &sessionCheck{said: err}
		return err
	case r.rpc != nil && isModernOnly(r.rpc.Code):
		return &rejected{why: wrongEra, err: err}
	default:
		return err
	}
}

// noteIfGone comes after the call that found out has its own error, which may be that
// it can be made again; the others only lose their session.
func (w *legacyHTTP) noteIfGone(err error) {
	if isRejected(err, sessionGone) {
		w.noteGone(err)
	}
}

// isModernOnly reports whether only a modern server gives an error of the code.
func isModernOnly(code int64) bool {
	return code == mcp.CodeHeaderMismatch || code == mcp.CodeMissingCapability || code == mcp.CodeUnsupportedVersion
}

// awaitElsewhere waits for the response to come on the listening stream, for as
// long as there is one.
func (w *legacyHTTP) awaitElsewhere(c *httpCall) {
	select {
	case <-c.call.Done():
	case <-c.life.Done():
	case <-w.noListen:
		c.fail(w.lost(nil, "it took the request and has no stream to answer it on"))
	}
}

// post sends a message that has no answer. A server that has forgotten the session
// says so here too, and then the session is over for all.
func (w *legacyHTTP) post(ctx context.Context, msg []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := w.send(ctx, &requestBody{msg: mcp.Pieces{msg}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		if mediaType(resp) != typeEvents { // which may stay open, and nobody waits for
			drain(resp, cancel)
		}
		return nil
	}
	err = w.refusal(ctx, w.readRefusal(resp), nil)
	w.noteIfGone(err)
	return err
}

func (w *legacyHTTP) ready(v mcp.Version) {
	w.version = v
	w.fixHeaders()
}

// listenGrace is how long a session waits for its listening stream before it is
// used without. It is longer than most ways to a server and back, and what a
// client waits at most once per session where the server never answers.
const listenGrace = 500 * time.Millisecond

// opened opens the listening stream in the background, and waits for a while for
// the answer to that: what a server asks or says before it has the stream, many
// of them drop. The stream is optional, and so is the answer.
func (w *legacyHTTP) opened(ctx context.Context) {
	answered := make(chan struct{})
	// Ends with the session, or when the server has no such stream; waited for by
	// close.
	_, ok := w.tasks.start(func(ctx context.Context) { w.listen(ctx, sync.OnceFunc(func() { close(answered) })) })
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

// leave: an HTTP session is bounded where it is opened, not where it is carried.
func (w *legacyHTTP) leave() {}

// endTime bounds the goodbye to a server.
const endTime = 5 * time.Second

func (w *legacyHTTP) close(ctx context.Context) {
	w.calls.End(w.cut())
	w.tasks.close()
	if w.id == "" {
		return
	}
	// The goodbye is sent whatever became of the context that the session was
	// ended by; it has its own bound.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	resp, err := w.fetch(ctx, http.MethodDelete, w.headers())
	if err != nil {
		return // the server will find out by itself
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
