// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// NewSSE returns a client of the server at the URL, over HTTP with SSE, the transport
// of 2024-11-05 that later revisions deprecate. The server is not probed, because only
// the legacy era has that transport. NewHTTP also finds such servers, by their answers.
func NewSSE(url string, cfg Config) *Client {
	s := newSetup(cfg)
	if s.Version == "" {
		s.Version = mcp.LatestLegacy
	}
	return newClient(s, &sseLink{endpoint: newEndpoint(s, url)})
}

// sseLink reaches a server that is configured to use HTTP with SSE.
type sseLink struct{ *endpoint }

func (l *sseLink) detect(context.Context) (protocol, error) {
	return newLegacy(l.setup, sseDialer{l.endpoint}, l.Version), nil
}

func (l *sseLink) stop() { l.forgetConnections() }

// sseDialer opens legacy sessions over HTTP with SSE.
type sseDialer struct{ *endpoint }

func (d sseDialer) dial(ctx context.Context, _ slotPurpose) (legacyWire, error) {
	w, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (d sseDialer) failed(legacyWire) (keep bool) {
	d.forgetConnections()
	return false
}

func (d sseDialer) sseFallback(context.Context, legacyWire) legacyWire { return nil }

// isModern: this transport is not probed.
func (d sseDialer) isModern(legacyWire) bool { return false }

// sharesStream: the connection has one stream.
func (d sseDialer) sharesStream() bool { return true }

// endpointTimeout bounds the wait for the endpoint event, which must be the first event
// of the stream.
const endpointTimeout = 10 * time.Second

// open opens a connection and reads its endpoint event.
func (d sseDialer) open(ctx context.Context) (*legacySSE, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	late := time.AfterFunc(endpointTimeout, cancel)
	stop := context.AfterFunc(ctx, cancel)
	w, err := d.openStream(life, cancel)
	stop()
	if !late.Stop() && ctx.Err() == nil {
		err = d.unavailable(nil, "its stream did not begin with an endpoint event in time")
	}
	switch {
	case err != nil:
		cancel()
		return nil, err
	case ctx.Err() != nil:
		cancel()
		return nil, d.givenUp(ctx, mcp.NotDispatched)
	}
	return w, nil
}

func (d sseDialer) openStream(ctx context.Context, cancel context.CancelFunc) (*legacySSE, error) {
	resp, err := d.fetch(ctx, http.MethodGet, mergeHeaders(d.configured, http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-store"}}))
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*legacySSE, error) {
		resp.Body.Close()
		return nil, err
	}
	switch {
	case resp.StatusCode/100 != 2:
		return fail(d.refused(ctx, d.readRefusal(resp)))
	case mediaType(resp) != typeEvents:
		return fail(d.unavailable(errNoStream, "it answered with %s instead of a stream of events", typeOrNone(mediaType(resp))))
	}
	events := frame.NewEventReader(resp.Body, d.MaxMessage)
	first, err := events.Next()
	if err != nil {
		return fail(d.unavailable(err, "its stream ended before the endpoint event"))
	}
	to, err := d.resolveEndpoint(&first)
	if err != nil {
		return fail(err)
	}
	return &legacySSE{endpoint: d.at(to), calls: session.Calls{Numbers: newNumbers()}, resp: resp, events: events, hangUp: cancel}, nil
}

// resolveEndpoint returns the URL for messages from the first event of a stream.
// Messages carry the configured credentials, so the URL must have the origin of the
// server, as with redirects.
func (d sseDialer) resolveEndpoint(first *frame.Event) (string, error) {
	if first.Name != "endpoint" {
		return "", d.unavailable(nil, "its stream does not begin with an endpoint event")
	}
	base, err := url.Parse(d.url)
	if err != nil {
		return "", d.unavailable(err, "its URL is not usable")
	}
	to, err := base.Parse(string(first.Data))
	switch {
	case err != nil:
		return "", d.unavailable(err, "its endpoint event is not a valid URI")
	case to.Scheme != base.Scheme || !sameHost(to, base) || to.User != nil:
		return "", d.unavailable(nil, "its endpoint event names another origin (%.100q); messages are sent to the configured origin only", to.Scheme+"://"+to.Host)
	}
	to.User = base.User
	return to.String(), nil
}

// sameHost compares hosts as an origin does: ignoring case, and with default ports.
func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// legacySSE is the connection of one legacy session over HTTP with SSE: messages are
// POSTed, and all messages of the server arrive on the stream that was opened first
// (2024-11-05, basic/transports, "HTTP with SSE"). The session ends with the stream.
type legacySSE struct {
	*endpoint // for POSTs
	calls     session.Calls
	served    clientsServed
	group     goroutines
	session   *legacySession

	resp   *http.Response
	events *frame.EventReader
	hangUp context.CancelFunc

	version atomic.Pointer[mcp.Version] // nil before the handshake's answer
}

func (w *legacySSE) callTable() *session.Calls { return &w.calls }

func (w *legacySSE) attach(s *legacySession) {
	w.session = s
	// Ends with the stream; waited for by close.
	_, ok := w.group.start(func(ctx context.Context) {
		defer context.AfterFunc(ctx, w.hangUp)()
		w.readStream(ctx)
	})
	if !ok {
		w.hangUp()
	}
}

// readStream reads messages until the stream ends, and ends the session.
func (w *legacySSE) readStream(ctx context.Context) {
	defer w.hangUp()
	defer w.resp.Body.Close()
	w.events.Bound(newSharedBound(ctx, &w.calls, &w.served))
	err := w.readAll(ctx)
	if ctx.Err() != nil {
		return // closed by this side
	}
	if err == nil {
		err = w.lost(nil, "it closed the connection")
	}
	w.session.end(err)
}

// readAll reads messages to the end of the stream. An answer that does not fit into
// memory ends its call, and no other.
func (w *legacySSE) readAll(ctx context.Context) error {
	pos := cursor{retry: -1}
	for {
		err := w.takeEvents(w.events, &pos, w.receive)
		no, ok := errors.AsType[*frame.NoRoomError](err)
		if !ok {
			return err
		}
		w.drop(ctx, &w.calls, no)
	}
}

// receive handles one message of the stream. A malformed answer ends its call. Any
// other invalid message is dropped, because no caller waits for it.
func (w *legacySSE) receive(m *mcp.Message, bad error) (more bool) {
	switch {
	case bad == nil:
		w.session.route(m)
	case !m.ID.IsZero():
		w.calls.Respond(m.ID, session.Terminal{Err: w.malformed(bad)})
	}
	return true
}

// roundTrip POSTs a request in the background and waits for its terminal. It does not
// wait for the answer to the POST, because some servers send it only after the
// response.
func (w *legacySSE) roundTrip(ctx context.Context, f outboundCall, msg jsonrpc.Pieces) (*mcp.Result, error) {
	f.call.Hold()
	f.call.SetRequest(f.req)
	out := &requestBody{msg: msg, call: f.call}
	// Ends with the answer to the POST, or soon after the call; waited for by close.
	cancel, ok := w.group.start(func(ctx context.Context) { w.doPost(ctx, out) })
	if !ok {
		f.call.Finish(session.Terminal{Err: w.closed()})
	}
	defer w.cancelPostSoon(out, cancel)
	return f.run(ctx)
}

// cancelPostSoon ends the POST of a call that is over.
func (w *legacySSE) cancelPostSoon(out *requestBody, cancel context.CancelFunc) {
	if !out.sent.Load() {
		cancel()
		return
	}
	// The response may arrive before the answer to the POST. Cancelling the POST in
	// that moment would break the connection, which may carry the next message by then.
	time.AfterFunc(w.Write, cancel)
}

// doPost POSTs a request.
func (w *legacySSE) doPost(ctx context.Context, out *requestBody) {
	err := w.send(ctx, out)
	if err == nil {
		return // the response arrives on the stream
	}
	// First the call's own error, which may allow another attempt.
	out.call.Finish(session.Terminal{Err: err})
	if isRejected(err, sessionGone) {
		w.session.end(w.lost(unwrap(err), "it has ended the session"))
	}
}

func (w *legacySSE) send(ctx context.Context, out *requestBody) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	header := w.posts
	if v := w.version.Load(); v != nil && *v >= mcp.V20250618 {
		header = mergeHeaders(header, http.Header{"Mcp-Protocol-Version": {string(*v)}}) // not required here, but some servers expect it
	}
	resp, err := w.endpoint.post(ctx, header, out)
	if err != nil {
		return err
	}
	defer drain(resp, cancel)
	if resp.StatusCode/100 == 2 {
		return nil
	}
	r := w.readRefusal(resp)
	err = w.refused(ctx, r)
	if r.status == http.StatusNotFound || r.mayMeanSession() {
		w.session.markEnded(w.lost(unwrap(err), "it has ended the session"))
		return &rejected{why: sessionGone, err: w.unavailable(unwrap(err), "it has ended the session")}
	}
	return err
}

// noteClient records the client for this session's stream.
func (w *legacySSE) noteClient(req *mcp.Request) { w.served.note(req) }

func (w *legacySSE) post(ctx context.Context, msg []byte) error {
	err := w.send(ctx, &requestBody{msg: jsonrpc.Pieces{msg}})
	if isRejected(err, sessionGone) {
		w.session.end(w.lost(unwrap(err), "it has ended the session"))
	}
	return err
}

func (w *legacySSE) setVersion(v mcp.Version) { w.version.Store(&v) }

func (w *legacySSE) initialized(context.Context) {}

// noListenStream returns nil: the stream ends with the session.
func (w *legacySSE) noListenStream() <-chan struct{} { return nil }

func (w *legacySSE) retire() {}

func (w *legacySSE) close(context.Context) {
	w.calls.End(w.cut())
	w.group.close()
	w.hangUp()
}

// mayBeSSE reports whether a server that has refused initialize with the status may
// have HTTP with SSE. Opening its stream shows that (2025-11-25, basic/transports,
// "Backwards Compatibility").
func mayBeSSE(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}
