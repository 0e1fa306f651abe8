// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/audit"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/recorder"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// serveCall serves a tools/call, prompts/get, resources/read, resources/directory/read,
// skills/get or completion/complete, the requests that are sent on to one backend. Each gets an id, and is recorded when it has
// ended, with a result, an error or a panic. A call that waits for answers of its client
// ends after it has received them; if the client calls again with the answers, each is a
// call.
func (g *Gateway) serveCall(ctx context.Context, req *mcp.Request, caller mcp.Caller, kind catalog.Kind) (res *mcp.Result, err error) {
	c, req := g.takeCall(req)
	// Deferred, because a Handler may panic or call runtime.Goexit.
	defer func() {
		g.recordCall(ctx, req, &c, res, err)
		err = nameCall(err, &c)
	}()
	switch kind {
	case completion:
		c.servedBy, res, err = g.complete(ctx, req, caller)
	case catalog.Skills:
		c.servedBy, res, err = g.skill(ctx, req, caller)
	case directory:
		c.servedBy, res, err = g.directory(ctx, req, caller)
	default:
		c.servedBy, res, err = g.call(ctx, c.id, req, caller, kind)
	}
	return res, err
}

// completion is the kind of completion/complete, which names a prompt or a template.
const completion = catalog.NumKinds

// startedCall is a call while it is served.
type startedCall struct {
	id       mcp.CallID
	received time.Time

	servedBy
}

// servedBy is what is known of a call after it was served.
type servedBy struct {
	name    string         // of the item, or its URI
	said    string         // what the client has called it, if that is another name
	backend *activeBackend // nil if none was asked
	passed  bool           // nothing but its method was read
	outer   *outerCall     // not nil if its answer is that of calls of its own
	of      mcp.CallID     // if it reads the result of a call: that call
	refused bool           // by the policy or a filter, and so not sent
	named   string         // namedOwn, or "" for an item by its listed name

	verdict
}

// nameAs sets the name of an item with another name than the client uses, which it keeps.
func (by *servedBy) nameAs(e *catalog.Entry, said string) {
	if said != e.Offered() {
		by.said, by.name = by.name, nameInRecord(e)
	}
}

// takeCall gives a request an id. A request without a Timeline was not received by an edge:
// then the stages of the call are not known. One that has an id is that of another gateway
// in this process, as are its Timeline's stages.
func (g *Gateway) takeCall(req *mcp.Request) (startedCall, *mcp.Request) {
	if t := req.Timeline; t != nil {
		c := startedCall{received: t.Received()}
		c.id = g.recorder.NewID(c.received)
		if t.Take(c.id) {
			return c, req
		}
		own := *req
		own.Timeline = nil
		req = &own
	}
	now := time.Now()
	return startedCall{id: g.recorder.NewID(now), received: now}, req
}

// nameCall returns the error of a call with its id, unless it is an error of the backend
// that is passed on as it is.
func nameCall(err error, c *startedCall) error {
	if err == nil || c.outer != nil {
		return err
	}
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		own := *f
		own.Call = c.id
		return &own
	}
	if d, ok := errors.AsType[*mcp.Denied](err); ok && c.backend == nil {
		own := *d
		own.Err = d.Err.WithCall(c.id)
		return &own
	}
	// A backend in this process returns errors that did not arrive as bytes.
	if e, ok := err.(*mcp.Error); ok && (c.backend == nil || c.backend.client != nil) { //nolint:errorlint // only an error that is sent as it is
		return e.WithCall(c.id)
	}
	return err
}

// recordCall records a call that has ended: in the ring, in the log and in the audit
// record. It retains nothing of the request.
func (g *Gateway) recordCall(ctx context.Context, req *mcp.Request, started *startedCall, res *mcp.Result, err error) {
	c := recorder.Call{
		ID: started.id, Received: started.received, Ended: time.Since(started.received),
		Method: req.Method, Name: started.name, RequestBytes: int64(len(req.Params.Bytes())),
	}
	outcome, code, delivery := callOutcome(ctx, res, err)
	if started.refused || started.answer != "" && started.answer != answerAccept {
		delivery = string(mcp.NotDispatched)
	}
	c.Outcome, c.Code, c.Delivery = string(outcome), code, mcp.Outcome(delivery)
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		c.Reason = f.Reason
	}
	if started.passed {
		c.Method = recorder.OtherMethod
	}
	c.Parent = started.of
	if n := len(req.Outer); n > 0 {
		c.Parent = req.Outer[n-1].Call
	}
	if started.outer != nil {
		started.outer.record(&c)
	}
	if req.Client != nil {
		c.ClientVersion = req.Client.Version
		c.Client = g.recorder.ClientName(req.Client.Info, clientName)
	}
	if b := started.backend; b != nil {
		c.Backend, c.BackendVersion = b.Name(), b.Offer().Server.Version
	}
	if res != nil {
		c.ResponseBytes = int64(len(res.Bytes()))
	}
	c.SetStages(req.Timeline)
	g.observeCall(&c, &started.servedBy, err)
	number := g.recorder.Add(&c)
	if req.Timeline != nil {
		req.Timeline.OnDelivered(number, g.recorder.OnDelivered)
	}
	if req.Method == "completion/complete" {
		return // a client sends one for each key that is typed
	}
	if g.opt.LogCalls {
		g.logCall(ctx, req, &c)
	}
	if g.audit.HasCalls() {
		g.auditCall(ctx, req, &c, &started.servedBy)
	}
}

// logCall writes one record for a call that has ended. What it does not have is omitted.
func (g *Gateway) logCall(ctx context.Context, req *mcp.Request, c *recorder.Call) {
	trace, span := traceOf(req)
	attrs := []slog.Attr{
		slog.String("call", c.ID.String()), slog.String("parent", c.Parent.String()), slog.String("method", c.Method), slog.String("name", strings.Clone(shorten(c.Name))),
		slog.String("backend", c.Backend), slog.String("client", shorten(c.Client)),
		slog.String("outcome", c.Outcome), slog.Float64("durationMs", millis(c.Ended)),
		slog.String("code", c.Reason), slog.String("delivery", string(c.Delivery)),
		slog.String("trace_id", trace), slog.String("span_id", span),
	}
	if c.Inner > 0 {
		attrs = append(attrs, slog.Int("innerCalls", c.Inner), slog.String("innerOutcome", c.InnerOutcome), slog.String("innerDelivery", string(c.InnerDelivery)))
	}
	attrs = slices.DeleteFunc(attrs, func(a slog.Attr) bool { return a.Value.Kind() == slog.KindString && a.Value.String() == "" })
	g.log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, CallMessage, attrs...)
}

// CallMessage is the message of the log record of a call.
const CallMessage = "call"

// CallRecord is what the gateway remembers of one call, for its operator. It contains no
// arguments and no results. All times are milliseconds.
type CallRecord struct {
	ID             string      `json:"call"`
	Parent         string      `json:"parent,omitempty"` // the call that has made it; for one that reads a result, the call that it is of
	Received       time.Time   `json:"time"`
	Method         string      `json:"method"`
	Name           string      `json:"name"`    // of the item, or its URI; a long one is cut
	Backend        string      `json:"backend"` // "" if none was asked
	Client         string      `json:"client"`  // the name and version that it declares
	ClientVersion  mcp.Version `json:"clientVersion,omitempty"`
	BackendVersion mcp.Version `json:"backendVersion,omitempty"`
	Outcome        string      `json:"outcome"` // as in the audit record
	Code           int64       `json:"code,omitzero"`
	Reason         string      `json:"reason,omitempty"`        // the code of the cause, such as SB_NET_DNS
	Delivery       string      `json:"delivery,omitempty"`      // whether a failed call may have run
	InnerCalls     int         `json:"innerCalls,omitzero"`     // how many calls it has made
	InnerOutcome   string      `json:"innerOutcome,omitempty"`  // of the worst of them
	InnerDelivery  string      `json:"innerDelivery,omitempty"` // of the same one
	RequestBytes   int64       `json:"requestBytes"`            // of the parameters
	ResponseBytes  int64       `json:"responseBytes"`           // of the result; 0 if it is not known
	Attempts       int         `json:"attempts,omitzero"`       // how often it was sent to the backend
	Asks           int         `json:"asks,omitzero"`           // requests to the client

	Millis float64 `json:"durationMs"` // from its receipt until its answer was known

	// When the call reached each stage, from its receipt on. A stage that it did not
	// reach, or for which the time is not known, is missing.
	Admitted  *float64 `json:"admittedMs,omitempty"`
	Resolved  *float64 `json:"resolvedMs,omitempty"`
	Leased    *float64 `json:"leasedMs,omitempty"`
	Sent      *float64 `json:"sentMs,omitempty"`
	FirstByte *float64 `json:"firstByteMs,omitempty"`
	LastByte  *float64 `json:"lastByteMs,omitempty"`
	Delivered *float64 `json:"deliveredMs,omitempty"`

	// Parts of the wait for a connection, and of that for the answer.
	Start     float64 `json:"startMs,omitzero"`     // the start of a process
	Install   float64 `json:"installMs,omitzero"`   // of that, the package manager before the server's own program
	Handshake float64 `json:"handshakeMs,omitzero"` // the handshake with the server
	Waiting   float64 `json:"waitingMs,omitzero"`   // for answers of the client

	// Inner are the calls that it has made, and those that have read its result, of those that are remembered, oldest first. Only
	// [Gateway.Call] sets it.
	Inner []CallRecord `json:"inner,omitempty"`
}

func newCallRecord(c *recorder.Call) CallRecord {
	stage := func(s mcp.Stage) *float64 {
		if c.Stages[s] < 0 {
			return nil
		}
		return new(millis(c.Stages[s]))
	}
	r := CallRecord{
		ID: c.ID.String(), Parent: c.Parent.String(), Received: c.Received, Method: c.Method, Name: c.Name, Backend: c.Backend, Client: c.Client,
		ClientVersion: c.ClientVersion, BackendVersion: c.BackendVersion,
		Outcome: c.Outcome, Code: c.Code, Reason: c.Reason, Delivery: string(c.Delivery),
		InnerCalls: c.Inner, InnerOutcome: c.InnerOutcome, InnerDelivery: string(c.InnerDelivery),
		RequestBytes: c.RequestBytes, ResponseBytes: c.ResponseBytes, Attempts: c.Attempts, Asks: c.Asks,
		Millis:   millis(c.Ended),
		Admitted: stage(mcp.StageAdmitted), Resolved: stage(mcp.StageResolved), Leased: stage(mcp.StageLeased),
		Sent: stage(mcp.StageSent), FirstByte: stage(mcp.StageFirstByte), LastByte: stage(mcp.StageLastByte),
		Start: millis(c.Start), Install: millis(c.Install), Handshake: millis(c.Handshake), Waiting: millis(c.Waiting),
	}
	if c.Delivered > 0 {
		r.Delivered = new(millis(c.Delivered))
	}
	return r
}

// millis returns a duration in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// CallFilter selects calls. A zero member selects all.
type CallFilter struct {
	Backend string
	Method  string
	Failed  bool // only calls that did not end well
	Most    int  // how many
}

// CallRecords are the calls that the gateway remembers.
type CallRecords struct {
	Calls    []CallRecord `json:"calls"`          // newest first
	Since    time.Time    `json:"since,omitzero"` // when the oldest call that is remembered was received
	Recorded uint64       `json:"recorded"`       // calls since the start, also those that are forgotten
}

// Calls returns the latest calls that the filter selects, of those that have ended. It
// does not block.
func (g *Gateway) Calls(f CallFilter) CallRecords {
	all := CallRecords{Calls: []CallRecord{}}
	all.Since, all.Recorded, _ = g.recorder.Since()
	for c := range g.recorder.Latest {
		if f.selects(&c) {
			all.Calls = append(all.Calls, newCallRecord(&c))
		}
		if len(all.Calls) == f.Most && f.Most > 0 {
			break
		}
	}
	return all
}

func (f *CallFilter) selects(c *recorder.Call) bool {
	switch {
	case f.Backend != "" && c.Backend != f.Backend, f.Method != "" && c.Method != f.Method:
		return false
	default:
		return !f.Failed || isFailed(audit.Outcome(c.Outcome))
	}
}

// isFailed reports whether a call with the outcome did not do what its client wanted.
func isFailed(o audit.Outcome) bool {
	switch o {
	case audit.OK, audit.InputRequired, audit.TaskBegun:
		return false
	default:
		return true
	}
}

// Call returns a call by its id. It reports false if the gateway does not remember it.
func (g *Gateway) Call(id mcp.CallID) (CallRecord, bool) {
	c, ok := g.recorder.Find(id)
	if !ok {
		return CallRecord{}, false
	}
	r := newCallRecord(&c)
	for inner := range g.recorder.Latest {
		if inner.Parent == id {
			r.Inner = append(r.Inner, newCallRecord(&inner))
		}
	}
	slices.Reverse(r.Inner)
	return r, true
}
