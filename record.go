// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/observe"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// deed serves a call, and says which backend it was given to. It is one of Gateway's
// own: bound to one it would be made anew for each call.
type deed func(g *Gateway, ctx context.Context, req *mcp.Request, caller mcp.Caller) (by string, res *mcp.Result, err error)

// recorded serves a call and has it in the audit record when it has ended, however
// it did: "Log tool usage for audit purposes" (2026-07-28, server/tools). One that
// waits for its client's answers ends when it has got them; where the client itself
// calls again with them, each is a call.
func (g *Gateway) recorded(ctx context.Context, req *mcp.Request, caller mcp.Caller, serve deed) (res *mcp.Result, err error) {
	if !g.audit.HasCalls() {
		_, res, err = serve(g, ctx, req, caller)
		return res, err
	}
	var by string
	began := time.Now()
	// Deferred, because a Handler may panic, or end its goroutine.
	defer func() {
		c := observe.Call{Backend: by, Millis: float64(time.Since(began).Microseconds()) / 1000}
		c.Outcome, c.Code, c.Delivery = howEnded(ctx, res, err)
		g.recordCall(ctx, req, c)
	}()
	by, res, err = serve(g, ctx, req, caller)
	return res, err
}

// recordCall says who called, and for what. Of the request, which may be large, only
// that is kept until it is written.
func (g *Gateway) recordCall(ctx context.Context, req *mcp.Request, c observe.Call) {
	e := observe.Entry{Principal: req.Principal}
	if req.Scope != nil {
		e.Session = req.Scope.Key()
	}
	name, _ := req.Params.Text(mcp.FieldName)
	if uri, ok := req.Params.Text(mcp.FieldURI); ok && req.Method == "resources/read" {
		name = withoutSecrets(uri)
	}
	c.Method, c.Name, c.Trace = req.Method, strings.Clone(shorten(name)), traceOf(req)
	client := req.Client
	g.audit.RecordCall(ctx, func() observe.Entry {
		c.Name, c.Client = escapeShort(c.Name), escapeShort(shorten(nameOf(client)))
		e.Call = &c
		return e
	})
}

// howEnded is what the record says of the end of a call. That its context has ended
// counts where no backend has said otherwise, and so does that its client has left, or
// stopped to read, while a result arrived: no backend is to blame for that.
func howEnded(ctx context.Context, res *mcp.Result, err error) (o observe.Outcome, code int64, delivery string) {
	fault, concluded := errors.AsType[*mcp.Fault](err) // before the error that caused it, as in mcp.ToWire
	said, answered := errors.AsType[*mcp.Error](err)
	switch {
	case err == nil && res != nil:
		return howResult(res), 0, ""
	case concluded:
		o, code, delivery = observe.Failed, fault.Code, string(fault.Outcome)
	case answered:
		return observe.Refused, said.Code, ""
	default: // it failed, and nobody knows how far it has got
		o, code, delivery = observe.Failed, mcp.CodeInternalError, string(mcp.Unknown)
	}
	if ctx.Err() != nil || errors.Is(err, mcp.ErrNotTaken) {
		o = observe.Cancelled
	}
	return o, code, delivery
}

func howResult(res *mcp.Result) observe.Outcome {
	failed, _ := res.Bool(mcp.FieldIsError)
	switch kind := res.Type(); {
	case kind == mcp.ResultInputRequired:
		return observe.InputRequired
	case kind == mcp.ResultTask:
		return observe.TaskBegun
	case failed:
		return observe.ToolError
	default:
		return observe.OK
	}
}

// nameOf is what a client calls itself. That is told and never relied upon.
func nameOf(client *mcp.Peer) string {
	var info struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if client == nil || json.Unmarshal(client.Info, &info) != nil {
		return ""
	}
	return strings.TrimSpace(info.Name + " " + info.Version)
}

// traceOf returns the id of the trace that a request belongs to, or "" where it does
// not say one as W3C Trace Context has it (2026-07-28, basic, "_meta").
func traceOf(req *mcp.Request) string {
	const begin, end, whole = len("00-"), len("00-0af7651916cd43dd8448eb211c80319c"), len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	for name, value := range mcp.Members(req.Params.Raw(mcp.FieldMeta)) {
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

// withoutSecrets returns a URI without those of its parts in which credentials and
// arguments stand: who it is fetched as, its query and its fragment.
func withoutSecrets(uri string) string {
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

// escapeShort returns a text from outside as a member of the record holds it.
func escapeShort(text string) string {
	quoted := quoteShort(text)
	return strings.TrimSuffix(quoted[1:], `"`)
}
