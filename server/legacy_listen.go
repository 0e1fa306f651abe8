// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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
	return s.legacyStandalone(p, r, sess, sent, func(wake chan struct{}) (*session.Consumer, error) {
		return sess.Resume(ids[0], wake, time.Now())
	})
}

// legacyStandalone carries the standalone stream. sent is the event after which it
// is resumed, "" where it is not.
func (s *Server) legacyStandalone(p *response, r *http.Request, sess *session.Session, sent string, attach func(chan struct{}) (*session.Consumer, error)) *refusal {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	entry := &inflight{kind: kindStandalone, stop: session.StopFunc(cancel)}
	if !s.inflight.add(entry) {
		return refuseDraining(mcp.ID{})
	}
	defer s.inflight.remove(entry)
	c, err := attach(make(chan struct{}, 1))
	if err != nil {
		return s.refuseResume(sess, sent, err)
	}
	defer c.Detach()
	if !s.startListen(ctx, sess, s.missedBefore(c, sent), c, nil) {
		return refuseDraining(mcp.ID{})
	}
	p.beginStream()
	s.writeStream(p, sess, c, ctx.Done())
	if entry.tornDown.Load() {
		// (2025-11-25, basic/transports, "Sending Messages to the Server")
		p.write(frame.AppendRetry(nil, reconnectAfter+jitter(reconnectAfter)))
	}
	return nil
}

// comeBackAfter is the shortest time after which a client is to open its stream
// again that we have ended. The longest is twice that.
const reconnectAfter = time.Second

// gap is what a client may have missed before its standalone stream is carried.
type missedChanges uint8

const (
	missedNothing missedChanges = iota
	missedLists                 // nobody has listened for its lists; subscriptions go on by themselves
	missedAll                   // what it was told was lost
)

// gapBefore returns what the client has missed that opens its standalone stream, and
// does not know to have missed.
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

// listenFor has the Handler tell what changes in the session's view, until ctx
// ends, and first what may have changed in the gap, of which by is told when all of
// it was said; nil where there is none. It returns at once. There is a goroutine for
// it for as long as the Handler needs one; Shutdown and Close wait for what it has
// begun, and so does the group if there is one. It reports false when the server is
// draining.
func (s *Server) startListen(ctx context.Context, sess *session.Session, missed missedChanges, by *session.Consumer, group *sync.WaitGroup) bool {
	ctx, cancel := context.WithCancelCause(ctx)
	entry := &inflight{kind: kindInnerListen, stop: session.StopFunc(cancel)}
	if !s.inflight.add(entry) {
		cancel(errDraining)
		return false
	}
	if group != nil {
		group.Add(1)
	}
	leave := func() {
		cancel(nil)
		s.inflight.remove(entry)
		if group != nil {
			group.Done()
		}
	}
	// Ends when the Handler returns, which may be before the listen has ended; Shutdown
	// and Close wait for its flight.
	go func() {
		var stop func()
		// Deferred, because a Handler may end its goroutine instead of returning.
		defer func() {
			if stop == nil {
				leave()
				return
			}
			context.AfterFunc(ctx, func() { // which the client's leaving ends, or a shutdown
				defer leave()
				stop()
			})
		}()
		stop = s.listenLoop(ctx, sess, missed, by)
	}()
	return true
}

// keepTelling listens for a session, and again where that has ended for a reason
// that may pass: the client cannot see that nobody listens, and waits on a stream
// that is open. It returns when ctx or the listen has ended, or with what is to be
// called at the end of ctx where the Handler goes on by itself.
func (s *Server) listenLoop(ctx context.Context, sess *session.Session, missed missedChanges, by *session.Consumer) (stop func()) {
	c := &changesCaller{streamSender: streamSender{server: s, stream: sess.Standalone()}, consumer: by}
	c.acked.Store(missed != missedNothing)
	if missed == missedAll && !s.sendAllUpdates(ctx, sess, c) {
		return nil
	}
	relisten(ctx, func() bool {
		var err error
		stop, err = s.listenOnce(ctx, listenRequest(sess), c)
		if stop != nil || ctx.Err() != nil {
			return false
		}
		s.log.DebugContext(ctx, "no changes to listen to", slog.String("session", sess.Scope.Key()), slog.Any("error", err))
		again := isRetryable(err)
		if !again {
			c.clearMissed() // nobody will ever tell of lists
		}
		return again
	})
	return stop
}

// listenOnce has the Handler serve a listen. It returns when that has ended, or what
// ends it where the Handler goes on by itself.
func (s *Server) listenOnce(ctx context.Context, req *mcp.Request, c mcp.Caller) (stop func(), err error) {
	if w, ok := s.handler.(mcp.Watcher); ok {
		stop, err = s.callWatch(ctx, w, req, c)
		if !errors.Is(err, errors.ErrUnsupported) {
			return stop, err
		}
	}
	_, err = s.serve(ctx, req, c)
	return nil, err
}

// watchBy is serveBy for a Watcher.
func (s *Server) callWatch(ctx context.Context, w mcp.Watcher, req *mcp.Request, c mcp.Caller) (stop func(), err error) {
	defer func() {
		if p := recover(); p != nil {
			stop, err = nil, s.panicked(ctx, req, p)
		}
	}()
	return w.Watch(ctx, req, c)
}

// The waits between two inner listens, where the first has ended.
const (
	minRelisten = time.Second
	maxRelisten = time.Minute
)

// persist listens until ctx ends or listen reports false, and waits before it does so
// again: longer each time, but for one that has held.
func relisten(ctx context.Context, listen func() bool) {
	for wait := minRelisten; ; wait = min(2*wait, maxRelisten) {
		began := time.Now()
		if !listen() {
			return
		}
		if time.Since(began) > maxRelisten {
			wait = minRelisten
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// rest waits, and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// tellAllUpdates has every resource that the session is subscribed to count as
// updated. It reports false when ctx ended first.
func (s *Server) sendAllUpdates(ctx context.Context, sess *session.Session, c *changesCaller) bool {
	all, ok := subscriptionsOf(sess)
	if !ok {
		return false
	}
	for _, sub := range all.agreed() {
		u := updatesCaller{streamSender: c.streamSender, all: all, sub: sub}
		// One that has ended meanwhile has nothing to tell.
		if err := u.Notify(ctx, updateOf(sub.uri)); err != nil && sub.ctx.Err() == nil {
			return false
		}
	}
	return true
}

// mayPass reports whether a listen that has ended so may go better the next time. A
// Handler that has no listens says so, and one that panics would do it again. Any other
// refusal may be that of a server which was replaced by one of another era, and which
// refuses everything until that is found out.
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
// nothing of the subscription: the acknowledgement is not for it. One after the
// first says that there was a gap, in which everything may have changed.
type changesCaller struct {
	streamSender
	acked    atomic.Bool       // there was an acknowledgement
	consumer *session.Consumer // whose client may have missed something, or nil
}

// madeGood notes that the client was told of all that it may have missed. Before, it
// is still owed to whoever carries the stream next.
func (c *changesCaller) clearMissed() {
	if c.consumer != nil {
		c.consumer.ClearMissed()
	}
}

// Notify puts a change on the standalone stream.
func (c *changesCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	m, ok := changeMessage(n)
	if !ok {
		return c.drop()
	}
	if m.Class == session.Opening {
		return c.acknowledge(ctx, n)
	}
	var e mcp.Edit
	if n.Params.Has(mcp.MetaSubscriptionID) {
		e.Delete(mcp.MetaSubscriptionID)
	}
	m.Head = n.AppendTo(nil, &e)
	return c.send(ctx, m)
}

func (c *changesCaller) acknowledge(ctx context.Context, n *mcp.Notification) error {
	if !c.acked.Swap(true) {
		return nil
	}
	var agreed struct {
		Tools     bool `json:"toolsListChanged"`
		Prompts   bool `json:"promptsListChanged"`
		Resources bool `json:"resourcesListChanged"`
	}
	if err := json.Unmarshal(n.Params.Raw(mcp.FieldNotifications), &agreed); err != nil {
		return c.drop() // nothing that we know was agreed
	}
	for _, list := range []struct {
		name    string
		changed bool
	}{{"tools", agreed.Tools}, {"prompts", agreed.Prompts}, {"resources", agreed.Resources}} {
		if !list.changed {
			continue
		}
		if err := c.Notify(ctx, &mcp.Notification{Method: "notifications/" + list.name + "/list_changed"}); err != nil {
			return err
		}
	}
	c.clearMissed()
	return nil
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
func (c *changesCaller) Ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeInvalidRequest, "%s does not belong to a subscription", req.Method)
}

// unrelated is the Caller of a session: the address of what belongs to none of
// its requests.
type sessionCaller struct {
	streamSender
	sess *session.Session
}

// standalone returns the Caller whose messages go to the standalone stream. It
// lives as long as the session.
func (s *Server) standalone(sess *session.Session) mcp.Caller {
	return &sessionCaller{streamSender{server: s, stream: sess.Standalone()}, sess}
}

// Notify puts the notification on the standalone stream. It never waits: where
// the client does not listen, or slowly, all but changes are dropped.
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

// Ask puts the question on the standalone stream, and waits for a while for the
// client to open it.
func (c *sessionCaller) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	return c.server.asker(c.sess, c.stream).wait(ctx, req)
}
