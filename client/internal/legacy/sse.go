// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/client/internal/stdio"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// SSEDialer opens legacy sessions over HTTP with SSE.
type SSEDialer struct{ *httpconn.Endpoint }

// Dial returns an open connection.
func (d SSEDialer) Dial(ctx context.Context, of *mcp.Request, _ stdio.Purpose) (Conn, error) {
	w, err := d.open(ctx, of)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// HandshakeFailed makes the next session use new connections.
func (d SSEDialer) HandshakeFailed(Conn) (keep bool) {
	d.ForgetConnections()
	return false
}

// SSEFallback returns nil: the connection uses HTTP with SSE.
func (d SSEDialer) SSEFallback(context.Context, Conn) Conn { return nil }

// IsModern reports false: this transport is not probed.
func (d SSEDialer) IsModern(Conn) bool { return false }

// SharesStream reports true: the connection has one stream.
func (d SSEDialer) SharesStream() bool { return true }

// endpointTimeout bounds the wait for the endpoint event, which must be the first event
// of the stream.
const endpointTimeout = 10 * time.Second

// open opens a connection on behalf of the sender of a request, and reads its endpoint event.
func (d SSEDialer) open(ctx context.Context, of *mcp.Request) (*sseConn, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	late := time.AfterFunc(endpointTimeout, cancel)
	stop := context.AfterFunc(ctx, cancel)
	w, err := d.openStream(life, of, cancel)
	stop()
	if !late.Stop() && ctx.Err() == nil {
		err = d.Unavailable(nil, "its stream did not begin with an endpoint event in time")
	}
	switch {
	case err != nil:
		cancel()
		return nil, err
	case ctx.Err() != nil:
		cancel()
		return nil, d.GivenUp(ctx, mcp.NotDispatched)
	}
	return w, nil
}

func (d SSEDialer) openStream(ctx context.Context, of *mcp.Request, cancel context.CancelFunc) (*sseConn, error) {
	resp, err := d.Fetch(ctx, d.OnBehalfOf(of, call.MethodListen), http.MethodGet, httpconn.MergeHeaders(d.Configured, http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-store"}}))
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*sseConn, error) {
		resp.Body.Close()
		return nil, err
	}
	switch {
	case resp.StatusCode/100 != 2:
		return fail(d.Refused(ctx, d.ReadRefusal(resp)))
	case httpconn.MediaType(resp) != httpconn.TypeEvents:
		return fail(d.Unavailable(errNoStream, "it answered with %s instead of a stream of events", httpconn.TypeOrNone(httpconn.MediaType(resp))))
	}
	events := frame.NewEventReader(resp.Body, d.MaxMessage)
	first, err := events.Next()
	if err != nil {
		return fail(d.Unavailable(err, "its stream ended before the endpoint event"))
	}
	to, err := d.resolveEndpoint(&first)
	if err != nil {
		return fail(err)
	}
	return &sseConn{httpSession: newHTTPSession(d.At(to)), resp: resp, events: events, hangUp: cancel}, nil
}

// resolveEndpoint returns the URL for messages from the first event of a stream.
// Messages carry the configured credentials, so the URL must have the origin of the
// server, as with redirects.
func (d SSEDialer) resolveEndpoint(first *frame.Event) (string, error) {
	if first.Name != "endpoint" {
		return "", d.Unavailable(nil, "its stream does not begin with an endpoint event")
	}
	base, err := url.Parse(d.URL)
	if err != nil {
		return "", d.Unavailable(err, "its URL is not usable")
	}
	to, err := base.Parse(string(first.Data))
	if err != nil {
		return "", d.Unavailable(err, "its endpoint event is not a valid URI")
	}
	own, _ := call.OriginOf(d.URL) // without an origin it is that of no endpoint
	if origin, err := call.OriginOf(to.String()); err != nil || origin != own || to.User != nil {
		return "", d.Unavailable(nil, "its endpoint event names another origin (%.100q); messages are sent to the configured origin only", to.Scheme+"://"+to.Host)
	}
	to.User = base.User
	return to.String(), nil
}

// sseConn is the connection of one legacy session over HTTP with SSE: messages are
// POSTed, and all messages of the server arrive on the stream that was opened first
// (2024-11-05, basic/transports, "HTTP with SSE"). The session ends with the stream.
type sseConn struct {
	httpSession
	served call.ClientsServed
	resp   *http.Response
	events *frame.EventReader
	hangUp context.CancelFunc

	version atomic.Pointer[mcp.Version] // nil before the handshake's answer
}

func (w *sseConn) attach(s *clientSession) {
	w.session = s
	// Ends with the stream; waited for by close.
	_, ok := w.group.Start(func(ctx context.Context) {
		defer context.AfterFunc(ctx, w.hangUp)()
		w.readStream(ctx)
	})
	if !ok {
		w.hangUp()
	}
}

// readStream reads messages until the stream ends, and ends the session.
func (w *sseConn) readStream(ctx context.Context) {
	defer w.hangUp()
	defer w.resp.Body.Close()
	w.events.Bound(call.NewSharedBound(ctx, &w.calls, &w.served))
	err := w.readAll(ctx)
	if ctx.Err() != nil {
		return // closed by this side
	}
	if err == nil {
		err = w.Lost(nil, "it closed the connection")
	}
	w.session.end(err)
}

// readAll reads messages to the end of the stream. An answer that does not fit into
// memory ends its call, and no other.
func (w *sseConn) readAll(ctx context.Context) error {
	pos := httpconn.Cursor{Retry: -1}
	for {
		err := w.TakeEvents(w.events, &pos, w.receive)
		no, ok := errors.AsType[*frame.NoRoomError](err)
		if !ok {
			return err
		}
		w.Drop(ctx, &w.calls, no)
	}
}

// receive handles one message of the stream. A malformed answer ends its call. Any
// other invalid message is dropped, because no caller waits for it.
func (w *sseConn) receive(m *mcp.Message, bad error) (more bool) {
	switch {
	case bad == nil:
		w.session.route(m)
	case !m.ID.IsZero():
		w.calls.Respond(m.ID, session.Terminal{Err: w.Malformed(bad)})
	}
	return true
}

// roundTrip POSTs a request in the background and waits for its terminal. It does not
// wait for the answer to the POST, because some servers send it only after the
// response.
func (w *sseConn) roundTrip(ctx context.Context, f call.Call, msg jsonrpc.Pieces) (*mcp.Result, error) {
	f.Call.Hold()
	f.Call.SetRequest(f.Req)
	out := &httpconn.RequestBody{Msg: msg, Call: f.Call, Times: timesOf(f.Req)}
	// Ends with the answer to the POST, or soon after the call; waited for by close.
	cancel, ok := w.group.Start(func(ctx context.Context) { w.doPost(ctx, w.session.about(&f), out) })
	if !ok {
		f.Call.Finish(session.Terminal{Err: w.Closed()})
	}
	defer w.cancelPostSoon(out, cancel)
	return f.Run(ctx)
}

// cancelPostSoon ends the POST of a call that is over.
func (w *sseConn) cancelPostSoon(out *httpconn.RequestBody, cancel context.CancelFunc) {
	if !out.Sent.Load() {
		cancel()
		return
	}
	// The response may arrive before the answer to the POST. Cancelling the POST in
	// that moment would break the connection, which may carry the next message by then.
	time.AfterFunc(w.Write, cancel)
}

// doPost POSTs a request.
func (w *sseConn) doPost(ctx context.Context, about *mcp.Request, out *httpconn.RequestBody) {
	err := w.send(ctx, about, out)
	if err == nil {
		return // the response arrives on the stream
	}
	// First the call's own error, which may allow another attempt.
	out.Call.Finish(session.Terminal{Err: err})
	w.endSessionIfGone(err)
}

func (w *sseConn) send(ctx context.Context, about *mcp.Request, out *httpconn.RequestBody) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	header := w.Posts
	if v := w.version.Load(); v != nil && *v >= mcp.V20250618 {
		header = httpconn.MergeHeaders(header, http.Header{"Mcp-Protocol-Version": {string(*v)}}) // not required here, but some servers expect it
	}
	resp, err := w.Post(ctx, about, header, out) //nolint:bodyclose // Drain closes it
	if err != nil {
		return err
	}
	defer httpconn.Drain(resp, cancel)
	if resp.StatusCode/100 == 2 {
		return nil
	}
	r := w.ReadRefusal(resp)
	err = w.Refused(ctx, r)
	if r.Status == http.StatusNotFound || r.MayMeanSession() {
		return w.goneError(err)
	}
	return err
}

// noteClient records the client for this session's stream.
func (w *sseConn) noteClient(req *mcp.Request) { w.served.Note(req) }

func (w *sseConn) post(ctx context.Context, msg []byte) error {
	err := w.send(ctx, w.session.own(""), &httpconn.RequestBody{Msg: jsonrpc.Pieces{msg}})
	w.endSessionIfGone(err)
	return err
}

func (w *sseConn) setVersion(v mcp.Version) { w.version.Store(&v) }

func (w *sseConn) close(context.Context) {
	w.calls.End(w.Cut())
	w.group.Close()
	w.hangUp()
}
