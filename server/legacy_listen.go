// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// missedChanges is what a client may have missed before its standalone stream is
// attached.
type missedChanges uint8

const (
	missedNothing missedChanges = iota
	missedLists                 // no listen for the lists was open; subscriptions go on without a stream
	missedAll                   // queued changes were lost
)

// missedBefore returns what the client of a new consumer has missed without knowing it.
func (s *Server) missedBefore(c *session.Consumer, sent string) missedChanges {
	switch {
	case c.Missed():
		return missedAll
	case sent != "" && !s.cfg.Remembers:
		return missedLists
	default:
		return missedNothing
	}
}

// innerListen is the listen for the changes in a session's view. It has a goroutine only as
// long as the Handler needs one. Shutdown and Close wait for it.
type innerListen struct {
	inflight

	server *Server
	scope  *mcp.Scope
	group  *sync.WaitGroup // waits for it, too, unless nil

	mu      sync.Mutex
	unwatch func() // ends it, if it goes on without a goroutine
	ended   bool   // end was called
}

// startListen starts a listen for the changes in the session's view, until ctx ends and then
// end is called. It first sends what may have changed before, and then clears the mark on the
// consumer, which may be nil. It returns at once. It returns nil if the server is draining.
func (s *Server) startListen(ctx context.Context, sess *session.Session, identity *mcp.Identity, missed missedChanges, consumer *session.Consumer, group *sync.WaitGroup) *innerListen {
	l := &innerListen{inflight: inflight{kind: kindInnerListen}, server: s, scope: sess.Scope, group: group}
	if !s.inflight.add(&l.inflight) {
		return nil
	}
	if group != nil {
		group.Add(1)
	}
	// Ends when the Handler returns, which may be before the listen has ended; Shutdown
	// and Close wait for the listen.
	go func() {
		var stop func()
		// Deferred, because a Handler may end its goroutine instead of returning.
		defer func() { l.handled(stop) }()
		stop = s.listenLoop(ctx, sess, identity, missed, consumer)
	}()
	return l
}

// handled is called after the Handler has returned. The listen goes on if stop is not nil.
func (l *innerListen) handled(stop func()) {
	l.mu.Lock()
	goesOn := stop != nil && !l.ended
	if goesOn {
		l.unwatch = stop
	}
	l.mu.Unlock()
	if !goesOn {
		l.finish(stop)
	}
}

// end must be called once the context of the listen has ended. It waits for nothing but a
// message that is being sent.
func (l *innerListen) end() {
	l.mu.Lock()
	stop := l.unwatch
	l.unwatch, l.ended = nil, true
	l.mu.Unlock()
	if stop != nil {
		l.finish(stop)
	}
}

func (l *innerListen) finish(stop func()) {
	defer func() {
		l.server.inflight.remove(&l.inflight)
		if l.group != nil {
			l.group.Done()
		}
	}()
	if stop != nil {
		defer l.server.logPanic(l.scope)
		stop()
	}
}

// goListen calls f on another goroutine, as an inner listen. It returns at once, and reports
// false if the server is draining.
func (s *Server) goListen(f func()) bool {
	entry := &inflight{kind: kindInnerListen}
	if !s.inflight.add(entry) {
		return false
	}
	go func() { // ends with f; Shutdown and Close wait for its entry
		defer s.inflight.remove(entry)
		f()
	}()
	return true
}

// listenLoop listens for a session, and listens again if the listen has ended for a
// temporary reason: the client has an open stream and cannot see that the listen has
// ended. It returns when ctx or the listen has ended. If the Handler needs no goroutine
// for the listen, it returns a function to call at the end of ctx.
func (s *Server) listenLoop(ctx context.Context, sess *session.Session, identity *mcp.Identity, missed missedChanges, consumer *session.Consumer) (stop func()) {
	c := &changesCaller{streamSender: streamSender{server: s, stream: sess.Standalone()}, consumer: consumer}
	c.acked.Store(missed != missedNothing)
	if missed == missedAll && !s.sendAllUpdates(ctx, sess, c) {
		return nil
	}
	relisten(ctx, func() bool {
		var err error
		stop, err = s.listenOnce(ctx, listenRequest(sess, identity, listen.Filter{Tools: true, Prompts: true, Resources: true}), c)
		if stop != nil || ctx.Err() != nil {
			return false
		}
		s.log.DebugContext(ctx, "the listen for changes has ended", slog.String("session", sess.Scope.Key()), slog.Any("error", err))
		again := isRetryable(err)
		if !again {
			c.clearMissed() // there will be no changes of lists
		}
		return again
	})
	return stop
}

// listenOnce passes a listen to the Handler. It returns when the listen has ended. If the
// Handler needs no goroutine for the listen, it returns a function that ends it.
func (s *Server) listenOnce(ctx context.Context, req *mcp.Request, c mcp.Caller) (stop func(), err error) {
	if w, ok := s.handler.(mcp.HandlerExtension); ok {
		watch := func(ctx context.Context, req *mcp.Request, c mcp.Caller) (_ *mcp.Result, err error) {
			stop, err = w.Watch(ctx, req, c)
			return nil, err
		}
		_, err = s.callHandler(ctx, mcp.HandlerFunc(watch), req, c)
		if !errors.Is(err, errors.ErrUnsupported) {
			return stop, err
		}
	}
	_, err = s.callHandler(ctx, s.handler, req, c)
	return nil, err
}

// The delays between two inner listens, if the first has ended.
const (
	minRelisten = time.Second
	maxRelisten = time.Minute
)

// relisten calls listen until that reports false or ctx ends. The delay between calls
// grows, and is reset after a call that has lasted.
func relisten(ctx context.Context, listen func() bool) {
	again := backoff.Backoff{Min: minRelisten, Max: maxRelisten}
	for {
		began := time.Now()
		if !listen() {
			return
		}
		if time.Since(began) > maxRelisten {
			again.Reset()
		}
		if !backoff.Sleep(ctx, again.NextExact()) {
			return
		}
	}
}

// sendAllUpdates sends an update for every resource that the session is subscribed to. It
// reports false if ctx ended first.
func (s *Server) sendAllUpdates(ctx context.Context, sess *session.Session, c *changesCaller) bool {
	all := subscriptionsOf(sess)
	if all == nil {
		return false
	}
	for _, sub := range all.agreed() {
		u := updatesCaller{streamSender: c.streamSender, all: all, sub: sub}
		// A subscription that has ended meanwhile needs no update.
		if err := u.Notify(ctx, listen.ResourceUpdated(sub.uri)); err != nil && sub.ctx.Err() == nil {
			return false
		}
	}
	return true
}

// isRetryable reports whether another listen may succeed after this error. A Handler
// without listens reports that, and one that panics would panic again. Any other refusal
// may be from a backend that was replaced by one of another era, which refuses everything
// until that is detected.
func isRetryable(err error) bool {
	if err == nil {
		return false // it has ended in order
	}
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		return f.Code != mcp.CodeUnsupported
	}
	e, ok := asWire(err)
	return !ok || e.Code != mcp.CodeMethodNotFound && e.Code != mcp.CodeInternalError
}

// listenRequest returns the request for an inner listen of a session. The identity is that of
// the request that caused it.
func listenRequest(sess *session.Session, identity *mcp.Identity, filter listen.Filter) *mcp.Request {
	params, err := filter.Params()
	if err != nil {
		params = nil // strings that were received encode
	}
	req, err := mcp.NewRequest("subscriptions/listen", params)
	if err != nil {
		req = &mcp.Request{Method: "subscriptions/listen"} // what was encoded parses
	}
	req.Client, req.LogLevel, req.Scope = sess.Client, sess.Level(), sess.Scope
	req.Principal, req.Identity, req.Profile = sess.Principal, identity, sess.Profile
	return req
}

// changesCaller is the Caller of the inner listen of a session. A legacy client does not
// know the subscription, so the acknowledgement is not forwarded. A second one means that
// the listen was interrupted, and that everything may have changed.
type changesCaller struct {
	streamSender
	notifyOnly
	acked    atomic.Bool       // there was an acknowledgement
	consumer *session.Consumer // the consumer with a client that may have missed changes, or nil
}

// clearMissed records that the client was sent everything that it may have missed.
// Without it, the next consumer sends it again.
func (c *changesCaller) clearMissed() {
	if c.consumer != nil {
		c.consumer.ClearMissed()
	}
}

// Notify appends a change to the standalone stream.
func (c *changesCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	m, ok := changeMessage(n)
	if !ok {
		return c.drop()
	}
	if m.Class == session.Opening {
		return c.acknowledge(ctx, n)
	}
	m.Head = n.AppendTo(nil, withoutSubscription(n))
	return c.send(ctx, m)
}

// withoutSubscription removes the id of the inner listen, which the client does not know.
func withoutSubscription(n *mcp.Notification) *mcp.Edit {
	var e mcp.Edit
	if n.Params.Has(mcp.MetaSubscriptionID) {
		e.Delete(mcp.MetaSubscriptionID)
	}
	return &e
}

func (c *changesCaller) acknowledge(ctx context.Context, n *mcp.Notification) error {
	if !c.acked.Swap(true) {
		return nil
	}
	agreed, err := listen.ParseFilter(&n.Params)
	if err != nil {
		return c.drop() // no list that is known here was agreed to
	}
	for _, method := range agreed.Lists().Methods() {
		if err := c.Notify(ctx, &mcp.Notification{Method: method}); err != nil {
			return err
		}
	}
	c.clearMissed()
	return nil
}

// sessionCaller is the Caller of a session, for messages that belong to none of its
// requests.
type sessionCaller struct {
	streamSender
	sess *session.Session
}

// standalone returns the Caller that sends on the standalone stream. It lives as long as
// the session.
func (s *Server) standalone(sess *session.Session) mcp.Caller {
	return &sessionCaller{streamSender{server: s, stream: sess.Standalone()}, sess}
}

// Notify appends the notification to the standalone stream. It never blocks: if the
// client does not read, everything but changes is dropped.
func (c *sessionCaller) Notify(_ context.Context, n *mcp.Notification) error {
	m, ok := changeMessage(n)
	switch {
	case n.Method == "notifications/message" && wants(c.sess.Level(), n):
		m.Class = session.Log
	case !ok || m.Class == session.Opening,
		strings.HasPrefix(n.Method, "notifications/tasks") && c.sess.Client.Version != mcp.V20251125:
		return c.drop()
	}
	m.Head = n.AppendTo(nil, nil)
	full, err := c.stream.Append(m)
	if full != nil {
		return c.drop()
	}
	return err
}

// Start sends the question on the standalone stream. The answer fails if the client does
// not open that for a while.
func (c *sessionCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return c.server.startAsk(ctx, c.sess, c.stream, req)
}

// Extension returns one that can do nothing.
func (c *sessionCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }
