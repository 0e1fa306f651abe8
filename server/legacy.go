// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyRequest returns the request to the Handler for a message of a session. What a
// modern client sends in each request, a legacy client has sent once; the session keeps
// it for the edge only.
func legacyRequest(sess *session.Session, m *mcp.Message, identity *mcp.Identity) mcp.Request {
	return mcp.Request{
		Method:    m.Method,
		Params:    m.Params,
		Client:    sess.Client,
		LogLevel:  sess.Level(),
		Principal: sess.Principal,
		Identity:  identity,
		Profile:   sess.Profile,
		Scope:     sess.Scope,
	}
}

// beginLegacyRequest begins the exchange of a request.
func (s *Server) beginLegacyRequest(ctx context.Context, sess *session.Session, m *mcp.Message, identity *mcp.Identity) (context.Context, *inflightRequest, *refusal) {
	enc, handler, wireErr := s.routeLegacy(sess, m)
	if wireErr != nil {
		status := http.StatusOK // of an error of the method
		if wireErr.Code == mcp.CodeInvalidRequest {
			status = http.StatusBadRequest
		}
		return nil, nil, refuseMessage(status, m.ID, wireErr)
	}
	if !m.ID.IsZero() {
		if no := s.checkPending(m.ID, sess.Principal); no != nil {
			return nil, nil, no
		}
	}
	ir := &inflightRequest{handler: handler, original: legacyRequest(sess, m, identity)}
	s.trackMemory(ir)
	ir.startTimeline()
	ctx = ir.begin(ctx, &ir.original, enc)
	x, err := sess.Begin(m.ID, ir.stop)
	if err != nil {
		ir.stop(err)
		return nil, nil, s.refuseBegin(m.ID, err)
	}
	ir.x = x
	caller := ir.firstAttempt(s)
	caller.askSession = sess
	ir.caller = caller
	return ctx, ir, nil
}

// routeLegacy returns the encoder of a request and its Handler, nil for that of the
// server. The error is the answer to the request.
func (s *Server) routeLegacy(sess *session.Session, m *mcp.Message) (enc encoder, handler mcp.Handler, err *mcp.Error) {
	enc = legacyEncoder{&s.lists}
	switch m.Method {
	case "initialize":
		return nil, nil, mcp.Errorf(mcp.CodeInvalidRequest, "the session is already initialized")
	// The Handler has these two. A legacy client learns its capabilities from initialize,
	// and changes from its standalone stream.
	case "server/discover", "subscriptions/listen":
		return nil, nil, mcp.Errorf(mcp.CodeMethodNotFound, "method %q does not exist in %s", m.Method, sess.Client.Version)
	case "logging/setLevel":
		level, err := levelParam(m)
		if err != nil {
			return nil, nil, err
		}
		// Set here, and the Handler is notified: the level belongs to the session,
		// whatever the backends do with it.
		sess.SetLevel(level)
		enc = ackEncoder{}
	case "resources/subscribe":
		handler = s.subscriptionHandler(sess, s.subscribe)
	case "resources/unsubscribe":
		handler = s.subscriptionHandler(sess, s.unsubscribe)
	}
	if err := checkProgressToken(m); err != nil {
		return nil, nil, err
	}
	if handler == nil {
		handler, err = s.legacyTaskHandlerOf(sess, m)
	}
	return enc, handler, err
}

// levelParam reads the level that a client sets. An unknown one is refused rather than
// rounded: the client would wait for messages that are never sent.
func levelParam(m *mcp.Message) (mcp.LogLevel, *mcp.Error) {
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

// scoped returns the value of type T in the scope of a session. The first call creates it
// with build. If the value has a method end, that is called when the scope ends. The result
// is nil if the scope has ended.
func scoped[T any](scope *mcp.Scope, build func() *T) *T {
	type key struct{} // one for each T
	var made *T
	v, _ := scope.Value(key{}, func() any {
		made = build()
		return made
	})
	if e, ok := any(made).(interface{ end() }); ok && made != nil && !scope.OnEnd(e.end) {
		e.end()
	}
	kept, _ := v.(*T)
	return kept
}

// legacyNotification handles a notification of the client. Failures get no response
// (2025-11-25, basic/utilities/cancellation, "Error Handling").
func (s *Server) legacyNotification(ctx context.Context, sess *session.Session, m *mcp.Message, identity *mcp.Identity, remote string) {
	switch m.Method {
	case "notifications/initialized":
		sess.Initialized()
	case "notifications/cancelled":
		raw := m.Params.Raw(mcp.FieldRequestID)
		if id, err := mcp.ParseID(raw); err != nil || !sess.Cancel(id, errCancelled) {
			s.observeIdleCancel(ctx, Event{Principal: sess.Principal, Remote: remote, Session: sess.Scope.Key()}, raw)
		}
	case "notifications/roots/list_changed":
		s.forwardNotification(ctx, sess, m, identity, false)
	case "notifications/tasks/status":
		if task.ClientOfferOf(sess.Client.Capabilities).Any() {
			s.forwardNotification(ctx, sess, m, identity, true)
		}
	default:
		if sess.Client.PassesExtensions && !mcp.IsMethod(m.Method) {
			s.forwardNotification(ctx, sess, m, identity, true)
		}
	}
}

// forwardNotification passes a notification to the Handler, as a request without an
// answer. It counts as a request in flight, so that their number is bounded; the excess
// is dropped. If ordered is set, it waits for earlier ones of its kind.
func (s *Server) forwardNotification(ctx context.Context, sess *session.Session, m *mcp.Message, identity *mcp.Identity, ordered bool) {
	note := *m
	note.ID = mcp.ID{} // drops an id that a client gave to the notification
	ctx, ir, no := s.beginLegacyRequest(ctx, sess, &note, identity)
	if no != nil {
		s.counts.Dropped.Add(1)
		return
	}
	ir.encoder = ackEncoder{}
	ir.original.Passed = !mcp.IsMethod(m.Method)
	if ordered {
		ir.handler = s.serialize(sess)
	}
	if !s.start(ctx, ir) {
		ir.x.Cancel(errDraining)
	}
}

// serialQueue passes the notifications of a session that supersede each other to the
// Handler one at a time, each when the Handler has returned from the one before.
type serialQueue struct {
	mu   sync.Mutex
	last <-chan struct{} // closed when the newest has been handled, nil before the first
}

// next returns a channel that is closed when the next notification may be handled, nil if
// it may be at once, and a function to call when it has been.
func (q *serialQueue) next() (before <-chan struct{}, over func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	done := make(chan struct{})
	before, q.last = q.last, done
	return before, func() { close(done) }
}

// serialize returns the Handler for the next such notification, which must be passed to
// it.
func (s *Server) serialize(sess *session.Session) mcp.Handler {
	q := scoped(sess.Scope, func() *serialQueue { return new(serialQueue) })
	if q == nil {
		return s.handler // the session has ended
	}
	before, over := q.next()
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		defer over()
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return s.handler.Serve(ctx, req, caller)
	})
}

// legacyResponse completes the question that a response answers. A malformed error counts
// as an error: the client has answered, and the Handler must not wait any longer (I3). A
// response to no question is accepted and counted, because it may have crossed the end of
// the question on the wire.
func (s *Server) legacyResponse(ctx context.Context, sess *session.Session, m *mcp.Message, remote string) {
	end := session.Terminal{}
	if m.Kind == mcp.KindResult {
		end.Result = &m.Result
	} else if e, err := m.WireError(); err == nil {
		end.Err = e
	} else {
		end.Err = mcp.Errorf(mcp.CodeInternalError, "the client's response is not a valid error: %v", err)
	}
	if !sess.Answer(m.ID, end) {
		s.observeIn(ctx, sess, remote, Event{Kind: Stray, Detail: m.ID.String()})
	}
}

// pong answers a ping. The edge answers it and not the Handler: a ping asks whether the
// server responds, and must be answered promptly whatever the backends do.
func pong(id mcp.ID) session.Message {
	return session.Message{Head: jsonrpc.AppendResult(nil, id, nil)}
}

// legacyEncoder is the encoder of the revisions up to 2025-11-25.
type legacyEncoder struct {
	lists *listCache // may be nil
}

// result removes the modern fields and translates the rest for the client's revision. A
// legacy client cannot receive an input_required result: its Handler must ask.
func (enc legacyEncoder) result(buf []byte, id mcp.ID, req *mcp.Request, res *mcp.Result) session.Message {
	if !mcp.IsMethod(req.Method) {
		return resultMessage(buf, id, &mcp.Edit{}, &res.Object) // of an extension that is not known
	}
	if t := res.Type(); t == mcp.ResultInputRequired {
		err := mcp.Errorf(mcp.CodeInternalError, "internal error: the result of %s is %q, which %s does not have", req.Method, t, req.Client.Version)
		return session.Message{Head: jsonrpc.AppendError(nil, id, err)}
	}
	if isList(req.Method) {
		v := req.Client.Version
		whole := enc.lists.get(v, res, func() mcp.Object { return legacyObject(v, req.Method, res) })
		return resultMessage(buf, id, &mcp.Edit{}, &whole)
	}
	res = revision.Result(req.Client.Version, req.Method, res)
	e := removeModernFields(&res.Object)
	return resultMessage(buf, id, &e, &res.Object)
}

// failure translates the error codes that only modern clients know.
func (legacyEncoder) failure(id mcp.ID, req *mcp.Request, err *mcp.Error) session.Message {
	return session.Message{Head: jsonrpc.AppendError(nil, id, revision.Error(mcp.EraLegacy, req, err))}
}

// ackEncoder is the encoder of a request that the edge has handled itself, and that it
// passes to the Handler as information: the answer is {}, also if the Handler does not
// know the method.
type ackEncoder struct{ legacyEncoder }

func (enc ackEncoder) result(buf []byte, id mcp.ID, req *mcp.Request, _ *mcp.Result) session.Message {
	return enc.legacyEncoder.result(buf, id, req, &mcp.Result{})
}

func (enc ackEncoder) failure(id mcp.ID, req *mcp.Request, err *mcp.Error) session.Message {
	if err.Code == mcp.CodeMethodNotFound {
		return enc.legacyEncoder.result(nil, id, req, &mcp.Result{})
	}
	return enc.legacyEncoder.failure(id, req, err)
}

// translations caches results as translated for the legacy revisions. A Handler that
// returns the same result to all clients, such as a catalog, has it translated once for
// each revision. A result that is new each time costs only the entry that marks it as
// seen. The zero value is empty.
type translations[T any] struct {
	seen atomic.Pointer[[]translation[T]]
}

// translation is a result as translated for one revision.
type translation[T any] struct {
	from    weak.Pointer[mcp.Result]
	version mcp.Version
	to      *T // nil if it was seen only once
}

// maxTranslations bounds the cache: some pages of some lists for each revision.
const maxTranslations = 32

// get returns the translation of res for the revision, and calls translate if it is not
// cached.
func (l *translations[T]) get(v mcp.Version, res *mcp.Result, translate func() T) T {
	if l == nil {
		return translate()
	}
	key := translation[T]{from: weak.Make(res), version: v}
	var old []translation[T]
	if p := l.seen.Load(); p != nil {
		old = *p
	}
	i := slices.IndexFunc(old, func(t translation[T]) bool { return t.from == key.from && t.version == v })
	if i >= 0 && old[i].to != nil {
		return *old[i].to
	}
	out := translate()
	if i >= 0 {
		key.to = &out
	}
	// A race loses one of the two entries, and nothing else.
	next := append(make([]translation[T], 0, len(old)+1), key)
	for j, t := range old {
		if j != i && len(next) < maxTranslations && t.from.Value() != nil {
			next = append(next, t)
		}
	}
	l.seen.Store(&next)
	return out
}

// listCache caches the results of list methods.
type listCache = translations[mcp.Object]

// legacyObject returns the result without the modern fields, translated for the revision.
func legacyObject(v mcp.Version, method string, res *mcp.Result) mcp.Object {
	translated := revision.Result(v, method, res)
	e := removeModernFields(&translated.Object)
	out, err := e.Apply(&translated.Object)
	if err != nil {
		return translated.Object // only values that are set can be invalid, and none is
	}
	return out
}

// removeModernFields removes the fields that only modern results have: the type, and the
// caching hints, which only the gateway uses.
func removeModernFields(res *mcp.Object) mcp.Edit {
	var e mcp.Edit
	for _, f := range [...]mcp.Field{mcp.FieldResultType, mcp.FieldTTL, mcp.FieldCacheScope} {
		if res.Has(f) {
			e.Delete(f)
		}
	}
	return e
}

func isList(method string) bool { return strings.HasSuffix(method, "/list") }
