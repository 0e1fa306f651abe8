// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package call contains what all protocols and transports of the client share: one
// outbound [Call] with the delivery of its messages, the [Setup] of a client, the errors
// of requests and the decision to send one again, and the goroutines of one owner.
//
// A Call is made by its [Owner], a protocol or a session. The state of it, such as
// whether it was sent and whether it has ended, is a [session.Call].
package call

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// CanForward reports whether a response to the request with the id may be forwarded
// while it arrives.
func (f *Call) CanForward(a *jsonrpc.Arrival, id mcp.ID) bool {
	return f.Forwardable && a.ID() == id && a.Head() != nil && a.Head().Type() == mcp.ResultComplete
}

// IsForwardable reports whether a request's result may be forwarded while it arrives. A
// request for a task returns a task, which the gateway must read.
func IsForwardable(req *mcp.Request) bool {
	return CanAsk(req.Method) && !req.Params.Has(mcp.FieldTask)
}

// BackendLimits returns the limits of a message from a backend. Members are limited by
// the size of the message rather than by their number: a large table is a legitimate
// result. An item of a list may be deeper than a client accepts. It is then left out,
// so that the other items are not lost.
func BackendLimits() mcp.Limits { return mcp.Limits{Depth: 128, ListDepth: 1024, Members: 4_000_000} }

// MaxBatch limits the messages of a batch (2025-03-26).
const MaxBatch = 100

// Call is a call in progress, seen from its caller. It takes the messages that
// arrive for the call and delivers them to the caller, in order.
type Call struct {
	*Setup
	Owner  Owner
	Call   *session.Call
	Req    *mcp.Request // that the call is made for; nil for a request of the gateway itself
	Caller mcp.Caller
	Token  []byte // the caller's own progress token; nil if it wants no progress

	Version     mcp.Version // of the server
	Forwardable bool        // the result may be forwarded to the caller while it arrives

	requests     context.Context //nolint:containedctx // for the server's requests, made for the first one: most calls have none
	stopRequests context.CancelFunc
}

// Owner makes calls, in a session or without one.
type Owner interface {
	// Asked serves a request of the backend that belongs to the call. It must not
	// block. ctx ends with the call.
	Asked(ctx context.Context, f *Call, m *mcp.Message)

	// Abandon notifies the backend that the call is cancelled. It must not block.
	Abandon(call *session.Call)
}

// Run returns the call's terminal, or an error as soon as ctx ends. A result that has
// arrived is returned even if ctx has ended. Messages received before the terminal are
// delivered first, by the goroutine that has begun to deliver them.
func (f *Call) Run(ctx context.Context) (*mcp.Result, error) {
	defer f.cancelRequests()
	over := ctx.Done()
	for {
		m, end := f.Call.Next()
		switch {
		case end != nil:
			return end.Result, end.Err
		case m != nil:
			f.Deliver(ctx, m)
		default:
			select {
			case <-f.Call.Wake():
			case <-over:
				f.giveUp(ctx)
				over = nil
			}
		}
	}
}

// GiveUp ends a call after its context has ended. A request that was not sent is
// withdrawn without a notification to the backend.
func (f *Call) giveUp(ctx context.Context) {
	if f.Call.Withdraw(session.Terminal{Err: f.GivenUp(ctx, mcp.NotDispatched)}) {
		return
	}
	if f.Call.Finish(session.Terminal{Err: f.GivenUp(ctx, mcp.Unknown)}) {
		f.Owner.Abandon(f.Call)
	}
}

// DeliverAll delivers the messages that arrived other than on the call's own stream. It
// runs while the waiting goroutine is busy with that stream.
func (f *Call) DeliverAll(ctx context.Context) {
	for m := f.Call.Take(); m != nil; m = f.Call.Take() {
		f.Deliver(ctx, m)
	}
}

// Deliver passes one message to the caller. It is called by one goroutine at a time,
// nearly always the one that waits for the result. So progress arrives in order and
// before the result, and a slow caller delays only its own call. An error of the caller
// does not fail the call.
func (f *Call) Deliver(ctx context.Context, m *mcp.Message) {
	if m.Kind == mcp.KindRequest {
		f.Owner.Asked(f.requestsContext(ctx), f, m) // it also refuses the request if ctx has ended: a request needs a response
		return
	}
	if ctx.Err() != nil {
		return
	}
	n, ok := f.translate(m)
	if ok {
		n, ok = f.Redact(n)
	}
	if !ok {
		return
	}
	if err := f.Caller.Notify(ctx, n); err != nil {
		return
	}
}

// requestsContext returns the context of the server's requests. It ends with the call,
// because no answer is possible after that.
func (f *Call) requestsContext(ctx context.Context) context.Context {
	if f.requests == nil {
		f.requests, f.stopRequests = context.WithCancel(ctx)
	}
	return f.requests
}

func (f *Call) cancelRequests() {
	if f.stopRequests != nil {
		f.stopRequests()
	}
}

// translate replaces the gateway's progress token with the caller's and removes the
// gateway's subscription id. Everything else is left unmodified. Progress that the
// caller did not request is dropped, because the caller could not attribute it.
func (f *Call) translate(m *mcp.Message) (*mcp.Notification, bool) {
	n := &mcp.Notification{Method: m.Method, Params: m.Params}
	var e mcp.Edit
	if m.Method == MethodProgress {
		if f.Token == nil {
			return nil, false
		}
		e.Set(mcp.FieldProgressToken, f.Token)
	}
	if m.Params.Has(mcp.MetaSubscriptionID) {
		e.Delete(mcp.MetaSubscriptionID)
	}
	if e.IsZero() {
		return n, true
	}
	params, err := e.Apply(&m.Params)
	if err != nil {
		return nil, false
	}
	n.Params = params
	return n, true
}

// Respond ends the call that a response names, whatever stream it arrived on: a server
// may answer on another stream than that of the request. An invalid response ends the
// call too, with an error that names the backend.
func (s *Setup) Respond(calls *session.Calls, id mcp.ID, m *mcp.Message) {
	calls.Respond(id, s.Terminal(m))
}

// Terminal returns the terminal for a response. A response that cannot be understood
// becomes an error, because nothing else would end its call.
func (s *Setup) Terminal(m *mcp.Message) session.Terminal {
	if m.Kind == mcp.KindResult {
		return session.Terminal{Result: &m.Result}
	}
	wire, err := m.WireError()
	if err != nil {
		return session.Terminal{Err: s.Malformed(err)}
	}
	return session.Terminal{Err: wire}
}

// NoCaller is the caller of the gateway's own requests.
type NoCaller struct{}

// Notify drops the notification.
func (NoCaller) Notify(context.Context, *mcp.Notification) error { return nil }

// Start rejects the request.
func (NoCaller) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "the request has no client to ask")
}

// Extension returns one that can do nothing.
func (NoCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func EmptyResult() (*mcp.Result, error) { return mcp.NewResult([]byte("{}")) }

// FindCall returns the open call with the id raw, or nil.
func FindCall(calls *session.Calls, raw []byte) *session.Call {
	id, err := mcp.ParseID(raw)
	if err != nil {
		return nil
	}
	return calls.Find(id)
}

// CanAsk reports whether a server may request input from a modern client during the
// method (2026-07-28, basic/patterns/mrtr, "Supported Requests").
func CanAsk(method string) bool {
	return method == MethodToolsCall || method == "prompts/get" || method == "resources/read"
}

// MaxServerRequests bounds the requests of one backend session that wait for an answer.
const MaxServerRequests = 16

// StartSafely calls caller.Start and returns a panic as an error, also one of the
// returned function. The calling goroutine has no other recover.
func (s *Setup) StartSafely(ctx context.Context, caller mcp.Caller, req *mcp.Request) (func() (*mcp.Result, error), error) {
	wait, err := s.tryStart(ctx, caller, req)
	if err != nil {
		return nil, err
	}
	return func() (res *mcp.Result, err error) {
		defer s.recoverPanic(ctx, &err)
		return wait()
	}, nil
}

func (s *Setup) tryStart(ctx context.Context, caller mcp.Caller, req *mcp.Request) (wait func() (*mcp.Result, error), err error) {
	defer s.recoverPanic(ctx, &err)
	return caller.Start(ctx, req)
}

// recoverPanic turns a panic into the request's error.
func (s *Setup) recoverPanic(ctx context.Context, err *error) {
	v := recover()
	if v == nil {
		return
	}
	s.Log.LogAttrs(ctx, slog.LevelError, "panic while asking a client",
		slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
	*err = mcp.Errorf(mcp.CodeInternalError, "the client could not be asked")
}
