// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/audit"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/recorder"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxOuter is how many calls may be within one another.
const maxOuter = 4

// inner serves a request that a call of a client makes in turn. It is the only way from such a call to
// what the gateway offers. It has the sender, the session and the profile of the outer request, so that
// it finds what the sender finds, and it is admitted, limited, recorded and asked about like a request
// of the sender. by is the outer call.
func (g *Gateway) inner(ctx context.Context, outer *mcp.Request, by *outerCall, method string, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	if len(outer.Outer) == maxOuter {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: calls are within one another %d times, which is the limit", method, maxOuter)
	}
	req := &mcp.Request{
		Method: method, Params: *params,
		Client: outer.Client, LogLevel: outer.LogLevel, Principal: outer.Principal, Identity: outer.Identity,
		Profile: outer.Profile, Scope: outer.Scope, Memory: outer.Memory,
		Outer:    append(slices.Clip(outer.Outer), by.OuterCall),
		Timeline: new(mcp.Timeline),
		// No TakesInputRequired: questions are put to the caller, which belongs to the outer request.
	}
	req.Timeline.Begin(time.Now())
	res, err := g.Serve(ctx, req, caller)
	if id := req.Timeline.ID(); id != 0 { // it is a call, and was recorded
		c, ok := g.recorder.Find(id)
		if !ok {
			o, _, delivery := callOutcome(ctx, res, err)
			c.Outcome, c.Delivery = string(o), mcp.Outcome(delivery)
		}
		by.add(&c)
	}
	return res, err
}

// outerCall is a call that makes others. Its methods may be called concurrently.
type outerCall struct {
	mcp.OuterCall

	mu    sync.Mutex
	calls int
	worst recorder.Call
}

// add adds a call that it has made.
func (o *outerCall) add(c *recorder.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls == 0 || isWorse(c, &o.worst) {
		o.worst = *c
	}
	o.calls++
}

// record puts what is known of the calls into the record of the outer one.
func (o *outerCall) record(c *recorder.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.Inner, c.InnerOutcome, c.InnerDelivery = o.calls, o.worst.Outcome, o.worst.Delivery
}

// isWorse reports whether one call ended worse than another: a call that has failed is worse than one that has not,
// and of two that have failed, the one that is less known or has come further.
func isWorse(a, b *recorder.Call) bool {
	rank := func(c *recorder.Call) int {
		n := slices.Index(recorder.Outcomes(), c.Outcome)
		if !isFailed(audit.Outcome(c.Outcome)) {
			return n
		}
		return n + 10*(1+slices.Index([]mcp.Outcome{mcp.NotDispatched, mcp.Completed, mcp.Unknown}, cmp.Or(c.Delivery, mcp.Completed)))
	}
	return rank(a) > rank(b)
}

// unknownInnerError is the error of a request within a call for an item that its sender does not have. Nothing was
// sent to a backend.
type unknownInnerError struct{ error }

// Unwrap returns the error that a client gets for such an item.
func (e *unknownInnerError) Unwrap() error { return e.error }

// isReadOnly reports whether a request is within a call that calls only tools with readOnlyHint.
func isReadOnly(req *mcp.Request) bool {
	n := len(req.Outer)
	return n > 0 && req.Outer[n-1].Name == catalog.CallToolReadOnly
}

// notReadOnlyError is the error of such a request for another tool. Nothing was sent to a backend.
type notReadOnlyError struct{ error }

// Unwrap returns the error with its code.
func (e *notReadOnlyError) Unwrap() error { return e.error }

// asInner returns the error about an unknown item, for the caller of inner to recognize if the request is within
// a call. The error that a server is away stays as it is.
func asInner(req *mcp.Request, err error) error {
	if _, isAway := errors.AsType[*mcp.Fault](err); isAway || req.Outer == nil {
		return err
	}
	return &unknownInnerError{err}
}
