// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyGet carries the standalone stream of a session. A second GET takes over
// from the first; one that is stuck counts until its write has failed. While it is
// open, the changes that the client's view undergoes come from an inner
// subscriptions/listen. Who names an event gets what followed on that event's
// stream, whichever that is.
func (s *Server) legacyGet(p *response, r *http.Request, principal string) *refusal {
	if no := s.checkAcceptStream(r); no != nil {
		return no
	}
	sess, no := s.legacySession(r, principal, mcp.ID{})
	if no != nil {
		return no
	}
	last := r.Header.Values(lastEventHeader)
	if len(last) == 0 {
		return s.legacyStandalone(p, r, sess, "", sess.Standalone().TryAttach)
	}
	sent := strings.Join(last, ", ")
	ids, ok := s.parseEvents(sent)
	if !ok {
		return s.refuseResume(sess, sent, session.ErrUnknownEvent)
	}
	if len(ids) > 1 || !sess.IsStandalone(ids[0]) {
		return s.legacyResume(p, r, sess, sent, ids)
	}
	return s.legacyStandalone(p, r, sess, sent, func(wake chan struct{}) (*session.Carrier, error) {
		return sess.Resume(ids[0], wake, time.Now())
	})
}

// legacyStandalone carries the standalone stream. sent is the event after which it
// is resumed, "" where it is not.
func (s *Server) legacyStandalone(p *response, r *http.Request, sess *session.Session, sent string, attach func(chan struct{}) (*session.Carrier, error)) *refusal {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	fl := &flight{kind: standing, cancel: cancel}
	if !s.flights.enter(fl) {
		return refuseDraining(mcp.ID{})
	}
	defer s.flights.leave(fl)
	c, err := attach(make(chan struct{}, 1))
	if err != nil {
		return s.refuseResume(sess, sent, err)
	}
	defer c.Detach()
	if !s.listenFor(ctx, sess, nil) {
		return refuseDraining(mcp.ID{})
	}
	p.beginStream()
	s.carry(p, sess, c, ctx.Done())
	if fl.tornDown.Load() {
		// (2025-11-25, basic/transports, "Sending Messages to the Server")
		p.write(frame.AppendRetry(nil, comeBackAfter+jitter(comeBackAfter)))
	}
	return nil
}

// comeBackAfter is the shortest time after which a client is to open its stream
// again that we have ended. The longest is twice that.
const comeBackAfter = time.Second

// listenFor has the Handler tell what changes in the session's view, until ctx
// ends. It returns at once. The goroutine ends when the Handler returns;
// Shutdown and Close wait for it, and so does the group if there is one. It
// reports false when the server is draining.
func (s *Server) listenFor(ctx context.Context, sess *session.Session, group *sync.WaitGroup) bool {
	ctx, cancel := context.WithCancelCause(ctx)
	fl := &flight{kind: inner, cancel: cancel}
	if !s.flights.enter(fl) {
		cancel(errDraining)
		return false
	}
	if group != nil {
		group.Add(1)
	}
	go func() { // ends when the Handler returns; Shutdown and Close wait for its flight
		if group != nil {
			defer group.Done()
		}
		defer s.flights.leave(fl)
		defer cancel(nil)
		req := listenRequest(sess)
		_, err := s.serve(ctx, req, &changes{outlet{server: s, stream: sess.Standalone()}})
		if err != nil && ctx.Err() == nil {
			s.log.DebugContext(ctx, "no changes to listen to", slog.String("session", sess.Scope.Key()), slog.Any("error", err))
		}
	}()
	return true
}

// listenRequest asks for what a legacy client is told without asking.
func listenRequest(sess *session.Session) *mcp.Request {
	const all = `{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`
	params, err := mcp.ParseObject([]byte(all))
	if err != nil {
		params = mcp.Object{} // the text above parses
	}
	return &mcp.Request{
		Method:    "subscriptions/listen",
		Params:    params,
		Client:    sess.Client,
		LogLevel:  sess.Level(),
		Principal: sess.Principal,
		Scope:     sess.Scope,
	}
}

// changes is the Caller of the inner listen of a session. A legacy client knows
// nothing of the subscription: the acknowledgement is not for it.
type changes struct{ outlet }

// Notify puts a change on the standalone stream.
func (c *changes) Notify(ctx context.Context, n *mcp.Notification) error {
	m, ok := changeMessage(n)
	if !ok {
		return c.drop()
	}
	if m.Class == session.Opening {
		return nil
	}
	var e mcp.Edit
	if n.Params.Has(mcp.MetaSubscriptionID) {
		e.Delete(mcp.MetaSubscriptionID)
	}
	m.Head = mcp.AppendNotification(nil, n.Method, legacyParams(n, &e))
	return c.put(ctx, m)
}

// legacyParams returns the parameters as they came, but for the edit. A
// notification without any gets none: null is not what was omitted.
func legacyParams(n *mcp.Notification, e *mcp.Edit) []byte {
	if n.Params.IsZero() {
		return nil
	}
	return e.AppendTo(nil, &n.Params)
}

// Ask puts a question that belongs to no request.
func (c *changes) Ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeInvalidRequest, "%s does not belong to a subscription", req.Method)
}

// unrelated is the Caller of a session: the address of what belongs to none of
// its requests.
type unrelated struct {
	outlet
	sess *session.Session
}

// standalone returns the Caller whose messages go to the standalone stream. It
// lives as long as the session.
func (s *Server) standalone(sess *session.Session) mcp.Caller {
	return &unrelated{outlet{server: s, stream: sess.Standalone()}, sess}
}

// Notify puts the notification on the standalone stream. It never waits: where
// the client does not listen, or slowly, all but changes are dropped.
func (c *unrelated) Notify(_ context.Context, n *mcp.Notification) error {
	m, ok := changeMessage(n)
	switch {
	case n.Method == "notifications/message" && wants(c.sess.Level(), n):
		m.Class = session.Log
	case !ok || m.Class == session.Opening:
		return c.drop()
	}
	m.Head = mcp.AppendNotification(nil, n.Method, n.Params.Bytes())
	full, err := c.stream.Append(m)
	if full != nil {
		return c.drop()
	}
	return err
}

// Ask puts the question on the standalone stream, and waits for a while for the
// client to open it.
func (c *unrelated) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	return c.server.ask(ctx, c.sess, c.stream, req)
}
