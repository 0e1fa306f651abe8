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

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// subscriptionHandler returns the Handler of a request to subscribe to a resource, or to
// unsubscribe, which serve does. Each subscription of a session is a subscriptions/listen
// of the Handler for one resource, with updates on the session's standalone stream
// (2025-11-25, server/resources, "Subscriptions").
func (s *Server) subscriptionHandler(sess *session.Session, serve func(ctx context.Context, sess *session.Session, uri string) error) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		uri, ok := req.Params.Text(mcp.FieldURI)
		if !ok {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.uri must be a string")
		}
		if len(uri) > maxSubscribed {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.uri has %d bytes; a subscription accepts %d at most", len(uri), maxSubscribed)
		}
		if err := serve(ctx, sess, uri); err != nil {
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
func (s *Server) subscribe(ctx context.Context, sess *session.Session, uri string) error {
	all, ok := subscriptionsOf(sess)
	if !ok {
		return session.ErrEnded
	}
	most := s.cfg.Limits.Subscriptions
	sub, first := all.getOrCreate(uri, most)
	if sub == nil {
		s.observeIn(ctx, sess, "", Event{Kind: Limited, Detail: "limits.subscriptions"})
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

// unsubscribe returns when no more updates are sent. It succeeds if the session was not
// subscribed.
func (s *Server) unsubscribe(ctx context.Context, sess *session.Session, uri string) error {
	all, ok := subscriptionsOf(sess)
	if !ok {
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
// returns at once, and reports false if the server is draining. Shutdown and Close wait
// for the goroutine.
func (s *Server) listenResource(ctx context.Context, sess *session.Session, all *subscriptions, sub *subscription) bool {
	entry := &inflight{kind: kindInnerListen, stop: sub.cancel}
	if !s.inflight.add(entry) {
		close(sub.done)
		return false
	}
	// The values are those of the request, but not the end.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	//nolint:contextcheck // the two contexts differ on purpose
	stop := context.AfterFunc(sub.ctx, func() { cancel(context.Cause(sub.ctx)) })
	go func() { // ends with sub.ctx; Shutdown and Close wait for its entry
		defer s.inflight.remove(entry)
		defer close(sub.done)
		defer sub.cancel(nil)
		defer stop()
		defer cancel(nil)
		s.subscriptionLoop(ctx, sess, &updatesCaller{streamSender: streamSender{server: s, stream: sess.Standalone()}, all: all, sub: sub})
	}()
	return true
}

// subscriptionLoop listens, and listens again if the Handler has ended a listen that it
// had agreed to.
func (s *Server) subscriptionLoop(ctx context.Context, sess *session.Session, u *updatesCaller) {
	relisten(ctx, func() bool {
		_, err := s.callHandler(ctx, s.handler, subscriptionRequest(sess, u.sub.uri), u)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = refusedSubscription(u.sub.uri)
		}
		agreed := u.all.settle(u.sub, err) && ctx.Err() == nil
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

// subscriptionRequest requests the updates of one resource.
func subscriptionRequest(sess *session.Session, uri string) *mcp.Request {
	params := jsonscan.AppendString([]byte(`{"notifications":{"resourceSubscriptions":[`), uri)
	req, err := mcp.NewRequest("subscriptions/listen", append(params, "]}}"...))
	if err != nil {
		req = &mcp.Request{Method: "subscriptions/listen"} // the text above parses
	}
	req.Client, req.Principal, req.Scope = sess.Client, sess.Principal, sess.Scope
	return req
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
	n, err := mcp.NewNotification(methodUpdated, append(jsonscan.AppendString([]byte(`{"uri":`), uri), '}'))
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
	if errors.Is(context.Cause(u.sub.ctx), errUnsubscribed) { //nolint:contextcheck // checks the subscription, and not the request
		u.stream.Retract(u.sub.prefix) // unsubscribe may have retracted before this append
	}
	return err
}

// confirms reports whether an acknowledgement includes the resource. One without a list
// confirms what was requested.
func confirms(n *mcp.Notification, uri string) bool {
	raw := n.Params.Raw(mcp.FieldNotifications)
	if raw == nil {
		return true
	}
	var ack struct {
		URIs []string `json:"resourceSubscriptions"`
	}
	return json.Unmarshal(raw, &ack) == nil && slices.Contains(ack.URIs, uri)
}

// subscriptionsKey is the key of the subscriptions in the scope of a session.
type subscriptionsKey struct{}

// subscriptionsOf returns the subscriptions of a session, or false if the session has
// ended.
func subscriptionsOf(sess *session.Session) (*subscriptions, bool) {
	v, ok := sess.Scope.Value(subscriptionsKey{}, func() any { return &subscriptions{by: make(map[string]*subscription)} })
	all, isOurs := v.(*subscriptions)
	if !ok || !isOurs {
		return nil, false
	}
	if all.bindOnce() && !sess.Scope.OnEnd(all.end) {
		all.end()
	}
	return all, true
}

// subscriptions are the resources that one session is subscribed to, by URI. They end
// with the scope of the session.
type subscriptions struct {
	mu    sync.Mutex
	last  uint64 // the number of the newest
	by    map[string]*subscription
	bound bool
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

// bindOnce reports true on the first call: the caller must bind the subscriptions to the
// scope.
func (a *subscriptions) bindOnce() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.bound
	a.bound = true
	return first
}

// getOrCreate returns the subscription to a resource, and whether it is new. It returns
// nil if the limit is reached.
func (a *subscriptions) getOrCreate(uri string, most int) (sub *subscription, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub, ok := a.by[uri]
	if !ok && len(a.by) >= most {
		return nil, false
	}
	if !ok {
		a.last++
		sub = newSubscription(uri, a.last)
		a.by[uri] = sub
	}
	if a.ended {
		sub.cancel(session.ErrEnded)
	}
	sub.waiting++
	return sub, !ok
}

func newSubscription(uri string, number uint64) *subscription {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &subscription{
		uri: uri, prefix: strconv.FormatUint(number, 10) + " ",
		ctx: ctx, cancel: cancel, settled: make(chan struct{}), done: make(chan struct{}),
	}
}

// settle records the outcome of a subscription, the first time, and removes one that was
// refused. It reports whether the subscription was agreed to.
func (a *subscriptions) settle(sub *subscription, err error) (agreed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-sub.settled:
		return sub.err == nil
	default:
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
	if a.removeIfUnused(sub) {
		sub.cancel(errCancelled)
	}
}

func (a *subscriptions) removeIfUnused(sub *subscription) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub.waiting--
	select {
	case <-sub.settled:
		return false
	default:
	}
	if sub.waiting > 0 || a.by[sub.uri] != sub {
		return false
	}
	delete(a.by, sub.uri)
	return true
}

// remove removes and returns the subscription to a resource, or nil.
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
	for _, sub := range a.markEnded() {
		sub.cancel(session.ErrEnded)
	}
}

func (a *subscriptions) markEnded() []*subscription {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	all := make([]*subscription, 0, len(a.by))
	for _, sub := range a.by {
		all = append(all, sub)
	}
	return all
}
