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
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// NewSSE returns a client of the server at the URL, over HTTP with SSE, the transport
// of 2024-11-05 that later revisions deprecate. The server is not probed: only the
// legacy era has that transport. NewHTTP finds such servers, too, by what they answer.
func NewSSE(url string, cfg Config) *Client {
	s := newSetup(cfg)
	if s.Version == "" {
		s.Version = mcp.LatestLegacy
	}
	return newClient(s, &sseLink{endpoint: newEndpoint(s, url)})
}

// sseLink reaches a server of which the configuration says that it has the sseFallback
// transport.
type sseLink struct{ *endpoint }

func (l *sseLink) detect(context.Context) (protocol, error) {
	return newLegacy(l.setup, sseDialer{l.endpoint}, l.Version), nil
}

func (l *sseLink) stop() { l.forgetConnections() }

// sseDialer opens legacy sessions over HTTP with SSE.
type sseDialer struct{ *endpoint }

func (d sseDialer) dial(ctx context.Context, _ slotPurpose) (legacyWire, error) {
	w, err := d.openSSE(ctx)
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

// mistaken: nothing is probed over it.
func (d sseDialer) isModern(legacyWire) bool { return false }

// sharesStream: all that the server says comes on the one stream of the connection.
func (d sseDialer) sharesStream() bool { return true }

// endpointTime is how long a server that has opened the stream may take to say where
// messages go, which is the first thing that it has to say.
const endpointTime = 10 * time.Second

// openSSE opens a connection and learns where its messages go.
func (e *endpoint) openSSE(ctx context.Context) (*legacySSE, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	late := time.AfterFunc(endpointTime, cancel)
	stop := context.AfterFunc(ctx, cancel)
	w, err := e.openStream(life, cancel)
	stop()
	if !late.Stop() && ctx.Err() == nil {
		err = e.unavailable(nil, "its stream did not begin with an endpoint in time")
	}
	switch {
	case err != nil:
		cancel()
		return nil, err
	case ctx.Err() != nil:
		cancel()
		return nil, e.givenUp(ctx, mcp.NotDispatched)
	}
	return w, nil
}

func (e *endpoint) openStream(ctx context.Context, cancel context.CancelFunc) (*legacySSE, error) {
	resp, err := e.fetch(ctx, http.MethodGet, mergeHeaders(e.configured, http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-store"}}))
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*legacySSE, error) {
		resp.Body.Close()
		return nil, err
	}
	switch {
	case resp.StatusCode/100 != 2:
		return fail(e.refused(ctx, e.readRefusal(resp)))
	case mediaType(resp) != typeEvents:
		return fail(e.unavailable(errNoStream, "it answered with %s instead of a stream of events", typeOrNone(mediaType(resp))))
	}
	events := frame.NewEventReader(resp.Body, e.MaxMessage)
	first, err := events.Next()
	if err != nil {
		return fail(e.unavailable(err, "its stream ended before it said where messages go"))
	}
	to, err := e.announced(&first)
	if err != nil {
		return fail(err)
	}
	return &legacySSE{endpoint: e.at(to), calls: session.Calls{Numbers: newNumbers()}, resp: resp, events: events, hangUp: cancel}, nil
}

// announced returns where messages go by the first event of a stream. What is sent
// there has our credentials in it, and is for the server that they were configured for:
// another origin than its own is refused, as a redirect is.
func (e *endpoint) announced(first *frame.Event) (string, error) {
	if first.Name != "endpoint" {
		return "", e.unavailable(nil, "its stream does not begin with an endpoint")
	}
	base, err := url.Parse(e.url)
	if err != nil {
		return "", e.unavailable(err, "its URL is not usable")
	}
	to, err := base.Parse(string(first.Data))
	switch {
	case err != nil:
		return "", e.unavailable(err, "it said that messages go to what is no URI")
	case to.Scheme != base.Scheme || !sameHost(to, base) || to.User != nil:
		return "", e.unavailable(nil, "it said that messages go to another origin (%.100q), which they do not", to.Scheme+"://"+to.Host)
	}
	to.User = base.User
	return to.String(), nil
}

// sameHost compares hosts as an origin does: without regard to case, and with the port
// that a scheme has by default.
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

// legacySSE carries one legacy session over HTTP with SSE: messages are POSTed, and
// everything that the server says comes on the stream that was opened first
// (2024-11-05, basic/transports, "HTTP with SSE"). The stream is the connection: its end
// is that of the session.
type legacySSE struct {
	*endpoint // where messages are POSTed
	calls     session.Calls
	served    clientsServed
	tasks     goroutines
	s         *legacySession

	resp   *http.Response
	events *frame.EventReader
	hangUp context.CancelFunc

	version atomic.Pointer[mcp.Version] // once it is agreed on
}

func (w *legacySSE) table() *session.Calls { return &w.calls }

func (w *legacySSE) attach(s *legacySession) {
	w.s = s
	// Ends with the stream; waited for by close.
	_, ok := w.tasks.start(func(ctx context.Context) {
		defer context.AfterFunc(ctx, w.hangUp)()
		w.follow(ctx)
	})
	if !ok {
		w.hangUp()
	}
}

// follow takes what comes until the stream ends, and the session with it.
func (w *legacySSE) follow(ctx context.Context) {
	defer w.hangUp()
	defer w.resp.Body.Close()
	w.events.Bound(newSharedBound(ctx, &w.calls, &w.served))
	err := w.takeAll(ctx)
	if ctx.Err() != nil {
		return // we have ended it
	}
	if err == nil {
		err = w.lost(nil, "it closed the connection")
	}
	w.s.lose(err)
}

// takeAll takes messages to the end of the stream. An answer for which there is no room
// costs its call, and no other.
func (w *legacySSE) takeAll(ctx context.Context) error {
	pos := cursor{retry: -1}
	for {
		err := w.takeEvents(w.events, &pos, w.takeAny)
		no, ok := errors.AsType[*frame.NoRoomError](err)
		if !ok {
			return err
		}
		w.drop(ctx, &w.calls, no)
	}
}

// takeAny hands on one message of the stream. A broken answer ends its call; anything
// else that is no message belongs to nobody who could be told.
func (w *legacySSE) takeAny(m *mcp.Message, bad error) (more bool) {
	switch {
	case bad == nil:
		w.s.route(m)
	case !m.ID.IsZero():
		w.calls.Respond(m.ID, session.Terminal{Err: w.malformed(bad)})
	}
	return true
}

// carry POSTs a request in the background. There are servers that answer a POST when
// they have answered what is in it, so that nobody waits for it.
func (w *legacySSE) carry(ctx context.Context, f outboundCall, msg mcp.Pieces) (*mcp.Result, error) {
	f.call.Hold()
	f.call.SetRequest(f.req)
	out := &requestBody{msg: msg, call: f.call}
	// Ends with the answer to the POST, or soon after the call; waited for by close.
	cancel, ok := w.tasks.start(func(ctx context.Context) { w.request(ctx, out) })
	if !ok {
		f.call.Finish(session.Terminal{Err: w.closed()})
	}
	defer w.leaveSoon(out, cancel)
	return f.run(ctx)
}

// leaveSoon ends the POST of a call that is over.
func (w *legacySSE) leaveSoon(out *requestBody, cancel context.CancelFunc) {
	if !out.sent.Load() {
		cancel()
		return
	}
	// The answer may come before that of the POST. To break that off just as it comes
	// is to break the connection, on which the next message may be by then.
	time.AfterFunc(w.Write, cancel)
}

// request POSTs a request.
func (w *legacySSE) request(ctx context.Context, out *requestBody) {
	err := w.send(ctx, out)
	if err == nil {
		return // the answer comes on the stream
	}
	// The call's own error first: it may be that it can be made again.
	out.call.Finish(session.Terminal{Err: err})
	if isRejected(err, sessionGone) {
		w.s.lose(w.lost(unwrap(err), "it has ended the session"))
	}
}

func (w *legacySSE) send(ctx context.Context, out *requestBody) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	header := w.posts
	if v := w.version.Load(); v != nil && *v >= mcp.V20250618 {
		header = mergeHeaders(header, http.Header{"Mcp-Protocol-Version": {string(*v)}}) // which nobody asks for here, and some expect
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
		w.s.markGone(w.lost(unwrap(err), "it has ended the session"))
		return &rejected{why: sessionGone, err: w.unavailable(unwrap(err), "it has ended the session")}
	}
	return err
}

// serves: the stream is this session's alone.
func (w *legacySSE) serves(req *mcp.Request) { w.served.note(req) }

func (w *legacySSE) post(ctx context.Context, msg []byte) error {
	err := w.send(ctx, &requestBody{msg: mcp.Pieces{msg}})
	if isRejected(err, sessionGone) {
		w.s.lose(w.lost(unwrap(err), "it has ended the session"))
	}
	return err
}

func (w *legacySSE) ready(v mcp.Version) { w.version.Store(&v) }

func (w *legacySSE) opened(context.Context) {}

// noListenReason: the stream tells until it ends, and its end is the session's.
func (w *legacySSE) noListenStream() <-chan struct{} { return nil }

func (w *legacySSE) leave() {}

func (w *legacySSE) close(context.Context) {
	w.calls.End(w.cut())
	w.tasks.close()
	w.hangUp()
}

// mayBeOlder reports whether a server that has refused to shake hands like this may
// have the sseFallback transport, which is found out by asking for its stream (2025-11-25,
// basic/transports, "Backwards Compatibility").
func mayBeOlder(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}
