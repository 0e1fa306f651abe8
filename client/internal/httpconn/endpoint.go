// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpconn sends messages to one MCP server over HTTP and reads its responses.
//
// An [Endpoint] posts a message and reads the JSON or the SSE that answers it. A
// [Refusal] is a response without a message.
package httpconn

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/http1"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Endpoint sends HTTP requests to one URL of a server. A redirect is a response like
// any other: following it would send the message, and the credentials, to another
// server. The parts that all requests share are made once. A header map must not be
// changed after it was passed to a request, because the transport may read it even
// after the response.
type Endpoint struct {
	*call.Setup
	URL             string
	origin          string        // of URL, or "" if that is not usable
	template        *http.Request // copied for every request
	urlErr          error         // why template is nil
	transport       http.RoundTripper
	refusals        *refusalLog
	CustomTransport bool // the transport is not the gateway's, and might modify the request

	Configured http.Header // sent with every request
	Posts      http.Header // with every message
}

// NewEndpoint returns an endpoint of the URL. If no transport is configured, it has one of
// its own, with connections of its own.
func NewEndpoint(s *call.Setup, url string) *Endpoint {
	e := &Endpoint{Setup: s, transport: s.Transport, CustomTransport: s.Transport != nil, refusals: new(refusalLog)}
	s.SetSecrets(redact.New(s.Header, nil, url))
	if e.transport == nil {
		e.transport = newTransport(s)
	}
	e.setURL(url)
	return e
}

// At returns an endpoint for another URL of the same server.
//
//nolint:contextcheck,nolintlint // as setURL
func (e *Endpoint) At(url string) *Endpoint {
	other := *e
	other.setURL(url)
	return &other
}

// setURL sets what depends on the URL, which may contain credentials.
//
//nolint:contextcheck,nolintlint // the template has no request's context
func (e *Endpoint) setURL(url string) {
	e.URL = url
	e.origin, _ = call.OriginOf(url)
	e.Configured = http.Header{"Accept-Encoding": {"identity"}}
	for k, v := range e.Header {
		e.Configured[http.CanonicalHeaderKey(k)] = v
	}
	e.template, e.urlErr = http.NewRequestWithContext(context.Background(), http.MethodPost, url, nil)
	if e.urlErr == nil && e.template.URL.User != nil && e.Configured.Get("Authorization") == "" {
		password, _ := e.template.URL.User.Password()
		e.template.SetBasicAuth(e.template.URL.User.Username(), password)
		e.Configured["Authorization"] = e.template.Header["Authorization"]
	}
	e.Posts = MergeHeaders(e.Configured, http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/event-stream"},
	})
}

// MergeHeaders returns the headers of both. Those of over take precedence.
func MergeHeaders(under, over http.Header) http.Header {
	all := make(http.Header, len(under)+len(over))
	maps.Copy(all, under)
	maps.Copy(all, over)
	return all
}

// ForgetConnections closes the idle connections, because another server than the
// backend may be at their other end.
func (e *Endpoint) ForgetConnections() {
	if t, ok := e.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Post sends one message, with the credential for the request that it belongs to; if that is
// nil, without one. Its error is a Fault with an outcome, which is whether any of the message
// was sent, or that of Credentials.
func (e *Endpoint) Post(ctx context.Context, about *mcp.Request, header http.Header, out *RequestBody) (*http.Response, error) {
	for access := (access{Endpoint: e, about: about}); ; {
		fields, err := access.addTo(ctx, header)
		if err != nil {
			return nil, err
		}
		req, err := e.request(ctx, http.MethodPost, fields)
		if err != nil {
			return nil, err
		}
		out.setOn(req)
		if isReplayable(req.Header) {
			req.GetBody = nil
		}
		resp, err := e.transport.RoundTrip(req)
		if resp, err = checkResponse(resp, err, &out.answer); err != nil {
			sent := out.Sent.Load() && !errors.Is(err, http1.ErrUnsent)
			return nil, e.failure(ctx, err, isConnError(err), sent)
		}
		if again, err := access.refused(ctx, resp); err != nil {
			return nil, err
		} else if !again {
			return resp, nil
		}
	}
}

// Fetch sends a request without a message. The outcome of its error depends on whether
// there was a connection. For about see Post.
func (e *Endpoint) Fetch(ctx context.Context, about *mcp.Request, method string, header http.Header) (*http.Response, error) {
	for access := (access{Endpoint: e, about: about}); ; {
		fields, err := access.addTo(ctx, header)
		if err != nil {
			return nil, err
		}
		var connected atomic.Bool
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
		req, err := e.request(httptrace.WithClientTrace(ctx, trace), method, fields)
		if err != nil {
			return nil, err
		}
		resp, err := e.transport.RoundTrip(req)
		if resp, err = checkResponse(resp, err, new(answerBody)); err != nil {
			return nil, e.failure(ctx, err, connected.Load(), connected.Load())
		}
		if again, err := access.refused(ctx, resp); err != nil {
			return nil, err
		} else if !again {
			return resp, nil
		}
	}
}

func (e *Endpoint) request(ctx context.Context, method string, header http.Header) (*http.Request, error) {
	if e.urlErr != nil {
		return nil, e.Unavailable(e.urlErr, "its URL is not usable")
	}
	req := e.template.WithContext(ctx)
	req.Method, req.Header = method, header
	if e.CustomTransport {
		req = req.Clone(ctx)
	}
	return req, nil
}

// checkResponse returns what RoundTrip has returned, with the body of the response wrapped
// in body.
func checkResponse(resp *http.Response, err error, body *answerBody) (*http.Response, error) {
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

// errNoAnswer is the error of a transport that breaks its contract.
var errNoAnswer = errors.New("the transport returned no answer and no error")

// isReplayable reports whether net/http may resend a request with these headers on its
// own. The configuration can set them, but must not make a message run twice.
func isReplayable(h http.Header) bool {
	_, one := h["Idempotency-Key"]
	_, other := h["X-Idempotency-Key"]
	return one || other
}

// failure returns the fault for a request without an HTTP response. sent reports
// whether the server may have received the request, connected whether there was a
// connection.
func (e *Endpoint) failure(ctx context.Context, err error, connected, sent bool) *mcp.Fault {
	switch {
	case ctx.Err() != nil && sent:
		return e.GivenUp(ctx, mcp.Unknown)
	case ctx.Err() != nil:
		return e.GivenUp(ctx, mcp.NotDispatched)
	case sent && isHeaderOverflow(err):
		return e.Fault(mcp.CodeLimit, mcp.Unknown, err, "the headers of its answer are too long")
	case sent:
		return e.Lost(err, "the connection broke")
	case connected:
		return e.Unavailable(err, "the connection broke")
	default:
		reason, text := dialReason(err)
		return call.Because(reason, e.Unavailable(err, "%s", text))
	}
}

// Configures reports whether the operator has configured the header with the canonical
// name key.
func (e *Endpoint) Configures(key string) bool {
	_, ok := e.Configured[key]
	return ok
}
