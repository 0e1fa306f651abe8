// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// modernPipe carries modern requests over one pipe that all clients share: what
// comes back names its request by its id, its progress token, or its
// subscription (2026-07-28, basic/transports/stdio).
type modernPipe struct {
	*pipe
	abandoned abandoned
	logs      logRouting
	listens   sharedListen // of all listens
}

func newModernPipe(p *pipe) *modernPipe {
	w := &modernPipe{pipe: p}
	p.setOnAnswer(func(id mcp.ID) {
		w.logs.answered(id)
		w.listens.noteAnswer(id)
	})
	p.attach(w.take)
	return w
}

// open refuses a pipe that has ended in a way that has the server started anew.
func (w *modernPipe) open(method string) (*session.Call, error) {
	call, err := w.calls.Open(method)
	if err != nil {
		return nil, &rejected{why: wrongEra, err: w.unavailable(err, "its process has ended")}
	}
	return call, nil
}

func (w *modernPipe) carry(ctx context.Context, f outboundCall, out outboundRequest) (*mcp.Result, error) {
	// Before it is sent: the first log message may be faster than we are.
	if out.logs != mcp.LogNone {
		w.logs.begin(f.call.ID(), out.logs, f.req.Scope)
		defer w.logs.end(f.call.ID())
	}
	w.served.note(f.req)
	f.call.SetRequest(f.req)
	w.begin(f.call, out.msg)
	return f.run(ctx)
}

func (w *modernPipe) abandon(call *session.Call) {
	w.abandoned.note()
	w.logs.abandon(call.ID())
	w.pipe.abandon(call)
}

// refreshHeaders: on a pipe there are no headers to be refused for.
func (w *modernPipe) refreshHeaders(context.Context, *modern, *mcp.Request) bool { return false }

func (w *modernPipe) sharedPipe() *modernPipe { return w }

// take hands on what is no response. A message that names no call is given to
// the only one that it can belong to, or to nobody.
func (w *modernPipe) take(m *mcp.Message) {
	switch m.Kind {
	case mcp.KindNotification:
	case mcp.KindRequest:
		// A modern server has no requests to make (basic/transports/stdio). One
		// that makes them is told, or it waits until its call is given up.
		w.enqueue(mcp.Pieces{mcp.AppendError(nil, m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "%.60q: a server makes no requests in %s", m.Method, mcp.LatestModern))})
		return
	default:
		return
	}
	if call := w.addressee(m); call != nil {
		call.Push(m)
	}
}

// addressee finds the call by what the message names: ids, tokens and subscriptions
// are ours on this pipe, so that no client can name another's. What names nothing is
// given to the only call, unless one was given up lately: the server may still speak
// of that.
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

// levelOf returns the level of a log message. One that is not known may be for
// whoever has asked for any.
func levelOf(m *mcp.Message) mcp.LogLevel {
	name, _ := m.Params.Text(mcp.FieldLevel)
	if level, ok := mcp.ParseLogLevel(name); ok {
		return level
	}
	return mcp.LogEmergency
}

// endListen ends a subscription that the server has torn down
// (basic/patterns/cancellation).
func (w *modernPipe) endListen(m *mcp.Message) {
	call := findCall(&w.calls, m.Params.Raw(mcp.FieldRequestID))
	if call != nil && call.Method() == methodListen {
		call.Finish(session.Terminal{Err: w.lost(nil, "it ended the subscription")})
	}
}

// findCall returns the open call that a token of the wire names, or nil.
func findCall(calls *session.Calls, raw []byte) *session.Call {
	id, err := mcp.ParseID(raw)
	if err != nil {
		return nil
	}
	return calls.Find(id)
}

func (w *modernPipe) stats() session.CallStats { return w.calls.Stats() }

func (w *modernPipe) close(context.Context) { w.pipe.close(w.cut()) }
