// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxOuter is how many calls may be within one another.
const maxOuter = 4

// inner serves a request that a call of a client makes in turn. It is the only way from such a call to
// what the gateway offers. It has the sender, the session and the profile of the outer request, so that
// it finds what the sender finds, and it is admitted, limited, recorded and asked about like a request
// of the sender. by is the outer call.
func (g *Gateway) inner(ctx context.Context, outer *mcp.Request, by mcp.OuterCall, method string, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	if len(outer.Outer) == maxOuter {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: calls are within one another %d times, which is the limit", method, maxOuter)
	}
	req := &mcp.Request{
		Method: method, Params: *params,
		Client: outer.Client, LogLevel: outer.LogLevel, Principal: outer.Principal, Identity: outer.Identity,
		Profile: outer.Profile, Scope: outer.Scope, Memory: outer.Memory,
		Outer:    append(slices.Clip(outer.Outer), by),
		Timeline: new(mcp.Timeline),
		// No TakesInputRequired: questions are put to the caller, which belongs to the outer request.
	}
	req.Timeline.Begin(time.Now())
	return g.Serve(ctx, req, caller)
}

// unknownInnerError is the error of a request within a call for an item that its sender does not have. Nothing was
// sent to a backend.
type unknownInnerError struct{ error }

// Unwrap returns the error that a client gets for such an item.
func (e *unknownInnerError) Unwrap() error { return e.error }

// asInner returns the error about an unknown item, for the caller of inner to recognize if the request is within
// a call. The error that a server is away stays as it is.
func asInner(req *mcp.Request, err error) error {
	if _, isAway := errors.AsType[*mcp.Fault](err); isAway || req.Outer == nil {
		return err
	}
	return &unknownInnerError{err}
}
