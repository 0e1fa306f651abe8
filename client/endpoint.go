// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/internal/hop"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// endpoint is the URL of a server and the way of speaking HTTP to it. What its
// requests have in common is made once. A map of headers that was given to a request
// is not changed any more: the transport may read it after the answer.
type endpoint struct {
	*setup
	url             string
	template        *http.Request // what all requests begin as
	urlErr          error         // why there is no form
	transport       http.RoundTripper
	customTransport bool // the transport is not ours, and may do with a request what it is not to

	configured http.Header // sent with every request
	posts      http.Header // with every message
}

func newEndpoint(s *setup, url string) *endpoint {
	e := &endpoint{setup: s, transport: s.Transport, customTransport: s.Transport != nil}
	s.secrets = redact.New(s.Header, nil, url)
	if e.transport == nil {
		e.transport = newTransport(s)
	}
	e.setURL(url)
	return e
}

// at returns the endpoint of another URL of the same server.
//
//nolint:contextcheck,nolintlint // as aim
func (e *endpoint) at(url string) *endpoint {
	other := *e
	other.setURL(url)
	return &other
}

// aim makes what depends on the URL, in which there may be credentials.
//
//nolint:contextcheck,nolintlint // a form is in no request's context
func (e *endpoint) setURL(url string) {
	e.url = url
	e.configured = http.Header{"Accept-Encoding": {"identity"}}
	for k, v := range e.Header {
		e.configured[http.CanonicalHeaderKey(k)] = v
	}
	e.template, e.urlErr = http.NewRequestWithContext(context.Background(), http.MethodPost, url, nil)
	if e.urlErr == nil && e.template.URL.User != nil && e.configured.Get("Authorization") == "" {
		password, _ := e.template.URL.User.Password()
		e.template.SetBasicAuth(e.template.URL.User.Username(), password)
		e.configured["Authorization"] = e.template.Header["Authorization"]
	}
	e.posts = mergeHeaders(e.configured, http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/event-stream"},
	})
}

// with returns the headers with others laid over them.
func mergeHeaders(under, over http.Header) http.Header {
	all := make(http.Header, len(under)+len(over))
	maps.Copy(all, under)
	maps.Copy(all, over)
	return all
}

// forgetConnections closes the connections that nobody uses, because what
// stands at their other end is not the backend any more.
func (e *endpoint) forgetConnections() {
	if t, ok := e.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// post sends one message. Its error is a Fault, whose outcome says whether any of the
// message has left.
func (e *endpoint) post(ctx context.Context, header http.Header, out *requestBody) (*http.Response, error) {
	req, err := e.request(ctx, http.MethodPost, header)
	if err != nil {
		return nil, err
	}
	out.setOn(req)
	if isReplayable(req.Header) {
		req.GetBody = nil
	}
	resp, err := e.roundTrip(req, &out.answer)
	for errors.Is(err, hop.ErrUnsent) && ctx.Err() == nil {
		// Each time one connection fewer is kept.
		resp, err = e.roundTrip(out.rebuild(req), &out.answer)
	}
	if err != nil {
		return nil, e.failure(ctx, err, isConnError(err), out.sent.Load())
	}
	return resp, nil
}

// fetch makes a request without a message. The outcome of its error says whether there
// was a connection.
func (e *endpoint) fetch(ctx context.Context, method string, header http.Header) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	req, err := e.request(httptrace.WithClientTrace(ctx, trace), method, header)
	if err != nil {
		return nil, err
	}
	resp, err := e.roundTrip(req, new(answerBody))
	if err != nil {
		return nil, e.failure(ctx, err, connected.Load(), connected.Load())
	}
	return resp, nil
}

func (e *endpoint) request(ctx context.Context, method string, header http.Header) (*http.Request, error) {
	if e.urlErr != nil {
		return nil, e.unavailable(e.urlErr, "its URL is not usable")
	}
	req := e.template.WithContext(ctx)
	req.Method, req.Header = method, header
	if e.customTransport {
		req = req.Clone(ctx)
	}
	return req, nil
}

// roundTrip makes one HTTP request. A redirect is an answer like any other: to follow
// that of a POST would be to give the message, and our credentials, to somebody else.
func (e *endpoint) roundTrip(req *http.Request, body *answerBody) (*http.Response, error) {
	resp, err := e.transport.RoundTrip(req)
	switch {
	case err != nil:
		return nil, err
	case resp == nil || resp.Body == nil:
		return nil, errNoAnswer
	case resp.Body != http.NoBody:
		body.ReadCloser = resp.Body
		resp.Body = body
	}
	return resp, nil
}

// errNoAnswer is the error of a transport that has broken its contract.
var errNoAnswer = errors.New("the transport returned no answer and no error")

// replays reports whether net/http takes a request with these headers for one
// that it may send again by itself. The configuration can set them; that
// a backend executes a message once is not theirs to give up.
func isReplayable(h http.Header) bool {
	_, one := h["Idempotency-Key"]
	_, other := h["X-Idempotency-Key"]
	return one || other
}

// isOfConnection reports whether an error is that of a connection, rather than of
// having none. It is asked where nothing has left, for the words alone.
func isConnError(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "read" || op.Op == "write") || errors.Is(err, io.EOF)
}

// failure says why there was no HTTP answer: left whether the server may have the
// request, connected whether there was a connection, in words.
func (e *endpoint) failure(ctx context.Context, err error, connected, left bool) *mcp.Fault {
	switch {
	case ctx.Err() != nil && left:
		return e.givenUp(ctx, mcp.Unknown)
	case ctx.Err() != nil:
		return e.givenUp(ctx, mcp.NotDispatched)
	case left && isHeaderOverflow(err):
		return e.fault(mcp.CodeLimit, mcp.Unknown, err, "the headers of its answer are too long")
	case left:
		return e.lost(err, "the connection broke")
	case connected:
		return e.unavailable(err, "the connection broke")
	default:
		return e.unavailable(err, "%s", dialReason(err))
	}
}
