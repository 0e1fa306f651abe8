// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// outboundCall is a call in progress, seen from its caller. It takes the messages that
// arrive for the call and delivers them to the caller, in order.
type outboundCall struct {
	*setup
	owner  callOwner
	call   *session.Call
	req    *mcp.Request // that the call is made for; nil for a request of the gateway itself
	caller mcp.Caller
	token  []byte // the caller's own progress token; nil if it wants no progress

	version     mcp.Version // of the server
	forwardable bool        // the result may be forwarded to the caller while it arrives

	requests     context.Context //nolint:containedctx // for the server's requests, made for the first one: most calls have none
	stopRequests context.CancelFunc
}

// callOwner makes calls, in a session or without one.
type callOwner interface {
	// asked serves a request of the backend that belongs to the call. It must not
	// block. ctx ends with the call.
	asked(ctx context.Context, f *outboundCall, m *mcp.Message)

	// abandon notifies the backend that the call is cancelled. It must not block.
	abandon(call *session.Call)
}

// run returns the call's terminal, or an error as soon as ctx ends. A result that has
// arrived is returned even if ctx has ended. Messages received before the terminal are
// delivered first, by the goroutine that has begun to deliver them.
func (f *outboundCall) run(ctx context.Context) (*mcp.Result, error) {
	defer f.cancelRequests()
	over := ctx.Done()
	for {
		m, end := f.call.Next()
		switch {
		case end != nil:
			return end.Result, end.Err
		case m != nil:
			f.deliver(ctx, m)
		default:
			select {
			case <-f.call.Wake():
			case <-over:
				f.giveUp(ctx)
				over = nil
			}
		}
	}
}

// giveUp ends a call after its context has ended. A request that was not sent is
// withdrawn without a notification to the backend.
func (f *outboundCall) giveUp(ctx context.Context) {
	if f.call.Withdraw(session.Terminal{Err: f.givenUp(ctx, mcp.NotDispatched)}) {
		return
	}
	if f.call.Finish(session.Terminal{Err: f.givenUp(ctx, mcp.Unknown)}) {
		f.owner.abandon(f.call)
	}
}

// deliverAll delivers the messages that arrived other than on the call's own stream. It
// runs while the waiting goroutine is busy with that stream.
func (f *outboundCall) deliverAll(ctx context.Context) {
	for m := f.call.Take(); m != nil; m = f.call.Take() {
		f.deliver(ctx, m)
	}
}

// deliver passes one message to the caller. It is called by one goroutine at a time,
// nearly always the one that waits for the result. So progress arrives in order and
// before the result, and a slow caller delays only its own call. An error of the caller
// does not fail the call.
func (f *outboundCall) deliver(ctx context.Context, m *mcp.Message) {
	if m.Kind == mcp.KindRequest {
		f.owner.asked(f.requestsContext(ctx), f, m) // it also refuses the request if ctx has ended: a request needs a response
		return
	}
	if ctx.Err() != nil {
		return
	}
	n, ok := f.translate(m)
	if ok {
		n, ok = f.redact(n)
	}
	if !ok {
		return
	}
	if err := f.caller.Notify(ctx, n); err != nil {
		return
	}
}

// requestsContext returns the context of the server's requests. It ends with the call,
// because no answer is possible after that.
func (f *outboundCall) requestsContext(ctx context.Context) context.Context {
	if f.requests == nil {
		f.requests, f.stopRequests = context.WithCancel(ctx)
	}
	return f.requests
}

func (f *outboundCall) cancelRequests() {
	if f.stopRequests != nil {
		f.stopRequests()
	}
}

// translate replaces the gateway's progress token with the caller's and removes the
// gateway's subscription id. Everything else is left unmodified. Progress that the
// caller did not request is dropped, because the caller could not attribute it.
func (f *outboundCall) translate(m *mcp.Message) (*mcp.Notification, bool) {
	n := &mcp.Notification{Method: m.Method, Params: m.Params}
	var e mcp.Edit
	if m.Method == methodProgress {
		if f.token == nil {
			return nil, false
		}
		e.Set(mcp.FieldProgressToken, f.token)
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

// Methods that the client handles itself, because they decide where a message goes. All
// others are forwarded, whatever their name.
const (
	methodDiscover    = "server/discover"
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodListen      = "subscriptions/listen"
	methodCancelled   = "notifications/cancelled"
	methodProgress    = "notifications/progress"
	methodMessage     = "notifications/message"
	methodSetLevel    = "logging/setLevel"
	methodPing        = "ping"
	methodRoots       = "roots/list"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodToolsList   = "tools/list"
	methodToolsCall   = "tools/call"
	methodTaskStatus  = "notifications/tasks/status" // of 2025-11-25
)

// respond ends the call that a response names, whatever stream it arrived on: a server
// may answer on another stream than that of the request. An invalid response ends the
// call too, with an error that names the backend.
func (s *setup) respond(calls *session.Calls, id mcp.ID, m *mcp.Message) {
	calls.Respond(id, s.terminal(m))
}

// terminal returns the terminal for a response. A response that cannot be understood
// becomes an error, because nothing else would end its call.
func (s *setup) terminal(m *mcp.Message) session.Terminal {
	if m.Kind == mcp.KindResult {
		return session.Terminal{Result: &m.Result}
	}
	wire, err := m.WireError()
	if err != nil {
		return session.Terminal{Err: s.malformed(err)}
	}
	return session.Terminal{Err: wire}
}

// malformed returns the error of a call with an invalid response.
func (s *setup) malformed(cause error) *mcp.Fault {
	return s.fault(mcp.CodeBackendFailed, mcp.Unknown, cause, "its answer breaks the protocol: %v", cause)
}
