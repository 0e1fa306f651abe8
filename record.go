// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/audit"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// serveFunc serves a call, and returns the name of the backend that it was sent to. It
// is a method expression of Gateway, because a method value would be allocated for each
// call.
type serveFunc func(g *Gateway, ctx context.Context, req *mcp.Request, caller mcp.Caller) (by string, res *mcp.Result, err error)

// serveRecorded serves a call and writes it to the audit record after it has ended,
// however it ended: "Log tool usage for audit purposes" (2026-07-28, server/tools). A
// call that waits for answers of its client ends after it has received them; if the
// client calls again with the answers, each is a call.
func (g *Gateway) serveRecorded(ctx context.Context, req *mcp.Request, caller mcp.Caller, serve serveFunc) (res *mcp.Result, err error) {
	if !g.audit.HasCalls() {
		_, res, err = serve(g, ctx, req, caller)
		return res, err
	}
	var by string
	began := time.Now()
	// Deferred, because a Handler may panic or call runtime.Goexit.
	defer func() {
		c := audit.Call{Backend: by, Millis: float64(time.Since(began).Microseconds()) / 1000}
		c.Outcome, c.Code, c.Delivery = callOutcome(ctx, res, err)
		g.recordCall(ctx, req, c)
	}()
	by, res, err = serve(g, ctx, req, caller)
	return res, err
}

// recordCall writes the record of a call. It retains no more of the request, which may
// be large, than the record contains.
func (g *Gateway) recordCall(ctx context.Context, req *mcp.Request, c audit.Call) {
	e := audit.Entry{Principal: req.Principal}
	if req.Scope != nil {
		e.Session = req.Scope.Key()
	}
	name, _ := req.Params.Text(mcp.FieldName)
	if uri, ok := req.Params.Text(mcp.FieldURI); ok && req.Method == "resources/read" {
		name = stripURI(uri)
	}
	c.Method, c.Name, c.Trace = req.Method, strings.Clone(shorten(name)), traceID(req)
	client := req.Client
	g.audit.RecordCall(ctx, func() audit.Entry {
		c.Name, c.Client = escapeName(c.Name), escapeName(shorten(clientName(client)))
		e.Call = &c
		return e
	})
}

// callOutcome returns how a call ended, for the record. The end of ctx counts only if
// no backend has answered, as does a client that disconnects or stops reading while a
// result arrives: no backend is the cause of these.
func callOutcome(ctx context.Context, res *mcp.Result, err error) (o audit.Outcome, code int64, delivery string) {
	fault, concluded := errors.AsType[*mcp.Fault](err) // before the error that caused it, as in mcp.ToWire
	rpcErr, answered := errors.AsType[*mcp.Error](err)
	switch {
	case err == nil && res != nil:
		return resultOutcome(res), 0, ""
	case concluded:
		o, code, delivery = audit.Failed, fault.Code, string(fault.Outcome)
	case answered:
		return audit.Refused, rpcErr.Code, ""
	default: // it failed, and how far it got is unknown
		o, code, delivery = audit.Failed, mcp.CodeInternalError, string(mcp.Unknown)
	}
	if ctx.Err() != nil || errors.Is(err, jsonrpc.ErrNotTaken) {
		o = audit.Cancelled
	}
	return o, code, delivery
}

func resultOutcome(res *mcp.Result) audit.Outcome {
	failed, _ := res.Bool(mcp.FieldIsError)
	switch kind := res.Type(); {
	case kind == mcp.ResultInputRequired:
		return audit.InputRequired
	case kind == mcp.ResultTask:
		return audit.TaskBegun
	case failed:
		return audit.ToolError
	default:
		return audit.OK
	}
}

// clientName returns the name that a client declares. It is shown and never relied
// upon.
func clientName(client *mcp.Peer) string {
	var info struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if client == nil || json.Unmarshal(client.Info, &info) != nil {
		return ""
	}
	return strings.TrimSpace(info.Name + " " + info.Version)
}

// traceID returns the id of the trace that a request belongs to, or "" if it has no
// valid W3C Trace Context (2026-07-28, basic, "_meta").
func traceID(req *mcp.Request) string {
	const begin, end, whole = len("00-"), len("00-0af7651916cd43dd8448eb211c80319c"), len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	for name, value := range jsonscan.Members(req.Params.Raw(mcp.FieldMeta)) {
		var text string
		if name != "traceparent" || json.Unmarshal(value, &text) != nil || len(text) < whole || text[end] != '-' {
			continue
		}
		if id := text[begin:end]; strings.Trim(id, "0123456789abcdef") == "" {
			return strings.Clone(id)
		}
	}
	return ""
}

// stripURI removes the parts of a URI that may contain credentials and arguments: the
// userinfo, the query and the fragment.
func stripURI(uri string) string {
	if i := strings.IndexAny(uri, "?#"); i >= 0 {
		uri = uri[:i]
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	authority, path, below := strings.Cut(rest, "/")
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if below {
		path = "/" + path
	}
	return scheme + "://" + authority + path
}

// escapeName quotes and shortens a text received from outside, without the quotes.
func escapeName(text string) string {
	quoted := quoteName(text)
	return strings.TrimSuffix(quoted[1:], `"`)
}
