// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/stdio"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// pipeConn sends modern requests over one pipe that all clients share. A message
// identifies its request by the id, the progress token or the subscription (2026-07-28,
// basic/transports/stdio).
type pipeConn struct {
	*stdio.Pipe
	abandoned call.Abandoned
	logs      logRouting
	listens   pipeListens
}

func newPipeConn(p *stdio.Pipe) *pipeConn {
	w := &pipeConn{Pipe: p}
	p.Attach(stdio.Handlers{Message: w.take, Answered: func(id mcp.ID) {
		w.logs.answered(id)
		w.listens.noteAnswer(id)
	}})
	return w
}

// open rejects a call on a pipe that has ended, so that the server is started again.
func (w *pipeConn) open(method string) (*session.Call, error) {
	c, err := w.Calls.Open(method)
	if err != nil {
		return nil, &call.Rejected{Why: call.WrongEra, Err: call.Because(code.TalkExited, w.Unavailable(err, "its process has ended"))}
	}
	return c, nil
}

func (w *pipeConn) call(ctx context.Context, p *Protocol, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	if ctx.Err() != nil {
		return nil, p.GivenUp(ctx, mcp.NotDispatched)
	}
	c, err := w.open(req.Method)
	if err != nil {
		return nil, err
	}
	return w.roundTrip(ctx, p, c, req, params, caller)
}

// roundTrip sends the request of an open call and returns its terminal.
func (w *pipeConn) roundTrip(ctx context.Context, p *Protocol, c *session.Call, req *mcp.Request, params *mcp.Object, caller mcp.Caller) (*mcp.Result, error) {
	// Before the request is sent: a log message may arrive at once.
	if level := requestedLevel(req.LogLevel); level != mcp.LogNone {
		w.logs.begin(c.ID(), level, req.Scope)
		defer w.logs.end(c.ID())
	}
	w.Served.Note(req)
	c.SetRequest(req)
	w.Begin(c, p.buildRequest(req, params, c.ID()))
	out := p.outboundCall(req, params, caller)
	out.Call = c
	return out.Run(ctx)
}

func (w *pipeConn) abandon(c *session.Call) {
	w.abandoned.Note()
	w.logs.abandon(c.ID())
	w.Abandon(c)
}

// take handles a message that is not a response. A message that names no call is
// delivered to the only call that it can belong to, or dropped.
func (w *pipeConn) take(m *mcp.Message) {
	switch m.Kind {
	case mcp.KindNotification:
	case mcp.KindRequest:
		// A modern server must not send requests (basic/transports/stdio). Without an
		// error it would wait until its call is cancelled.
		w.Enqueue(jsonrpc.Pieces{jsonrpc.AppendError(nil, m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "%.60q: a server makes no requests in %s", m.Method, mcp.LatestModern))})
		return
	default:
		return
	}
	if c := w.addressee(m); c != nil {
		c.Push(m)
	}
}

// addressee returns the call that a message names. IDs, tokens and subscriptions are
// the gateway's on this pipe, so no client can name another's call. A message that
// names none belongs to the only call, unless one was cancelled recently, which the
// server may still work on.
func (w *pipeConn) addressee(m *mcp.Message) *session.Call {
	switch {
	case m.Params.Has(mcp.MetaSubscriptionID):
		return call.FindCall(&w.Calls, m.Params.Raw(mcp.MetaSubscriptionID))
	case m.Method == call.MethodProgress:
		return call.FindCall(&w.Calls, m.Params.Raw(mcp.FieldProgressToken))
	case m.Method == call.MethodCancelled:
		w.endListen(m)
		return nil
	case m.Method == call.MethodMessage:
		return w.Calls.Find(w.logs.addressee(levelOf(m)))
	}
	if raw := m.Params.Raw(mcp.FieldProgressToken); raw != nil {
		if c := call.FindCall(&w.Calls, raw); c != nil {
			return c
		}
	}
	switch {
	case w.abandoned.Recently():
		return nil
	default:
		return w.Calls.Only(call.MethodListen)
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
func (w *pipeConn) endListen(m *mcp.Message) {
	c := call.FindCall(&w.Calls, m.Params.Raw(mcp.FieldRequestID))
	if c != nil && c.Method() == call.MethodListen {
		c.Finish(session.Terminal{Err: w.Lost(nil, "it ended the subscription")})
	}
}

func (w *pipeConn) stats() session.CallStats { return w.Calls.Stats() }

func (w *pipeConn) close(context.Context) { w.Close(w.Cut()) }
