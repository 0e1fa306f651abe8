// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// streamSender sends messages on one stream for a Handler.
type streamSender struct {
	server *Server
	stream *session.Stream
}

// send appends the message, and blocks while the stream is full, until ctx ends.
func (o *streamSender) send(ctx context.Context, m session.Message) error {
	return whileFull(ctx, func() (<-chan struct{}, error) { return o.stream.Append(m) })
}

// whileFull calls try until that has found space, or ctx ends. This is how a slow client
// slows down its own Handler and no other (I30): the Handler blocks on its own goroutine,
// and the queue is bounded.
func whileFull(ctx context.Context, try func() (full <-chan struct{}, err error)) error {
	for {
		full, err := try()
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

// drop counts a message that the client did not ask for. It reports success to the
// Handler: that a client wants no logs is not an error.
func (o *streamSender) drop() error {
	o.server.counts.Dropped.Add(1)
	return nil
}

// requestCaller is the Caller of a request that is not a listen. Both eras agree on what
// belongs to a request.
type requestCaller struct {
	streamSender
	mcp.NoExtension
	request       *inflightRequest
	x             *session.Exchange
	req           *mcp.Request     // of the client, which began the exchange
	progressTimer *timer           // sends delayed progress
	token         []byte           // of progress, nil if none was requested
	askSession    *session.Session // the session with the client to ask, nil in the modern era
}

// firstAttempt returns the Caller of a request in the exchange that it began.
func (ir *inflightRequest) firstAttempt(s *Server) *requestCaller {
	ir.attempt = newRequestCaller(s, ir, ir.x, ir.req, &ir.progressTimer)
	return &ir.attempt
}

// newRequestCaller returns the Caller of ir in one of its exchanges, which the client
// began with req.
func newRequestCaller(s *Server, ir *inflightRequest, x *session.Exchange, from *mcp.Request, late *timer) requestCaller {
	return requestCaller{
		streamSender:  streamSender{server: s, stream: x.Stream()},
		request:       ir,
		x:             x,
		req:           from,
		progressTimer: late,
		token:         progressToken(&from.Params),
	}
}

// progressToken returns the progress token in the parameters of a request, or nil if it
// wants no progress. Clients send null for no token.
func progressToken(params *mcp.Object) []byte {
	token := params.Raw(mcp.MetaProgressToken)
	if string(token) == "null" {
		return nil
	}
	return token
}

// checkProgressToken refuses a token of a wrong type: "Progress tokens MUST be a string
// or integer value" (2026-07-28, basic/patterns/progress).
func checkProgressToken(m *mcp.Message) *mcp.Error {
	token := progressToken(&m.Params)
	if token == nil {
		return nil
	}
	if _, err := mcp.ParseID(token); err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "_meta.progressToken must be a string or an integer")
	}
	return nil
}

// Notify sends a notification of the request. Progress without the request's token and
// log messages below the requested level are dropped (2026-07-28,
// basic/patterns/progress; server/utilities/logging). Both are limited in rate; the
// excess is merged or dropped.
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
		if !wants(c.req.LogLevel, n) {
			return c.drop()
		}
		m.Class = session.Log
	case "notifications/tasks/status":
		if c.req.Client.Version != mcp.V20251125 {
			return c.drop() // no other revision has it; the extension has another, on listens only
		}
	}
	m.Head = n.AppendTo(nil, nil)
	if m.Class == session.Plain {
		return c.send(ctx, m)
	}
	return c.report(ctx, m)
}

// report sends a message of limited rate. It blocks while the stream is full, until ctx
// ends, but not for the rate.
func (c *requestCaller) report(ctx context.Context, m session.Message) error {
	return whileFull(ctx, func() (<-chan struct{}, error) {
		due, full, err := c.x.Report(m, time.Now())
		if !due.IsZero() {
			c.progressTimer.after(time.Until(due), c.releaseProgress)
		}
		return full, err
	})
}

func (c *requestCaller) releaseProgress() {
	if due := c.x.Release(time.Now()); !due.IsZero() {
		c.progressTimer.after(time.Until(due), c.releaseProgress)
	}
}

// wants reports whether a log message passes the level. A message of an unknown level
// passes only if no level was set.
func wants(least mcp.LogLevel, n *mcp.Notification) bool {
	text, _ := n.Params.Text(mcp.FieldLevel)
	level, ok := mcp.ParseLogLevel(text)
	return least == mcp.LogUnset || ok && least.Wants(level)
}

// Start sends a question to the client of the request. Questions are sent in the order of
// the calls.
func (c *requestCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	if c.askSession == nil && !mcp.IsMethod(req.Method) {
		return nil, checkDeclared(c.req.Client, req) // nothing could carry it
	}
	if c.askSession == nil {
		return nil, &mcp.Fault{
			Code: mcp.CodeUnsupported,
			Message: fmt.Sprintf("%s cannot be sent to a client of %s during %s, only during tools/call, prompts/get and resources/read",
				req.Method, mcp.V20260728, c.req.Method),
		}
	}
	return c.server.startAsk(ctx, c.askSession, c.stream, req)
}

// Extension returns the Caller itself, which can poll and receive.
func (c *requestCaller) Extension() mcp.CallerExtension { return c }

// modernCaller returns the Caller of a modern request. The stream of a listen is held
// before any message can be appended to it: earlier messages wait there for the
// acknowledgement, which goes first.
func (s *Server) modernCaller(ir *inflightRequest) mcp.Caller {
	if ir.kind == kindListen {
		ir.x.HoldUntilOpening()
		filter, _ := listen.ParseFilter(&ir.req.Params) // an invalid one requests nothing
		return &listenCaller{streamSender: streamSender{server: s, stream: ir.x.Stream()}, id: ir.x.ID(), filter: filter}
	}
	first := ir.firstAttempt(s)
	if !mayAsk(ir.req.Method) {
		return first
	}
	ir.parked = &ir.parkedValue
	s.parked.Register(ir.parked, ir, first)
	ir.mrtr = mrtrCaller{server: s, request: ir}
	return &ir.mrtr
}

// listenCaller is the Caller of a modern subscriptions/listen. Messages that the Handler
// sends before the acknowledgement are held back until then (2026-07-28,
// basic/patterns/subscriptions, "Acknowledgment").
type listenCaller struct {
	streamSender
	notifyOnly
	id     mcp.ID
	filter listen.Filter
}

// Notify sends a change, marked with its subscription. "The server MUST NOT send
// notification types the client has not explicitly requested": the Handler may not have
// read the filter.
func (c *listenCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	m, ok := changeMessage(n)
	if !ok || !requests(&c.filter, n.Method) {
		return c.drop()
	}
	var e mcp.Edit
	e.Set(mcp.MetaSubscriptionID, c.id.AppendTo(nil))
	m.Head = n.AppendTo(nil, &e)
	return c.send(ctx, m)
}

// changeMessage classifies a notification for a listen, and reports false for progress
// and log messages, which belong to other streams. Changes with equal keys replace each
// other, so that a slow client gets one notification for many changes, and always one
// after the last (I33).
func changeMessage(n *mcp.Notification) (session.Message, bool) {
	switch n.Method {
	case listen.MethodAcknowledged:
		return session.Message{Class: session.Opening}, true
	case listen.MethodTools, listen.MethodPrompts, listen.MethodResources:
		return session.Message{Class: session.Change, Key: n.Method}, true
	case listen.MethodUpdated:
		uri, _ := n.Params.Text(mcp.FieldURI)
		return session.Message{Class: session.Change, Key: n.Method + " " + uri}, true
	case listen.MethodTask:
		// The notification contains the whole state of the task, so the newest replaces
		// earlier ones if a client is slow.
		id, _ := n.Params.Text(mcp.FieldTaskID)
		return session.Message{Class: session.Progress, Key: n.Method + " " + id}, true
	case "notifications/progress", "notifications/message":
		return session.Message{}, false
	default:
		return session.Message{Class: session.Plain}, true
	}
}

// notifyOnly is the part of a Caller of a listen that is the same for all of them: a
// listen has no questions.
type notifyOnly struct{}

// Start fails.
func (notifyOnly) Start(_ context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeInvalidRequest, "%s does not belong to a subscription", req.Method)
}

// Extension returns one that can do nothing.
func (notifyOnly) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// requests reports whether a filter requests a type of notifications. The Handler filters
// by resource and task, since only it knows their relations. Other types pass.
func requests(f *listen.Filter, method string) bool {
	switch method {
	case listen.MethodTools:
		return f.Tools
	case listen.MethodPrompts:
		return f.Prompts
	case listen.MethodResources:
		return f.Resources
	case listen.MethodUpdated:
		return len(f.URIs) > 0
	case listen.MethodTask:
		return len(f.TaskIDs) > 0
	default:
		return true
	}
}

// startAsk sends a question to a legacy client on a stream: that of the request which the
// question belongs to, or the standalone one. It is Start of a Caller.
func (s *Server) startAsk(ctx context.Context, sess *session.Session, stream *session.Stream, req *mcp.Request) (func() (*mcp.Result, error), error) {
	if err := checkDeclared(sess.Client, req); err != nil {
		return nil, err
	}
	a, err := stream.Ask(req.Method, legacyAsk(sess.Client.Version, req), req.Params.Beside())
	if err != nil {
		return nil, askFault(err)
	}
	return func() (*mcp.Result, error) { return s.awaitAnswer(ctx, stream, a) }, nil
}

// askDelivery is how long a question that belongs to no request waits for the client to
// open a stream.
const askDelivery = 10 * time.Second

// awaitAnswer waits for the answer to a question until ctx ends, and no longer than
// limits.inputWait, as in the modern era. The bound is needed because a Handler may have
// stopped the clock of its request while it asks, so that nothing else ends the request
// of a client that never answers. A question that no consumer has taken within
// askDelivery is on no connection and fails early, so that a Handler does not hang on a
// client that never opened a stream (I37).
func (s *Server) awaitAnswer(ctx context.Context, stream *session.Stream, a *session.Ask) (*mcp.Result, error) {
	asked := time.Now()
	late, unanswered := time.NewTimer(askDelivery), time.NewTimer(s.cfg.Limits.InputWait)
	defer late.Stop()
	defer unanswered.Stop()
	for {
		select {
		case <-a.Done():
			end := a.Answer()
			return end.Result, askFault(end.Err)
		case <-late.C:
			if more := askDelivery + stream.Retry() - time.Since(asked); more > 0 {
				late.Reset(more) // the client was given a time to reconnect
				continue
			}
			stream.WithdrawUntaken(a, session.ErrNoReceiver)
		case <-unanswered.C:
			s.withdraw(stream, a, &mcp.Fault{
				Code:    mcp.CodeDeadline,
				Message: fmt.Sprintf("the client did not answer within %v (limits.inputWait)", s.cfg.Limits.InputWait),
			})
		case <-ctx.Done():
			s.withdraw(stream, a, context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
	}
}

// legacyAsk returns the parameters of a question for a client of the revision. A URL
// elicitation needs an id in the legacy era. A form needs no mode, and before 2025-11-25
// a client may not know that member.
func legacyAsk(v mcp.Version, req *mcp.Request) []byte {
	params := revision.Ask(v, req.Method, &req.Params)
	if req.Method != "elicitation/create" {
		return params
	}
	switch mode, _ := req.Params.Text(mcp.FieldMode); {
	case mode != "url" && v >= mcp.V20251125:
		return params
	case mode != "url":
		return withoutMember(params, "mode")
	}
	for name := range jsonscan.Members(params) {
		if name == "elicitationId" {
			return params
		}
	}
	return jsonscan.WithMember(params, "elicitationId", jsonscan.AppendString(nil, rand.Text()))
}

func withoutMember(object []byte, member string) []byte {
	return jsonscan.RewriteMembers(object, func(name string, value []byte) []byte {
		if name == member {
			return nil
		}
		return value
	})
}

// withdraw cancels a question, and notifies the client if the question was sent.
func (s *Server) withdraw(stream *session.Stream, a *session.Ask, why error) {
	if !stream.Withdraw(a, why) {
		return
	}
	// Dropped if the stream is full: the client's answer is ignored anyway.
	_, _ = stream.Append(a.Withdrawal())
}

// askFault returns the error of a question without an answer for the Handler. It is a
// Fault, which reaches the server that asked as an error of its own request and never as
// an invented answer.
func askFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, session.ErrNoReceiver):
		return &mcp.Fault{Code: mcp.CodeUnsupported, Message: "the client has no open stream for the question", Cause: err}
	case errors.Is(err, session.ErrTooMany):
		return &mcp.Fault{Code: mcp.CodeLimit, Message: "the client has too many questions to answer", Cause: err}
	case errors.Is(err, session.ErrEnded):
		return &mcp.Fault{Code: mcp.CodeSessionEnded, Message: "the session of the client has ended", Cause: err}
	default:
		return err
	}
}

// checkDeclared refuses a question that the client did not declare it can answer
// (2025-11-25, basic/lifecycle, "Operation"; 2026-07-28, basic/patterns/mrtr, "Server
// Requirements").
func checkDeclared(client *mcp.Peer, req *mcp.Request) error {
	missing, known := question.Missing(client.Capabilities, req)
	switch {
	case missing != "":
		return question.Undeclared(req.Method, missing)
	case known:
		return nil
	}
	if req.Passed && client.PassesExtensions && client.Version.Era() == mcp.EraLegacy {
		return nil
	}
	switch req.Method {
	case "tasks/get", "tasks/result", "tasks/list", "tasks/cancel":
		// (2025-11-25, basic/utilities/tasks, "Client Capabilities")
		if client.Version.Era() == mcp.EraLegacy && task.ClientOfferOf(client.Capabilities).Serves(req.Method) {
			return nil
		}
		return mcp.Errorf(mcp.CodeMethodNotFound, "the client did not declare %s", req.Method)
	default:
		return mcp.Errorf(mcp.CodeMethodNotFound, "a client cannot be asked for %s", escape(req.Method))
	}
}
