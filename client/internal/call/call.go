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

// Call is a call in progress, seen from its caller. It takes the messages that
// arrive for the call and delivers them to the caller, in order.
type Call struct {
	*Setup
	Owner  Owner
	Call   *session.Call
	Req    *mcp.Request // that the call is made for; nil for a request of the gateway itself
	Caller mcp.Caller
	Token  []byte // the caller's own progress token; nil if it wants no progress

	Sent        mcp.ID      // the gateway's progress token, if Call is nil
	Version     mcp.Version // of the server
	Forwardable bool        // the result may be forwarded to the caller while it arrives

	requests     context.Context //nolint:containedctx // for the server's requests, made for the first one: most calls have none
	stopRequests context.CancelFunc
}

// Owner makes calls, in a session or without one.
type Owner interface {
	// Asked serves a request of the backend that belongs to the call. It must not
	// block. ctx ends with the call.
	Asked(ctx context.Context, c *Call, m *mcp.Message)

	// Abandon notifies the backend that the call is cancelled. It must not block.
	Abandon(call *session.Call)
}

// Run returns the call's terminal, or an error as soon as ctx ends. A result that has
// arrived is returned even if ctx has ended. Messages received before the terminal are
// delivered first, by the goroutine that has begun to deliver them.
func (c *Call) Run(ctx context.Context) (*mcp.Result, error) {
	defer func() {
		if c.stopRequests != nil {
			c.stopRequests()
		}
	}()
	over := ctx.Done()
	for {
		m, end := c.Call.Next()
		switch {
		case end != nil:
			if c.Req != nil && isAnswer(end) {
				c.Req.Timeline.Mark(mcp.StageLastByte)
			}
			return end.Result, end.Err
		case m != nil:
			c.Deliver(ctx, m)
		default:
			select {
			case <-c.Call.Wake():
			case <-over:
				c.giveUp(ctx)
				over = nil
			}
		}
	}
}

// isAnswer reports whether a terminal is what the server sent.
func isAnswer(end *session.Terminal) bool {
	if end.Result != nil {
		return true
	}
	_, ok := end.Err.(*mcp.Error) //nolint:errorlint // an Error that caused something else is none
	return ok
}

// giveUp ends a call after its context has ended. A request that was not sent is
// withdrawn without a notification to the backend.
func (c *Call) giveUp(ctx context.Context) {
	if c.Call.Withdraw(session.Terminal{Err: c.GivenUp(ctx, mcp.NotDispatched)}) {
		return
	}
	if c.Call.Finish(session.Terminal{Err: c.GivenUp(ctx, mcp.Unknown)}) {
		c.Owner.Abandon(c.Call)
	}
}

// DeliverAll delivers the messages that arrived other than on the call's own stream. It
// runs while the waiting goroutine is busy with that stream.
func (c *Call) DeliverAll(ctx context.Context) {
	for m := c.Call.Take(); m != nil; m = c.Call.Take() {
		c.Deliver(ctx, m)
	}
}

// Deliver passes one message to the caller. It is called by one goroutine at a time,
// nearly always the one that waits for the result. So progress arrives in order and
// before the result, and a slow caller delays only its own call.
func (c *Call) Deliver(ctx context.Context, m *mcp.Message) {
	if m.Kind == mcp.KindRequest {
		c.Owner.Asked(c.requestsContext(ctx), c, m) // it also refuses the request if ctx has ended: a request needs a response
		return
	}
	if ctx.Err() != nil {
		return
	}
	n, ok := c.translate(m)
	if !ok {
		return
	}
	if n, ok = c.Redact(n); ok {
		_ = c.Caller.Notify(ctx, n) // its error does not fail the call
	}
}

// requestsContext returns the context of the server's requests. It ends with the call,
// because no answer is possible after that.
func (c *Call) requestsContext(ctx context.Context) context.Context {
	if c.requests == nil {
		c.requests, c.stopRequests = context.WithCancel(ctx)
	}
	return c.requests
}

// translate replaces the gateway's progress token with the caller's and removes the
// gateway's subscription id. Everything else is left unmodified. Progress that the
// caller did not request is dropped, because the caller could not attribute it.
func (c *Call) translate(m *mcp.Message) (*mcp.Notification, bool) {
	n := &mcp.Notification{Method: m.Method, Params: m.Params}
	var e mcp.Edit
	if m.Method == MethodProgress {
		if c.Token == nil {
			return nil, false
		}
		e.Set(mcp.FieldProgressToken, c.Token)
	} else if c.Token != nil && c.namesToken(m) {
		e.Set(mcp.FieldProgressToken, c.Token)
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

// namesToken reports whether a notification of an extension names the call by its progress token.
func (c *Call) namesToken(m *mcp.Message) bool {
	raw := m.Params.Raw(mcp.FieldProgressToken)
	if raw == nil || mcp.IsMethod(m.Method) {
		return false
	}
	sent := c.Sent
	if c.Call != nil {
		sent = c.Call.ID()
	}
	id, err := mcp.ParseID(raw)
	return err == nil && id == sent
}

// CanForward reports whether a response to the request with the id may be forwarded
// while it arrives.
func (c *Call) CanForward(a *jsonrpc.Arrival, id mcp.ID) bool {
	return c.Forwardable && a.ID() == id && a.Head() != nil && a.Head().Type() == mcp.ResultComplete
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

// EmptyResult returns a result without members.
func EmptyResult() (*mcp.Result, error) { return mcp.NewResult([]byte("{}")) }

// StartSafely calls caller.Start and returns a panic as an error, also one of the
// returned function. The calling goroutine has no other recover.
func (s *Setup) StartSafely(ctx context.Context, caller mcp.Caller, req *mcp.Request) (wait func() (*mcp.Result, error), err error) {
	defer s.recoverPanic(ctx, &err)
	started, err := caller.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return func() (res *mcp.Result, err error) {
		defer s.recoverPanic(ctx, &err)
		return started()
	}, nil
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
