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
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// forwardFunc gives the rest of an answer, of which the beginning is there, to the caller
// while it arrives. It reports false where that has to be read as a whole.
type forwardFunc func(a *mcp.Arrival) bool

// passNothing is the passer of what is no call's own answer.
func neverForward(*mcp.Arrival) bool { return false }

// gatherUpTo is the largest bound of a message up to which none is passed on: so little
// can be held, and one that is too long is told of by an error instead of a cut.
const bufferUpTo = 1 << 20

// readJSON reads a document within the bound before it parses any of it, unless it is
// passed on while it arrives: a length that a server claims is not believed.
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
		return e.lost(err, "its answer is no JSON")
	}
	return nil
}

// readOrPass returns the whole document, or reports that it was passed on. One that says
// that it is small is read without more ado.
func (e *endpoint) readOrForward(resp *http.Response, bound frame.Bound, pass forwardFunc) (data []byte, passed bool, err error) {
	if n := resp.ContentLength; n > 0 && n <= min(smallDocument, int64(e.MaxMessage)) {
		data = make([]byte, n+1) // the end is read behind it, so that the connection is free
		k, err := io.ReadFull(resp.Body, data)
		if errors.Is(err, io.ErrUnexpectedEOF) && int64(k) == n {
			err = nil
		}
		return data[:k], false, err
	}
	body := &meteredReader{Reader: resp.Body}
	a := mcp.NewArrival(body, resp.ContentLength, backendLimits(), e.MaxMessage)
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
		body.most = n // of one that is longer no more is held
	}
	body.bound = bound
	data, err = a.Gather()
	return data, false, err
}

// smallDocument is what is no more than the window of a result that is passed on.
const smallDocument = 63 << 10

func isTooLong(err error) bool {
	pe, ok := errors.AsType[*mcp.ParseError](err)
	return ok && pe.Exceeded == mcp.LimitBytes
}

// pass offers the call's result to its caller while it arrives, and ends the call when
// that has it, or never will. What is waited for is the caller's then, which may close
// the client.
func (c *httpCall) forward(ctx context.Context, a *mcp.Arrival) bool {
	f := &c.outbound
	if !f.forwardable || a.ID() != c.call.ID() || a.Result() == nil || a.Result().Type() != mcp.ResultComplete {
		return false
	}
	c.due.heard() // and may take its time from here on
	res := mcp.NewArriving(a, f.version, c.cancel)
	c.leave()
	taken, err := mcp.Receive(ctx, f.caller, res)
	c.entered = c.owner.enter()
	switch {
	case !taken:
		return false
	case err == nil:
		c.answered = c.call.Respond(session.Terminal{Result: res.Result()})
	case ctx.Err() == nil: // else whoever waits for the call gives it up
		c.fail(c.forwardError(ctx, err))
	}
	return true
}

// brokenOff is the error of a call whose result was cut while it was passed on. Its
// client has seen a part, and never gets another.
func (c *httpCall) forwardError(ctx context.Context, err error) error {
	cause := errors.Join(errNoRetry, err)
	if errors.Is(err, mcp.ErrNotTaken) {
		return c.fault(mcp.CodeBackendFailed, mcp.Completed, cause, "its answer was cut, because the client did not take it")
	}
	f := c.arrivalError(err, cause)
	c.log.WarnContext(ctx, "backend's answer broke off while it was passed on, and its client was cut off; look at the backend's own log",
		slog.String("reason", f.Message), slog.Any("cause", err))
	return f
}

// wrongWith says what is wrong with a result that did not arrive as a whole.
func (c *httpCall) arrivalError(err, cause error) *mcp.Fault {
	_, isWrong := errors.AsType[*mcp.ParseError](err)
	switch {
	case isTooLong(err):
		return c.tooLong(cause)
	case isWrong:
		return c.fault(mcp.CodeBackendFailed, mcp.Unknown, cause, "its answer breaks the protocol: %v", err)
	default:
		return c.lost(cause, "the connection broke during its answer")
	}
}

// passes reports whether a request's result may be passed on while it arrives, as far as
// we are concerned: what is asked as a task is answered with one, which is ours to read.
func isForwardable(req *mcp.Request) bool {
	return canAsk(req.Method) && !req.Params.Has(mcp.FieldTask)
}

// wholeResultCaller is a caller who gets results as a whole, because whoever makes the call has to
// say something before them.
type wholeResultCaller struct{ mcp.Caller }

// Start puts a question, without waiting where the caller need not.
func (s wholeResultCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return mcp.Start(ctx, s.Caller, req)
}

// Pulse passes a sign of life on.
func (s wholeResultCaller) Pulse() { mcp.Pulse(s.Caller) }
