// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/audit"
	codes "github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/glob"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/recorder"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// auditCall writes a call to the audit record: "Log tool usage for audit purposes"
// (2026-07-28, server/tools). It retains no more of the request, which may be large, than
// the record contains.
func (g *Gateway) auditCall(ctx context.Context, req *mcp.Request, done *recorder.Call, why *servedBy) {
	e := audit.Entry{Principal: req.Principal, Session: sessionOf(req), Via: viaOf(req.Identity), Decision: why.decision, Rule: why.rule, Answer: why.answer, As: why.as}
	c := audit.Call{
		ID: done.ID.String(), Parent: done.Parent.String(), Method: req.Method, Name: strings.Clone(shorten(done.Name)), Said: strings.Clone(shorten(why.said)), Backend: done.Backend,
		Outcome: audit.Outcome(done.Outcome), Code: done.Code, Delivery: string(done.Delivery), Millis: millis(done.Ended), Named: why.named,
		Inner: done.Inner, InnerOutcome: audit.Outcome(done.InnerOutcome), InnerDelivery: string(done.InnerDelivery),
	}
	c.Trace, _ = traceOf(req)
	if why.passed {
		c.Method, c.Name, c.Passed = c.Name, "", unread
	}
	client := req.Client
	g.audit.RecordCall(ctx, func() audit.Entry {
		c.Name, c.Said, c.Method = escapeName(c.Name), escapeName(c.Said), escapeName(c.Method)
		if client != nil {
			c.Client = escapeName(shorten(clientName(client.Info)))
		}
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
	_, denied := errors.AsType[*mcp.Denied](err)
	switch {
	case err == nil && res != nil:
		return resultOutcome(res), 0, ""
	case concluded && (fault.Reason == codes.PolicyDenied || fault.Reason == codes.FilterRefused || fault.Reason == codes.AppName):
		return audit.Refused, fault.Code, string(fault.Outcome)
	case concluded:
		o, code, delivery = audit.Failed, fault.Code, string(fault.Outcome)
	case denied:
		return audit.Refused, rpcErr.Code, string(mcp.NotDispatched)
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
func clientName(info []byte) string {
	return strings.TrimSpace(infoMember(info, "name") + " " + infoMember(info, "version"))
}

// traceOf returns the id of the trace that a request belongs to and that of the client's
// span, or "" if it has no valid W3C Trace Context (2026-07-28, basic, "_meta").
func traceOf(req *mcp.Request) (trace, span string) {
	const begin, end, whole = len("00-"), len("00-0af7651916cd43dd8448eb211c80319c"), len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	isHex := func(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }
	for name, value := range jsonscan.Members(req.Params.Raw(mcp.FieldMeta)) {
		var text string
		if name != "traceparent" || json.Unmarshal(value, &text) != nil || len(text) < whole || text[end] != '-' {
			continue
		}
		if trace = text[begin:end]; !isHex(trace) {
			continue
		}
		if span = text[end+1 : whole-len("-01")]; !isHex(span) {
			span = ""
		}
		return strings.Clone(trace), strings.Clone(span)
	}
	return "", ""
}

// stripURI removes the parts of a URI that may contain credentials and arguments: the
// userinfo, the query and the fragment.
func stripURI(uri string) string {
	if !strings.ContainsAny(uri, "@?#") {
		return uri // nearly all
	}
	if i := strings.IndexAny(uri, "?#"); i >= 0 {
		uri = uri[:i]
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	authority, path, below := strings.Cut(rest, "/")
	authority = withoutUserinfo(authority)
	if below && extension.IsName(uri) { // the authority may be that of a backend's own URI, after a label
		first, rest, more := strings.Cut(path, "/")
		if path = withoutUserinfo(first); more {
			path += "/" + rest
		}
	}
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

// hiddenItem is the event of a request for an item that is not offered to its caller.
// The caller receives the same answer as for an item that does not exist.
const hiddenItem server.EventKind = "hidden_item"

// eventKinds returns all kinds of events that are counted. A test compares them with
// those of package server.
func eventKinds() []server.EventKind {
	return []server.EventKind{
		server.ForeignHost, server.ForeignOrigin, server.Unauthenticated, server.QueryToken, server.ForeignProfile, server.ForeignSession,
		server.UnknownSession, server.ForeignState, server.UnknownState, server.UnknownEventID, server.Limited, server.Stray, server.IdleCancel, hiddenItem, foreignTask,
		signInBegun, signInDone, signInFailed, grantEnded, issuerChanged, foreignSignIn, foreignProxy,
		policyDenied, policyDryRun, policyFailed, policyAsked, stepUp,
	}
}

// isAudited reports whether an event indicates an attack, or changes or refuses what a
// principal may do. The other kinds also happen to well-behaved clients: sessions expire
// while clients sleep, and limits are reached.
func isAudited(kind server.EventKind) bool {
	switch kind {
	case server.ForeignHost, server.ForeignOrigin, server.Unauthenticated, server.QueryToken,
		server.ForeignProfile, server.ForeignSession, server.ForeignState, server.UnknownEventID, hiddenItem, foreignTask,
		signInBegun, signInDone, signInFailed, grantEnded, issuerChanged, foreignSignIn, foreignProxy, policyDenied, policyDryRun, policyAsked, stepUp:
		return true
	default:
		return false
	}
}

// noteEvent counts an event, and records it if it concerns security. It does not block.
// For two kinds that the client cannot distinguish it takes the same time, so that the
// duration of a refusal does not reveal the kind.
func (g *Gateway) noteEvent(ctx context.Context, e server.Event) {
	g.metrics.Event(ctx, string(e.Kind))
	switch {
	case slices.Contains([]server.EventKind{server.ForeignSession, server.UnknownSession, server.ForeignState, server.UnknownState}, e.Kind):
		g.audit.Consider(ctx, func() (audit.Entry, bool) { return entryOf(&e), isAudited(e.Kind) })
	case isAudited(e.Kind):
		g.audit.Record(ctx, entryOf(&e))
	}
}

func entryOf(e *server.Event) audit.Entry {
	return audit.Entry{Event: string(e.Kind), Principal: e.Principal, Remote: e.Remote, Session: e.Session, Detail: e.Detail}
}

// noteHidden records a request for a named item that exists but is hidden from the
// caller. Whether such an item exists is looked up after the caller has been answered,
// or may have been.
func (g *Gateway) noteHidden(ctx context.Context, v *view, req *mcp.Request, w lookup) {
	e := server.Event{Kind: hiddenItem, Principal: req.Principal, Session: sessionOf(req)}
	ctx = context.WithoutCancel(ctx)
	kind, name := w.kind, w.name // does not retain the parameters
	g.audit.Consider(ctx, func() (audit.Entry, bool) {
		if !v.catalog.Hides(kind, name) && (isNamed(kind) || !v.catalog.Hides(kind, glob.PlainURI(name))) {
			return audit.Entry{}, false
		}
		e.Detail = kind.String() + " " + quoteName(name)
		g.metrics.Event(ctx, string(e.Kind))
		return entryOf(&e), true
	})
}

// sessionOf returns the id of the session of a request, or "".
func sessionOf(req *mcp.Request) string {
	if req.Scope == nil {
		return ""
	}
	return req.Scope.Key()
}

// quoteName quotes and shortens a name received from outside for the record.
func quoteName(name string) string {
	const most = 200 // as for the texts of a server.Event
	quoted := strconv.QuoteToASCII(name)
	return quoted[:min(len(quoted), most)]
}

// openAudit opens the file of the audit record. It returns nil if none is configured. A
// reload opens the file again, so that a file that was moved away is released.
func openAudit(cfg *config.Config) (*os.File, error) {
	if cfg.Audit.File == "" {
		return nil, nil
	}
	file, err := audit.Open(cfg.Audit.File)
	if err != nil {
		return nil, config.Problems{{
			Path:    "audit.file",
			Message: "cannot write the audit record: " + err.Error(),
			Hint:    "use a file in an existing folder that the gateway may write to",
		}}
	}
	return file, nil
}
