// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// modernPipe sends modern requests over one pipe that all clients share. A message
// identifies its request by the id, the progress token or the subscription (2026-07-28,
// basic/transports/stdio).
type modernPipe struct {
	*pipe
	abandoned abandoned
	logs      logRouting
	listens   sharedListen // all listens
}

func newPipeWire(p *pipe) *modernPipe {
	w := &modernPipe{pipe: p}
	p.setOnAnswer(func(id mcp.ID) {
		w.logs.answered(id)
		w.listens.noteAnswer(id)
	})
	p.attach(w.take)
	return w
}

// open rejects a call on a pipe that has ended, so that the server is started again.
func (w *modernPipe) open(method string) (*session.Call, error) {
	call, err := w.calls.Open(method)
	if err != nil {
		return nil, &rejected{why: wrongEra, err: w.unavailable(err, "its process has ended")}
	}
	return call, nil
}

func (w *modernPipe) call(ctx context.Context, p *modern, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	call, err := w.open(req.Method)
	if err != nil {
		return nil, err
	}
	return w.roundTrip(ctx, p, call, req, params, caller)
}

// roundTrip sends the request of an open call and returns its terminal.
func (w *modernPipe) roundTrip(ctx context.Context, p *modern, call *session.Call, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	// Before the request is sent: a log message may arrive at once.
	if level := requestedLevel(req.LogLevel); level != mcp.LogNone {
		w.logs.begin(call.ID(), level, req.Scope)
		defer w.logs.end(call.ID())
	}
	w.served.note(req)
	call.SetRequest(req)
	w.begin(call, p.buildRequest(req, params, call.ID()))
	f := p.outboundCall(req, params, caller)
	f.call = call
	return f.run(ctx)
}

func (w *modernPipe) abandon(call *session.Call) {
	w.abandoned.note()
	w.logs.abandon(call.ID())
	w.pipe.abandon(call)
}

// refreshHeaders reports false: a pipe has no headers.
func (w *modernPipe) refreshHeaders(context.Context, *modern, *mcp.Request) bool { return false }

func (w *modernPipe) sharedPipe() *modernPipe { return w }

// take handles a message that is not a response. A message that names no call is
// delivered to the only call that it can belong to, or dropped.
func (w *modernPipe) take(m *mcp.Message) {
	switch m.Kind {
	case mcp.KindNotification:
	case mcp.KindRequest:
		// A modern server must not send requests (basic/transports/stdio). Without an
		// error it would wait until its call is cancelled.
		w.enqueue(jsonrpc.Pieces{jsonrpc.AppendError(nil, m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "%.60q: a server makes no requests in %s", m.Method, mcp.LatestModern))})
		return
	default:
		return
	}
	if call := w.addressee(m); call != nil {
		call.Push(m)
	}
}

// addressee returns the call that a message names. Ids, tokens and subscriptions are
// the gateway's on this pipe, so no client can name another's call. A message that
// names none belongs to the only call, unless one was cancelled recently, which the
// server may still work on.
func (w *modernPipe) addressee(m *mcp.Message) *session.Call {
	switch {
	case m.Params.Has(mcp.MetaSubscriptionID):
		return findCall(&w.calls, m.Params.Raw(mcp.MetaSubscriptionID))
	case m.Method == methodProgress:
		return findCall(&w.calls, m.Params.Raw(mcp.FieldProgressToken))
	case m.Method == methodCancelled:
		w.endListen(m)
		return nil
	case m.Method == methodMessage:
		return w.calls.Find(w.logs.addressee(levelOf(m)))
	case w.abandoned.recently():
		return nil
	default:
		return w.calls.Only(methodListen)
	}
}

// levelOf returns the level of a log message. An unknown level counts as the highest,
// so that every call that requested log messages may receive it.
func levelOf(m *mcp.Message) mcp.LogLevel {
	name, _ := m.Params.Text(mcp.FieldLevel)
	if level, ok := mcp.ParseLogLevel(name); ok {
		return level
	}
	return mcp.LogEmergency
}

// endListen ends a subscription that the server has cancelled
// (basic/patterns/cancellation).
func (w *modernPipe) endListen(m *mcp.Message) {
	call := findCall(&w.calls, m.Params.Raw(mcp.FieldRequestID))
	if call != nil && call.Method() == methodListen {
		call.Finish(session.Terminal{Err: w.lost(nil, "it ended the subscription")})
	}
}

// findCall returns the open call with the id raw, or nil.
func findCall(calls *session.Calls, raw []byte) *session.Call {
	id, err := mcp.ParseID(raw)
	if err != nil {
		return nil
	}
	return calls.Find(id)
}

func (w *modernPipe) stats() session.CallStats { return w.calls.Stats() }

func (w *modernPipe) close(context.Context) { w.pipe.close(w.cut()) }
