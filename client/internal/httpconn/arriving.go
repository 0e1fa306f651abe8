// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ForwardFunc forwards the rest of a response to the caller while it arrives. It
// reports false if the response must be read as a whole.
type ForwardFunc func(a *jsonrpc.Arrival) bool

// NeverForward is the ForwardFunc for responses of requests that no caller made.
func NeverForward(*jsonrpc.Arrival) bool { return false }

// bufferUpTo is the message limit up to which responses are buffered instead of
// forwarded. So much memory is acceptable, and a response that is too long then fails
// with an error instead of being cut.
const bufferUpTo = 1 << 20

// readJSON reads a whole document within the limits before it parses any of it, unless
// the document is forwarded. It does not trust the declared length.
func (e *Endpoint) readJSON(resp *http.Response, bound frame.Bound, pass ForwardFunc, take MessageFunc) error {
	data, passed, err := e.readOrForward(resp, bound, pass)
	switch {
	case passed:
		return nil
	case call.IsTooLong(err):
		return e.TooLong(nil)
	case err != nil:
		return e.Lost(err, "the connection broke during its answer")
	case len(bytes.TrimSpace(data)) == 0:
		return nil
	}
	if _, err = e.takeText(data, take); err != nil {
		return e.Lost(err, "its answer is not JSON")
	}
	return nil
}

// readOrForward returns the whole document, or reports that it was forwarded. A
// document that declares a small length is read directly.
func (e *Endpoint) readOrForward(resp *http.Response, bound frame.Bound, pass ForwardFunc) (data []byte, passed bool, err error) {
	if n := resp.ContentLength; n > 0 && n <= min(smallDocument, int64(e.MaxMessage)) {
		data = make([]byte, n+1) // one byte more, to read the end, so that the connection is free
		k, err := io.ReadFull(resp.Body, data)
		if errors.Is(err, io.ErrUnexpectedEOF) && int64(k) == n {
			err = nil
		}
		return data[:k], false, err
	}
	body := &meteredReader{Reader: resp.Body}
	a := jsonrpc.NewArrival(body, resp.ContentLength, call.BackendLimits(), e.MaxMessage)
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

// Forward offers the call's result to its caller while it arrives, and ends the call
// when the caller has all of it or never will. The owner's close does not wait for the
// caller, which may be the one that closes the client.
func (c *Call) Forward(ctx context.Context, a *jsonrpc.Arrival) bool {
	f := &c.outbound
	if !f.CanForward(a, c.Call.ID()) {
		return false
	}
	c.Due.Received() // the rest may take its time
	res := jsonrpc.NewArriving(a, f.Version, c.cancel)
	c.leave()
	taken, err := f.Caller.Extension().Receive(ctx, res)
	c.entered = c.owner.Enter()
	switch {
	case !taken:
		return false
	case err == nil:
		c.answered = c.Call.Respond(session.Terminal{Result: res.Result()})
	case ctx.Err() == nil: // otherwise outbound.Run gives the call up
		c.Fail(c.ForwardError(ctx, err))
	}
	return true
}

// WholeResultCaller is a caller that receives results as a whole, because something
// must be sent before them.
type WholeResultCaller struct {
	mcp.Caller
	mcp.CallerExtension // of Caller
}

// Extension returns the caller itself, which changes Receive.
func (c *WholeResultCaller) Extension() mcp.CallerExtension { return c }

// Receive reports false.
func (c *WholeResultCaller) Receive(context.Context, mcp.StreamedResult) (taken bool, err error) {
	return false, nil
}
