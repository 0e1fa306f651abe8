// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// outboundCall is one call while it is under way, from the side of whoever made it: it
// takes what arrives in the call's cell and gives it to the caller, in order.
type outboundCall struct {
	*setup
	owner  callOwner
	call   *session.Call
	req    *mcp.Request // that the call is made for, nil where it is our own
	caller mcp.Caller
	token  []byte // the caller's own progress token, nil if it wants no progress

	version     mcp.Version // of the server
	forwardable bool        // its result may go to the caller while it arrives

	requests     context.Context //nolint:containedctx // of the asks, made for the first one: most calls have none
	stopRequests context.CancelFunc
}

// callOwner is who makes a call, of a session or without one.
type callOwner interface {
	// asked serves a request of the backend that belongs to the call. It must not
	// wait. The context ends with the call.
	asked(ctx context.Context, f *outboundCall, m *mcp.Message)

	// abandon tells the backend that nobody waits for the call any more. It must
	// not wait.
	abandon(call *session.Call)
}

// run returns the call's terminal, or an error as soon as ctx ends. A result
// that is there wins over a context that has ended. What has come before it is handed
// on first, by whoever has begun to.
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

// giveUp ends a call whose context has ended. One that never left is taken back
// without a word to the backend, which has not heard of it.
func (f *outboundCall) giveUp(ctx context.Context) {
	if f.call.Withdraw(session.Terminal{Err: f.givenUp(ctx, mcp.NotDispatched)}) {
		return
	}
	if f.call.Finish(session.Terminal{Err: f.givenUp(ctx, mcp.Unknown)}) {
		f.owner.abandon(f.call)
	}
}

// handAll hands on what has come for a call by other ways than its own stream, while
// the goroutine that waits for it is about that.
func (f *outboundCall) deliverAll(ctx context.Context) {
	for m := f.call.Take(); m != nil; m = f.call.Take() {
		f.deliver(ctx, m)
	}
}

// hand gives one message to the caller. It is called by one goroutine at a time,
// nearly always the one that waits for the result: so progress comes in order and
// before it, and a slow caller slows down nobody but itself. That a caller takes no
// more is no failure of the call.
func (f *outboundCall) deliver(ctx context.Context, m *mcp.Message) {
	if m.Kind == mcp.KindRequest {
		f.owner.asked(f.requestsContext(ctx), f, m) // who refuses it where ctx has ended: a request has an answer
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

// asking returns the context of the asks, which ends with the call: nobody will answer
// them then.
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

// translate gives a notification the names that the caller knows: its own progress
// token for ours, and no subscription of ours. Everything else is left as the bytes
// that came. Progress that the caller did not ask for is dropped, because it could
// not tell whose it is.
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

// methods that the client itself knows: those whose meaning decides where a message
// goes. All others are passed on whatever they are called.
const (
	methodDiscover     = "server/discover"
	methodInitialize   = "initialize"
	methodInitialized  = "notifications/initialized"
	methodListen       = "subscriptions/listen"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
	methodCancelled    = "notifications/cancelled"
	methodProgress     = "notifications/progress"
	methodMessage      = "notifications/message"
	methodSetLevel     = "logging/setLevel"
	methodPing         = "ping"
	methodRoots        = "roots/list"
	methodSubscribe    = "resources/subscribe"
	methodUnsubscribe  = "resources/unsubscribe"
	methodToolsList    = "tools/list"
	methodToolsCall    = "tools/call"
	methodTaskStatus   = "notifications/tasks/status" // of 2025-11-25
	methodTaskNotice   = "notifications/tasks"        // of the extension
	methodTools        = "notifications/tools/list_changed"
	methodPrompts      = "notifications/prompts/list_changed"
	methodResources    = "notifications/resources/list_changed"
	methodUpdated      = "notifications/resources/updated"
)

// respond ends the call that a response names, whatever stream it came on: a server
// may answer on another one than it was asked on, and who waits must not wait for a
// stream. A response that breaks the rules ends it too, with an error that names the
// backend.
func (s *setup) respond(calls *session.Calls, id mcp.ID, m *mcp.Message) {
	calls.Respond(id, s.terminal(m))
}

// terminal never fails to be one: a response that cannot be understood ends its call
// as well, because nothing else will.
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

// malformed is the error of a call whose response is none.
func (s *setup) malformed(cause error) *mcp.Fault {
	return s.fault(mcp.CodeBackendFailed, mcp.Unknown, cause, "its answer breaks the protocol: %v", cause)
}
