// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// forwardFunc forwards the rest of a response to the caller while it arrives. It
// reports false if the response must be read as a whole.
type forwardFunc func(a *jsonrpc.Arrival) bool

// neverForward is the forwardFunc for responses of requests that no caller made.
func neverForward(*jsonrpc.Arrival) bool { return false }

// bufferUpTo is the message limit up to which responses are buffered instead of
// forwarded. So much memory is acceptable, and a response that is too long then fails
// with an error instead of being cut.
const bufferUpTo = 1 << 20

// readJSON reads a whole document within the limits before it parses any of it, unless
// the document is forwarded. It does not trust the declared length.
func (e *endpoint) readJSON(resp *http.Response, bound frame.Bound, pass forwardFunc, take messageFunc) error {
	data, passed, err := e.readOrForward(resp, bound, pass)
	switch {
	case passed:
		return nil
	case isTooLong(err):
		return e.tooLong(nil)
	case err != nil:
		return e.lost(err, "the connection broke during its answer")
	case len(bytes.TrimSpace(data)) == 0:
		return nil
	}
	if _, err = e.takeText(data, take); err != nil {
		return e.lost(err, "its answer is not JSON")
	}
	return nil
}

// readOrForward returns the whole document, or reports that it was forwarded. A
// document that declares a small length is read directly.
func (e *endpoint) readOrForward(resp *http.Response, bound frame.Bound, pass forwardFunc) (data []byte, passed bool, err error) {
	if n := resp.ContentLength; n > 0 && n <= min(smallDocument, int64(e.MaxMessage)) {
		data = make([]byte, n+1) // one byte more, to read the end, so that the connection is free
		k, err := io.ReadFull(resp.Body, data)
		if errors.Is(err, io.ErrUnexpectedEOF) && int64(k) == n {
			err = nil
		}
		return data[:k], false, err
	}
	body := &meteredReader{Reader: resp.Body}
	a := jsonrpc.NewArrival(body, resp.ContentLength, backendLimits(), e.MaxMessage)
	data, err = a.Begin()
	if err != nil || data != nil {
		return data, false, err
	}
	if e.MaxMessage > bufferUpTo && resp.ContentLength <= int64(e.MaxMessage) && pass(a) {
		return nil, true, nil
	}
	if n := int(min(resp.ContentLength, int64(e.MaxMessage))); n > 0 && bound != nil {
		if err := bound.Room(n, nil); err != nil {
			return nil, false, err
		}
		body.most = n // a longer one fails before more is held
	}
	body.bound = bound
	data, err = a.Gather()
	return data, false, err
}

// smallDocument is at most the window of a forwarded result.
const smallDocument = 63 << 10

func isTooLong(err error) bool {
	pe, ok := errors.AsType[*mcp.ParseError](err)
	return ok && pe.Exceeded == mcp.LimitBytes
}

// forward offers the call's result to its caller while it arrives, and ends the call
// when the caller has all of it or never will. The owner's close does not wait for the
// caller, which may be the one that closes the client.
func (c *httpCall) forward(ctx context.Context, a *jsonrpc.Arrival) bool {
	f := &c.outbound
	if !f.canForward(a, c.call.ID()) {
		return false
	}
	c.due.received() // the rest may take its time
	res := jsonrpc.NewArriving(a, f.version, c.cancel)
	c.leave()
	taken, err := f.caller.Extension().Receive(ctx, res)
	c.entered = c.owner.enter()
	switch {
	case !taken:
		return false
	case err == nil:
		c.answered = c.call.Respond(session.Terminal{Result: res.Result()})
	case ctx.Err() == nil: // otherwise outbound.run gives the call up
		c.fail(c.forwardError(ctx, err))
	}
	return true
}

// canForward reports whether a response to the request with the id may be forwarded
// while it arrives.
func (f *outboundCall) canForward(a *jsonrpc.Arrival, id mcp.ID) bool {
	return f.forwardable && a.ID() == id && a.Head() != nil && a.Head().Type() == mcp.ResultComplete
}

// forwardError returns the error of a call if its result was cut while it was
// forwarded. Its client has a part of it and gets no other result.
func (s *setup) forwardError(ctx context.Context, err error) error {
	cause := errors.Join(errNoRetry, err)
	if errors.Is(err, jsonrpc.ErrNotTaken) {
		return s.fault(mcp.CodeBackendFailed, mcp.Completed, cause, "its answer was cut, because the client did not take it")
	}
	f := s.arrivalError(err, cause)
	s.log.WarnContext(ctx, "backend's response broke off while it was forwarded, and the client's response was cut off; look at the backend's own log",
		slog.String("reason", f.Message), slog.Any("cause", err))
	return f
}

// arrivalError returns the fault for a result that did not arrive completely.
func (s *setup) arrivalError(err, cause error) *mcp.Fault {
	_, isWrong := errors.AsType[*mcp.ParseError](err)
	switch {
	case isTooLong(err):
		return s.tooLong(cause)
	case isWrong:
		return s.fault(mcp.CodeBackendFailed, mcp.Unknown, cause, "its answer breaks the protocol: %v", err)
	default:
		return s.lost(cause, "the connection broke during its answer")
	}
}

// isForwardable reports whether a request's result may be forwarded while it arrives. A
// request for a task returns a task, which the gateway must read.
func isForwardable(req *mcp.Request) bool {
	return canAsk(req.Method) && !req.Params.Has(mcp.FieldTask)
}

// wholeResultCaller is a caller that receives results as a whole, because something
// must be sent before them.
type wholeResultCaller struct {
	mcp.Caller
	mcp.CallerExtension // of Caller
}

// Extension returns the caller itself, which changes Receive.
func (c *wholeResultCaller) Extension() mcp.CallerExtension { return c }

// Receive reports false.
func (c *wholeResultCaller) Receive(context.Context, mcp.StreamedResult) (taken bool, err error) {
	return false, nil
}
