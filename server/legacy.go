// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacy is the dialect of the revisions up to 2025-11-25.
type legacyEncoder struct {
	lists *listCache // may be nil
}

// result takes away what only modern results have, and says what the client's
// revision cannot carry in what it can. A legacy client cannot be told that input is
// required: whoever serves it must ask.
func (enc legacyEncoder) result(room []byte, id mcp.ID, req *mcp.Request, res *mcp.Result) session.Message {
	if t := res.Type(); t == mcp.ResultInputRequired {
		err := mcp.Errorf(mcp.CodeInternalError, "internal error: the result of %s is %q, which %s cannot say", req.Method, t, req.Client.Version)
		return session.Message{Head: mcp.AppendError(nil, id, err)}
	}
	if isList(req.Method) {
		v := req.Client.Version
		whole := enc.lists.get(v, res, func() mcp.Object { return legacyObject(v, req.Method, res) })
		return resultMessage(room, id, &mcp.Edit{}, &whole)
	}
	res = revision.Result(req.Client.Version, req.Method, res)
	e := removeModernFields(&res.Object)
	return resultMessage(room, id, &e, &res.Object)
}

// failure gives the codes that only modern clients know the meaning that they have in
// the legacy era.
func (legacyEncoder) failure(id mcp.ID, req *mcp.Request, err *mcp.Error) session.Message {
	return session.Message{Head: mcp.AppendError(nil, id, revision.Error(mcp.EraLegacy, req, err))}
}

// ackDialect is the dialect of a request that the edge has done itself, and that
// the Handler only hears of: the answer is {}, whatever the Handler makes of it.
type ackEncoder struct{ legacyEncoder }

func (enc ackEncoder) result(room []byte, id mcp.ID, req *mcp.Request, _ *mcp.Result) session.Message {
	return enc.legacyEncoder.result(room, id, req, &mcp.Result{})
}

func (enc ackEncoder) failure(id mcp.ID, req *mcp.Request, err *mcp.Error) session.Message {
	if err.Code == mcp.CodeMethodNotFound {
		return enc.legacyEncoder.result(nil, id, req, &mcp.Result{})
	}
	return enc.legacyEncoder.failure(id, req, err)
}

// legacyRequest makes the request of the inside out of a message of a session:
// what a modern client says in each request, a legacy one has said once, and the
// session remembers it for the edge alone.
func legacyRequest(sess *session.Session, m *mcp.Message) mcp.Request {
	return mcp.Request{
		Method:    m.Method,
		Params:    m.Params,
		Client:    sess.Client,
		LogLevel:  sess.Level(),
		Principal: sess.Principal,
		Scope:     sess.Scope,
	}
}

// legacyTask begins the exchange of a request. The error is one of the session's
// refusals, or the answer to the request itself.
func (s *Server) beginLegacyRequest(ctx context.Context, sess *session.Session, m *mcp.Message) (context.Context, *inflightRequest, error) {
	enc := encoder(legacyEncoder{&s.lists})
	switch m.Method {
	case "initialize":
		return nil, nil, mcp.Errorf(mcp.CodeInvalidRequest, "the session is already initialized")
	// The inside has these two. A legacy client is told by initialize what it is
	// served, and on its standalone stream what has changed.
	case "server/discover", "subscriptions/listen":
		return nil, nil, mcp.Errorf(mcp.CodeMethodNotFound, "method %q does not exist in %s", m.Method, sess.Client.Version)
	case "logging/setLevel":
		level, err := levelParam(m)
		if err != nil {
			return nil, nil, err
		}
		// Ours to do and the Handler's to know: a level is the session's, whatever
		// the servers behind make of it.
		sess.SetLevel(level)
		enc = ackEncoder{}
	}
	if err := checkProgressToken(m); err != nil {
		return nil, nil, err
	}
	via, err := s.legacyTaskHandlerOf(sess, m)
	if err != nil {
		return nil, nil, err
	}
	if !m.ID.IsZero() {
		if err := s.checkPending(sess.Principal); err != nil {
			return nil, nil, err
		}
	}
	ir := &inflightRequest{handler: via, original: legacyRequest(sess, m)}
	s.trackMemory(ir)
	ctx = ir.begin(ctx, &ir.original, enc)
	if own := s.subscriptionHandler(sess, m); own != nil {
		ir.handler = own
	}
	x, err := sess.Begin(m.ID, ir.stop)
	if err != nil {
		ir.stop.End(err)
		return nil, nil, err
	}
	ir.x = x
	caller := ir.firstAttempt(s)
	caller.askSession = sess
	ir.caller = caller
	return ctx, ir, nil
}

// levelParam reads the level that a client sets. An unknown one is refused rather
// than taken for the nearest: the client would wait for messages that never come.
func levelParam(m *mcp.Message) (mcp.LogLevel, error) {
	text, ok := m.Params.Text(mcp.FieldLevel)
	if !ok {
		return 0, mcp.Errorf(mcp.CodeInvalidParams, "params.level must be a string")
	}
	level, ok := mcp.ParseLogLevel(text)
	if !ok {
		return 0, mcp.Errorf(mcp.CodeInvalidParams, "unknown log level %s", escape(text))
	}
	return level, nil
}

// legacyNotified does what a notification of the client asks for. There is
// nobody to tell if that fails (2025-11-25, basic/utilities/cancellation, "Error
// Handling").
func (s *Server) legacyNotification(ctx context.Context, sess *session.Session, m *mcp.Message, remote string) {
	switch m.Method {
	case "notifications/initialized":
		sess.Initialized()
	case "notifications/cancelled":
		raw := m.Params.Raw(mcp.FieldRequestID)
		if id, err := mcp.ParseID(raw); err != nil || !sess.Cancel(id, errCancelled) {
			s.observeIdleCancel(ctx, Event{Principal: sess.Principal, Remote: remote, Session: sess.Scope.Key()}, raw)
		}
	case "notifications/roots/list_changed":
		s.forwardNotification(ctx, sess, m, false)
	case "notifications/tasks/status":
		if tasks.ClientOfferOf(sess.Client.Capabilities).Any() {
			s.forwardNotification(ctx, sess, m, true)
		}
	}
}

// forward hands a notification to the Handler, as a request without an answer.
// It counts as a request in flight, so that a flood of them is bounded; what is
// beyond is dropped. ordered has it wait for those of its like that came before.
func (s *Server) forwardNotification(ctx context.Context, sess *session.Session, m *mcp.Message, ordered bool) {
	note := *m
	note.ID = mcp.ID{} // a notification that somebody gave an id is none
	ctx, ir, err := s.beginLegacyRequest(ctx, sess, &note)
	if err != nil {
		s.counts.Dropped.Add(1)
		return
	}
	ir.encoder = ackEncoder{}
	if ordered {
		ir.handler = s.serialize(sess)
	}
	if !s.start(ctx, ir) {
		ir.x.Cancel(errDraining)
	}
}

// legacyAnswered completes the question that a response answers. An answer that
// is no valid error is an error all the same: the client has spoken, and whoever
// asked must not wait for more (I3). One that answers nothing is accepted and
// counted, because it may have crossed the question's end on the wire.
func (s *Server) legacyResponse(ctx context.Context, sess *session.Session, m *mcp.Message, remote string) {
	end := session.Terminal{}
	if m.Kind == mcp.KindResult {
		end.Result = &m.Result
	} else if e, err := m.WireError(); err == nil {
		end.Err = e
	} else {
		end.Err = mcp.Errorf(mcp.CodeInternalError, "the client's answer is no valid error: %v", err)
	}
	if !sess.Answer(m.ID, end) {
		s.observeIn(ctx, sess, remote, Stray, m.ID.String())
	}
}

// pong answers a ping. It is made here and not by the Handler, because a ping asks
// whether we are there, and must be answered promptly whatever the backends do.
func pong(id mcp.ID) session.Message {
	return session.Message{Head: mcp.AppendResult(nil, id, nil)}
}
