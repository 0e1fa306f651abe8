// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const methodAcknowledged = "notifications/subscriptions/acknowledged"

// outlet is the way out of one stream, as a Handler sees it: what may be sent
// is made into messages, and waits for room.
type streamSender struct {
	server *Server
	stream *session.Stream
}

// put appends the message, waiting for room until ctx ends. This is how a slow
// client slows down whoever talks to it, and nobody else (I30): the wait is the
// Handler's, in its own goroutine, and the queue behind it has a bound.
func (o *streamSender) send(ctx context.Context, m session.Message) error {
	for {
		full, err := o.stream.Append(m)
		if full == nil {
			return err
		}
		select {
		case <-full:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drop counts a message that the client did not ask for. To the Handler it has
// succeeded: that a client wants no logs is no error of whoever logs.
func (o *streamSender) drop() error {
	o.server.counts.Dropped.Add(1)
	return nil
}

// related is the Caller of a request that is no listen: both eras agree on what
// belongs to one.
type requestCaller struct {
	streamSender
	request       *inflightRequest
	x             *session.Exchange
	req           *mcp.Request // the client's, which began the exchange
	progressTimer *timer       // progress that is kept back has its time
	token         []byte       // of progress, nil where none was asked for
	level         mcp.LogLevel
	askSession    *session.Session // whose client it can ask, nil in the modern era
}

// firstLeg returns the Caller of a task whose exchange has begun.
func (ir *inflightRequest) firstAttempt(s *Server) *requestCaller {
	ir.attempt = newRequestCaller(s, ir, ir.x, ir.req, &ir.progressTimer)
	return &ir.attempt
}

// legOf returns the Caller of a task in one of its exchanges, which that request
// of the client has begun.
func newRequestCaller(s *Server, ir *inflightRequest, x *session.Exchange, from *mcp.Request, late *timer) requestCaller {
	return requestCaller{
		streamSender:  streamSender{server: s, stream: x.Stream()},
		request:       ir,
		x:             x,
		req:           from,
		progressTimer: late,
		token:         progressToken(from),
		level:         from.LogLevel,
	}
}

// progressToken returns the token under which a request wants to hear of its
// progress, nil if it does not. A null is no token.
func progressToken(req *mcp.Request) []byte {
	token := req.Params.Raw(mcp.MetaProgressToken)
	if token == nil {
		return nil
	}
	if _, err := mcp.ParseID(token); err != nil {
		return nil
	}
	return token
}

// checkProgressToken refuses a token of a wrong type: "Progress tokens MUST be a string or
// integer value" (2026-07-28, basic/patterns/progress). A null passes, because clients
// send it for none.
func checkProgressToken(m *mcp.Message) *mcp.Error {
	token := m.Params.Raw(mcp.MetaProgressToken)
	if token == nil || string(token) == "null" {
		return nil
	}
	if _, err := mcp.ParseID(token); err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "_meta.progressToken must be a string or an integer")
	}
	return nil
}

// Notify sends what belongs to the request. Progress without its token, and log
// messages that were not asked for, go nowhere (2026-07-28,
// basic/patterns/progress; server/utilities/logging); where either comes faster
// than anybody can read, the client gets less of it.
func (c *requestCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	m := session.Message{Class: session.Plain}
	switch n.Method {
	case "notifications/progress":
		token := n.Params.Raw(mcp.FieldProgressToken)
		if c.token == nil || !bytes.Equal(token, c.token) {
			return c.drop()
		}
		m.Class, m.Key, m.Value = session.Progress, string(token), n.Params.Raw(mcp.FieldProgress)
	case "notifications/message":
		if !wants(c.level, n) {
			return c.drop()
		}
		m.Class = session.Log
	case "notifications/tasks/status":
		if c.req.Client.Version != mcp.V20251125 {
			return c.drop() // no other revision has it; the extension has another, on listens alone
		}
	}
	m.Head = n.AppendTo(nil, nil)
	if m.Class == session.Plain {
		return c.send(ctx, m)
	}
	return c.report(ctx, m)
}

// report sends what is bounded by a pace, waiting for room until ctx ends, but
// never for its turn.
func (c *requestCaller) report(ctx context.Context, m session.Message) error {
	for {
		due, full, err := c.x.Report(m, time.Now())
		switch {
		case !due.IsZero():
			c.progressTimer.after(time.Until(due), c.releaseProgress)
			return nil
		case full == nil:
			return err
		}
		select {
		case <-full:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// release gives out the progress that was kept back, when its time has come.
func (c *requestCaller) releaseProgress() {
	if due := c.x.Release(time.Now()); !due.IsZero() {
		c.progressTimer.after(time.Until(due), c.releaseProgress)
	}
}

// wants reports whether the level lets a log message pass. One without a level
// that is known passes where no level was set.
func wants(least mcp.LogLevel, n *mcp.Notification) bool {
	text, _ := n.Params.Text(mcp.FieldLevel)
	level, ok := mcp.ParseLogLevel(text)
	return least == mcp.LogUnset || ok && least.Wants(level)
}

// Ask puts a question to the client of the request.
func (c *requestCaller) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	return asking(c.Start).wait(ctx, req)
}

// Start puts a question to the client of the request: the client gets them in the
// order in which they are put.
func (c *requestCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	if c.askSession == nil {
		return nil, cannotAsk(c.req, req)
	}
	return c.server.asker(c.askSession, c.stream)(ctx, req)
}

// modernCaller returns the Caller of a modern request. A listen is held before
// anybody can append to its stream: what is said too early waits there, and is
// not in the way of the acknowledgement.
func (s *Server) modernCaller(ir *inflightRequest) mcp.Caller {
	if ir.kind == kindListen {
		ir.x.HoldUntilOpening()
		return &listenCaller{streamSender: streamSender{server: s, stream: ir.x.Stream()}, id: ir.x.ID(), filter: listenFilterOf(ir.req)}
	}
	if mayAsk(ir.req.Method) {
		return s.makeParkable(ir)
	}
	return ir.firstAttempt(s)
}

// listener is the Caller of a modern subscriptions/listen. What its Handler says
// before the acknowledgement is held back until that is there (2026-07-28,
// basic/patterns/subscriptions, "Acknowledgment").
type listenCaller struct {
	streamSender
	id     mcp.ID
	filter listenFilter
}

// Notify sends a change, marked with the subscription that it belongs to. "The server
// MUST NOT send notification types the client has not explicitly requested": whoever
// is behind may not have read the filter.
func (c *listenCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	m, ok := changeMessage(n)
	if !ok || !c.filter.allows(n.Method) {
		return c.drop()
	}
	var e mcp.Edit
	e.Set(mcp.MetaSubscriptionID, c.id.AppendTo(nil))
	m.Head = n.AppendTo(nil, &e)
	return c.send(ctx, m)
}

// changeMessage classifies what may be said on a listen. Progress and log
// messages belong to other streams. The key says which changes are the same, so
// that a storm of them is one notice to a client that is slow, and there is
// always one after the last (I33).
func changeMessage(n *mcp.Notification) (session.Message, bool) {
	switch n.Method {
	case methodAcknowledged:
		return session.Message{Class: session.Opening}, true
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		return session.Message{Class: session.Change, Key: n.Method}, true
	case "notifications/resources/updated":
		uri, _ := n.Params.Text(mcp.FieldURI)
		return session.Message{Class: session.Change, Key: n.Method + " " + uri}, true
	case "notifications/tasks":
		// All that is to be known of the task is in it, so that the newest says more
		// than those before: these go where a client is slow.
		id, _ := n.Params.Text(mcp.FieldTaskID)
		return session.Message{Class: session.Progress, Key: n.Method + " " + id}, true
	case "notifications/progress", "notifications/message":
		return session.Message{}, false
	default:
		return session.Message{Class: session.Plain}, true
	}
}

// Ask fails: a listen asks nothing.
func (c *listenCaller) Ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeInvalidRequest, "%s does not belong to a subscription", req.Method)
}
