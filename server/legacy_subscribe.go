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
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// subscriptionHandler returns the Handler of a request to subscribe to a resource, or to
// unsubscribe, which serve does. Each subscription of a session is a subscriptions/listen
// of the Handler for one resource, with updates on the session's standalone stream
// (2025-11-25, server/resources, "Subscriptions").
func (s *Server) subscriptionHandler(sess *session.Session, serve func(ctx context.Context, sess *session.Session, identity *mcp.Identity, uri string) error) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		uri, ok := req.Params.Text(mcp.FieldURI)
		if !ok {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.uri must be a string")
		}
		if len(uri) > maxSubscribed {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.uri has %d bytes; a subscription accepts %d at most", len(uri), maxSubscribed)
		}
		if err := serve(ctx, sess, req.Identity, uri); err != nil {
			return nil, err
		}
		return &mcp.Result{}, nil
	})
}

// maxSubscribed bounds the URI of a subscription. Together with limits.subscriptions it
// bounds the memory that a session uses.
const maxSubscribed = 16 << 10

// subscribe subscribes the session to updates of the resource. Subscribing twice has the
// effect of once.
func (s *Server) subscribe(ctx context.Context, sess *session.Session, identity *mcp.Identity, uri string) error {
	all := subscriptionsOf(sess)
	if all == nil {
		return session.ErrEnded
	}
	most := s.cfg.Limits.Subscriptions
	sub, first := all.getOrCreate(ctx, uri, most)
	if sub == nil {
		s.observeIn(ctx, sess, "", Event{Kind: Limited, Detail: "limits.subscriptions"})
		return &mcp.Fault{
			Code: mcp.CodeLimit, Outcome: mcp.NotDispatched,
			Message: strconv.Itoa(most) + " resources are subscribed to (limits.subscriptions)",
		}
	}
	follow := func() { s.listenResource(sess, identity, all, sub) } //nolint:contextcheck // it outlives the request
	if first && !s.goListen(follow) {
		all.settle(sub, errShuttingDown())
		close(sub.done)
	}
	select {
	case <-sub.settled:
		return sub.err
	case <-ctx.Done():
		all.leave(sub)
		return context.Cause(ctx)
	}
}

// unsubscribe returns when no more updates are sent. It succeeds if the session was not
// subscribed.
func (s *Server) unsubscribe(ctx context.Context, sess *session.Session, _ *mcp.Identity, uri string) error {
	all := subscriptionsOf(sess)
	if all == nil {
		return session.ErrEnded
	}
	sub := all.remove(uri)
	if sub == nil {
		return nil
	}
	all.settle(sub, nil) // ends the wait of a concurrent subscribe
	sub.cancel(errUnsubscribed)
	// After the end of its context: a message that is appended later is retracted by the
	// goroutine that appends it.
	sess.Standalone().Retract(sub.prefix)
	late := time.NewTimer(finishGrace)
	defer late.Stop()
	select {
	case <-sub.done:
	case <-late.C: // a Handler that does not end when it should
	case <-ctx.Done():
	}
	return nil
}

// listenResource listens for updates of the resource until the subscription ends. It
// listens again if the Handler has ended a listen that it had agreed to, or the credentials
// of the session have ended and there are others.
func (s *Server) listenResource(sess *session.Session, identity *mcp.Identity, all *subscriptions, sub *subscription) {
	defer close(sub.done)
	defer sub.cancel(nil)
	ctx := sub.ctx
	u := &updatesCaller{streamSender: streamSender{server: s, stream: sess.Standalone()}, all: all, sub: sub}
	relisten(ctx, func() bool {
		var err error
		expired := listenAs(ctx, sess, identity, func(ctx context.Context, identity *mcp.Identity) {
			_, err = s.callHandler(ctx, s.handler, listenRequest(sess, identity, listen.Filter{URIs: []string{sub.uri}}), u)
		})
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case expired:
			err = errExpired
		case err == nil:
			err = refusedSubscription(sub.uri)
		}
		agreed := all.settle(sub, err) && ctx.Err() == nil
		if agreed {
			s.log.DebugContext(ctx, "the listen of a subscription has ended", slog.String("session", sess.Scope.Key()), slog.Any("error", err))
		}
		return agreed
	})
}

// refusedSubscription is the error for a resource without updates: one that does not
// exist, that this client may not see, or with a server that sends no updates
// (2025-11-25, server/resources, "Error Handling").
func refusedSubscription(uri string) error {
	const most = 200
	data, err := json.Marshal(map[string]string{"uri": uri[:min(len(uri), most)]})
	if err != nil {
		data = nil // strings always encode
	}
	return &mcp.Error{Code: mcp.CodeResourceNotFound, Message: "no updates are available for this resource", Data: data}
}

// updatesCaller is the Caller of the inner listen of a subscription.
type updatesCaller struct {
	streamSender
	notifyOnly
	all *subscriptions
	sub *subscription
}

// Notify appends an update to the standalone stream, where a newer one replaces it until
// the client reads it. A second acknowledgement means that the listen was interrupted.
func (u *updatesCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	if u.sub.ctx.Err() != nil {
		return mcp.ErrRequestEnded // the Handler goes on after the end of its context
	}
	switch n.Method {
	case listen.MethodAcknowledged:
		if isClosed(u.sub.settled) {
			return u.update(ctx, listen.ResourceUpdated(u.sub.uri))
		}
		if requested := (listen.Filter{URIs: []string{u.sub.uri}}); requested.Agreed(&n.Params).URIs != nil {
			u.all.settle(u.sub, nil)
			return nil
		}
		u.all.settle(u.sub, refusedSubscription(u.sub.uri))
		u.sub.cancel(errUnsubscribed)
		return nil
	case listen.MethodUpdated:
		return u.update(ctx, n)
	default:
		return u.drop()
	}
}

func (u *updatesCaller) update(ctx context.Context, n *mcp.Notification) error {
	m, _ := changeMessage(n)
	m.Head = n.AppendTo(nil, withoutSubscription(n))
	m.Key = u.sub.prefix + m.Key
	err := u.send(ctx, m)
	if errors.Is(context.Cause(u.sub.ctx), errUnsubscribed) { //nolint:contextcheck // checks the subscription, and not the request
		u.stream.Retract(u.sub.prefix) // unsubscribe may have retracted before this append
	}
	return err
}

// subscriptionsOf returns the subscriptions of a session, or nil if the session has ended.
func subscriptionsOf(sess *session.Session) *subscriptions {
	return scoped(sess.Scope, func() *subscriptions { return &subscriptions{by: make(map[string]*subscription)} })
}

// subscriptions are the resources that one session is subscribed to, by URI. They end
// with the scope of the session.
type subscriptions struct {
	mu    sync.Mutex
	last  uint64 // the number of the newest
	by    map[string]*subscription
	ended bool
}

// subscription is the subscription to one resource.
type subscription struct {
	uri     string
	prefix  string          // of the keys of its updates only
	ctx     context.Context //nolint:containedctx // of the inner listen, which outlives the request that began it
	cancel  context.CancelCauseFunc
	settled chan struct{} // closed when the Handler has agreed or refused
	done    chan struct{} // closed when no more updates are sent
	err     error         // why it was refused; set before settled is closed

	waiting int // guarded by subscriptions.mu: requests that wait for the outcome
}

// getOrCreate returns the subscription to a resource, and whether it is new. A new one has
// the values of ctx but not its end. The result is nil if the limit is reached.
func (a *subscriptions) getOrCreate(ctx context.Context, uri string, most int) (sub *subscription, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub, ok := a.by[uri]
	if !ok && len(a.by) >= most {
		return nil, false
	}
	if !ok {
		a.last++
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		sub = &subscription{
			uri: uri, prefix: strconv.FormatUint(a.last, 10) + " ",
			ctx: ctx, cancel: cancel, settled: make(chan struct{}), done: make(chan struct{}),
		}
		a.by[uri] = sub
	}
	if a.ended {
		sub.cancel(session.ErrEnded)
	}
	sub.waiting++
	return sub, !ok
}

// settle records the outcome of a subscription, the first time, and removes one that was
// refused. It reports whether the subscription was agreed to.
func (a *subscriptions) settle(sub *subscription, err error) (agreed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if isClosed(sub.settled) {
		return sub.err == nil
	}
	sub.err = err
	close(sub.settled)
	if err != nil && a.by[sub.uri] == sub {
		delete(a.by, sub.uri)
	}
	return err == nil
}

// leave ends the wait of one request. The last one ends a subscription that has no
// outcome yet.
func (a *subscriptions) leave(sub *subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub.waiting--
	if sub.waiting == 0 && !isClosed(sub.settled) && a.by[sub.uri] == sub {
		delete(a.by, sub.uri)
		sub.cancel(errCancelled)
	}
}

func (a *subscriptions) remove(uri string) *subscription {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub := a.by[uri]
	delete(a.by, uri)
	return sub
}

// agreed returns the subscriptions that the Handler has agreed to, in the order of their
// URIs.
func (a *subscriptions) agreed() []*subscription {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*subscription
	for _, sub := range a.by {
		if isClosed(sub.settled) && sub.err == nil {
			all = append(all, sub)
		}
	}
	slices.SortFunc(all, func(s, t *subscription) int { return strings.Compare(s.uri, t.uri) })
	return all
}

// end ends all subscriptions, and those added later.
func (a *subscriptions) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for _, sub := range a.by {
		sub.cancel(session.ErrEnded)
	}
}
