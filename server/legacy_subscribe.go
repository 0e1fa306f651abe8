// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/life"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// subscribing returns who serves a request to subscribe to a resource, or to
// unsubscribe, and nil for any other. The inside has one way to hear of changes:
// each subscription of a session is a subscriptions/listen for one resource, whose
// updates go on the session's standalone stream (2025-11-25, server/resources,
// "Subscriptions").
func (s *Server) subscriptionHandler(sess *session.Session, m *mcp.Message) mcp.Handler {
	var serve func(ctx context.Context, sess *session.Session, uri string) error
	switch m.Method {
	case "resources/subscribe":
		serve = s.subscribe
	case "resources/unsubscribe":
		serve = s.unsubscribe
	default:
		return nil
	}
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		uri, ok := req.Params.Text(mcp.FieldURI)
		if !ok {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.uri must be a string")
		}
		if len(uri) > maxSubscribed {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.uri has %d bytes; a subscription keeps it, and takes %d at most", len(uri), maxSubscribed)
		}
		if err := serve(ctx, sess, uri); err != nil {
			return nil, err
		}
		return &mcp.Result{}, nil
	})
}

// maxSubscribed bounds the URI of a subscription. limits.subscriptions counts them, and
// with it bounds what a session has us keep.
const maxSubscribed = 16 << 10

// subscribe has the session be told of updates of the resource. To subscribe twice
// is to subscribe once.
func (s *Server) subscribe(ctx context.Context, sess *session.Session, uri string) error {
	all, ok := subscriptionsOf(sess)
	if !ok {
		return session.ErrEnded
	}
	most := s.cfg.Limits.Subscriptions
	sub, first := all.getOrCreate(uri, most)
	if sub == nil {
		s.observeIn(ctx, sess, "", Limited, "limits.subscriptions")
		return &mcp.Fault{
			Code: mcp.CodeLimit, Outcome: mcp.NotDispatched,
			Message: strconv.Itoa(most) + " resources are subscribed to (limits.subscriptions)",
		}
	}
	if first && !s.listenResource(ctx, sess, all, sub) {
		all.settle(sub, errShuttingDown())
	}
	select {
	case <-sub.settled:
		return sub.err
	case <-ctx.Done():
		all.leave(sub)
		return context.Cause(ctx)
	}
}

// unsubscribe returns when nothing more will be told. That the session was not
// subscribed is what it wanted to be.
func (s *Server) unsubscribe(ctx context.Context, sess *session.Session, uri string) error {
	all, ok := subscriptionsOf(sess)
	if !ok {
		return session.ErrEnded
	}
	sub := all.remove(uri)
	if sub == nil {
		return nil
	}
	all.settle(sub, nil) // whoever waits to hear that it is there, and no longer is
	sub.cancel(errUnsubscribed)
	// After the end of its life: what is appended later is taken back by who does it.
	sess.Standalone().Retract(sub.prefix)
	late := time.NewTimer(finishGrace)
	defer late.Stop()
	select {
	case <-sub.done:
	case <-late.C: // a Handler that does not end when it is told to
	case <-ctx.Done():
	}
	return nil
}

// follow has the Handler tell of updates of the resource until the subscription
// ends. It returns at once, and reports false when the server is draining.
// Shutdown and Close wait for the goroutine.
func (s *Server) listenResource(ctx context.Context, sess *session.Session, all *subscriptions, sub *subscription) bool {
	entry := &inflight{kind: kindInnerListen, stop: session.StopFunc(sub.cancel)}
	if !s.inflight.add(entry) {
		close(sub.done)
		return false
	}
	// The values are those of the request, and the end is the subscription's own.
	ctx, cancel := context.WithCancelCause(life.Apart(ctx))
	//nolint:contextcheck // the two are meant to be different
	stop := context.AfterFunc(sub.ctx, func() { cancel(context.Cause(sub.ctx)) })
	go func() { // ends with sub.life; Shutdown and Close wait for its flight
		defer s.inflight.remove(entry)
		defer close(sub.done)
		defer sub.cancel(nil)
		defer stop()
		defer cancel(nil)
		s.subscriptionLoop(ctx, sess, &updatesCaller{streamSender: streamSender{server: s, stream: sess.Standalone()}, all: all, sub: sub})
	}()
	return true
}

// keepListening listens, and again where the Handler has ended what it had agreed
// to.
func (s *Server) subscriptionLoop(ctx context.Context, sess *session.Session, u *updatesCaller) {
	relisten(ctx, func() bool {
		_, err := s.serve(ctx, subscriptionRequest(sess, u.sub.uri), u)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = refusedSubscription(u.sub.uri)
		}
		agreed := u.all.settle(u.sub, err) && ctx.Err() == nil
		if agreed {
			s.log.DebugContext(ctx, "a subscription has no listen", slog.String("session", sess.Scope.Key()), slog.Any("error", err))
		}
		return agreed
	})
}

// refusedSubscription is the answer for a resource that nobody will tell of, be it
// that it does not exist, that this client is not to see it, or that its server does
// not tell of changes (2025-11-25, server/resources, "Error Handling").
func refusedSubscription(uri string) error {
	const most = 200
	data, err := json.Marshal(map[string]string{"uri": uri[:min(len(uri), most)]})
	if err != nil {
		data = nil // strings always encode
	}
	return &mcp.Error{Code: mcp.CodeResourceNotFound, Message: "nobody tells of changes of this resource", Data: data}
}

// subscriptionRequest asks for the updates of one resource.
func subscriptionRequest(sess *session.Session, uri string) *mcp.Request {
	params := mcp.AppendString([]byte(`{"notifications":{"resourceSubscriptions":[`), uri)
	req, err := mcp.NewRequest("subscriptions/listen", append(params, "]}}"...))
	if err != nil {
		req = &mcp.Request{Method: "subscriptions/listen"} // the text above parses
	}
	req.Client, req.Principal, req.Scope = sess.Client, sess.Principal, sess.Scope
	return req
}

// updates is the Caller of the inner listen of a subscription.
type updatesCaller struct {
	streamSender
	all *subscriptions
	sub *subscription
}

// Notify puts an update on the standalone stream, where a newer one takes its
// place until somebody reads it. An acknowledgement after the first says that there
// was a gap.
func (u *updatesCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	if u.sub.ctx.Err() != nil {
		return mcp.ErrRequestEnded // of a Handler that goes on when it is told to end
	}
	switch n.Method {
	case methodAcknowledged:
		return u.acknowledge(ctx, n)
	case methodUpdated:
		return u.update(ctx, n)
	default:
		return u.drop()
	}
}

func (u *updatesCaller) acknowledge(ctx context.Context, n *mcp.Notification) error {
	select {
	case <-u.sub.settled:
		return u.update(ctx, updateOf(u.sub.uri))
	default:
	}
	if !confirms(n, u.sub.uri) {
		u.all.settle(u.sub, refusedSubscription(u.sub.uri))
		u.sub.cancel(errUnsubscribed)
		return nil
	}
	u.all.settle(u.sub, nil)
	return nil
}

const methodUpdated = "notifications/resources/updated"

func updateOf(uri string) *mcp.Notification {
	n, err := mcp.NewNotification(methodUpdated, append(mcp.AppendString([]byte(`{"uri":`), uri), '}'))
	if err != nil {
		n = &mcp.Notification{Method: methodUpdated} // the text above parses
	}
	return n
}

func (u *updatesCaller) update(ctx context.Context, n *mcp.Notification) error {
	m, _ := changeMessage(n)
	var e mcp.Edit
	if n.Params.Has(mcp.MetaSubscriptionID) {
		e.Delete(mcp.MetaSubscriptionID)
	}
	m.Head = n.AppendTo(nil, &e)
	m.Key = u.sub.prefix + m.Key
	err := u.send(ctx, m)
	if errors.Is(context.Cause(u.sub.ctx), errUnsubscribed) { //nolint:contextcheck // whether the subscription is over, and not the request
		u.stream.Retract(u.sub.prefix) // unsubscribe may have looked before it was there
	}
	return err
}

// agrees reads an acknowledgement. One that does not say agrees to what was asked.
func confirms(n *mcp.Notification, uri string) bool {
	raw := n.Params.Raw(mcp.FieldNotifications)
	if raw == nil {
		return true
	}
	var said struct {
		URIs []string `json:"resourceSubscriptions"`
	}
	return json.Unmarshal(raw, &said) == nil && slices.Contains(said.URIs, uri)
}

// Ask fails: a listen asks nothing.
func (u *updatesCaller) Ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeInvalidRequest, "%s does not belong to a subscription", req.Method)
}
