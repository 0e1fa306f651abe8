// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Listen serves subscriptions/listen until the stream breaks, the server ends it, or
// ctx ends. Listens share streams of changes: those for resources in one scope over
// HTTP, and all of them on a pipe.
func (p *Protocol) Listen(ctx context.Context, req *mcp.Request, sink mcp.Caller) error {
	want, err := listen.ParseFilter(&req.Params)
	if err != nil {
		return err
	}
	own := *req
	own.LogLevel = mcp.LogNone // log messages belong to requests that do some work
	return p.wire.listen(ctx, p, &own, want, sink)
}

// listenGroup is a group of listens that share the stream of changes. One goroutine
// maintains the stream while the group has listens. The zero value is ready.
type listenGroup struct {
	feed listen.Feed

	mu          sync.Mutex
	subscribers []*subscriber // in the order in which they were added
	running     bool          // a goroutine maintains the stream
	narrow      bool          // the stream may carry unwanted notifications
	kick        chan struct{} // capacity 1: something has changed. Made for the first listen.
}

// subscriber is one listen.
type subscriber struct {
	want   listen.Filter
	news   *listen.Listener
	agreed chan listen.Filter // capacity 1: what was agreed
	ended  chan error         // capacity 1: why the stream ended or was refused

	// The fields below are guarded by listenGroup.mu.
	granted bool // agreed was sent

	// Used on a pipe only.
	accepted   bool  // the server has acknowledged a stream with its filter
	pendingErr error // the server's error, if all other listens work
}

// serve serves one listen. maintain maintains the stream until no listen is left; it is
// started if it does not run.
func (g *listenGroup) serve(ctx context.Context, p *Protocol, maintain func(context.Context), want listen.Filter, sink mcp.Caller) error {
	sub := &subscriber{want: want, agreed: make(chan listen.Filter, 1), ended: make(chan error, 1)}
	sub.news = g.feed.Add(want)
	defer g.feed.Remove(sub.news)
	defer g.remove(sub)
	if g.add(sub) {
		// Ends with the last listen, or with the protocol. Its close waits.
		if _, ok := p.group.Start(maintain); !ok {
			g.stop(p.Closed())
		}
	}
	var wake <-chan struct{} // nil until the acknowledgement is sent
	for {
		select {
		case <-ctx.Done():
			return p.GivenUp(ctx, mcp.Completed)
		case err := <-sub.ended:
			return err
		case agreed := <-sub.agreed:
			if wake == nil { // later acknowledgements do not change what was promised
				g.feed.Narrow(sub.news, agreed)
			}
			if err := agreed.Acknowledge(ctx, sink); err != nil {
				return err
			}
			wake = sub.news.Wake()
		case <-wake:
			if err := g.feed.Take(sub.news).Notify(ctx, sink); err != nil {
				return err
			}
		}
	}
}

// add adds a listen. It reports whether the caller must start the goroutine.
func (g *listenGroup) add(sub *subscriber) (start bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kick == nil {
		g.kick = make(chan struct{}, 1)
	}
	g.subscribers = append(g.subscribers, sub)
	g.wakeLocked()
	start = !g.running
	g.running = true
	return start
}

func (g *listenGroup) remove(sub *subscriber) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.subscribers = slices.DeleteFunc(g.subscribers, func(s *subscriber) bool { return s == sub })
	g.narrow = true
	g.wakeLocked()
}

func (g *listenGroup) wakeLocked() {
	select {
	case g.kick <- struct{}{}:
	default: // already signalled
	}
}

// wait waits until something has changed, or until again unless that is zero. It reports
// false if ctx has ended.
func (g *listenGroup) wait(ctx context.Context, again time.Time) bool {
	var timer <-chan time.Time
	if !again.IsZero() {
		timer = time.After(time.Until(again))
	}
	select {
	case <-ctx.Done():
		return false
	case <-g.kick:
	case <-timer:
	}
	return true
}

// end ends all listens with err.
func (g *listenGroup) end(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked(func(*subscriber) error { return err })
}

// stop ends all listens when no goroutine runs for them any more.
func (g *listenGroup) stop(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = false
	g.endLocked(func(*subscriber) error { return err })
}

// endLocked ends the listens for which why returns an error.
func (g *listenGroup) endLocked(why func(*subscriber) error) {
	g.subscribers = slices.DeleteFunc(g.subscribers, func(sub *subscriber) bool {
		err := why(sub)
		if err != nil {
			sub.ended <- err // does not block: this is sent once
		}
		return err != nil
	})
}

// grantLocked sends what was agreed to the listen. It replaces a value not received
// yet.
func (sub *subscriber) grantLocked(agreed listen.Set) {
	sub.granted = true
	select {
	case <-sub.agreed:
	default: // it was received
	}
	sub.agreed <- agreed.Of(sub.want) // does not block: the lock makes this the only sender
}

// publish passes a notification to the listens that it concerns. It reports false if no
// listen wants it.
func (g *listenGroup) publish(n *mcp.Notification) (wanted bool) {
	switch n.Method {
	case listen.MethodTools:
		g.feed.Mark(listen.Tools)
	case listen.MethodPrompts:
		g.feed.Mark(listen.Prompts)
	case listen.MethodResources:
		g.feed.Mark(listen.Resources)
	case listen.MethodUpdated:
		return g.feed.UpdateResource(n)
	case listen.MethodTask:
		g.feed.UpdateTask(n)
	}
	return true
}

// upstream is one subscriptions/listen request to the server: a stream of changes. It
// is the caller of that request.
type upstream struct {
	call.NoCaller // a listen involves no requests of the server
	group         *listenGroup
	asked         listen.Set
	receive       func(n *mcp.Notification) // receives the changes, in order
	cancel        context.CancelFunc

	id     mcp.ID    // on a pipe
	opened time.Time // on a pipe
	until  time.Time // over HTTP: when to stop reading it, once it was replaced

	// The fields below are guarded by listenGroup.mu.
	acked     bool
	agreed    listen.Set // set with acked
	ended     bool
	err       error // set with ended; nil if the server has ended it in order
	pipeEnded bool  // set before ended: a new pipe must be opened
	replaced  bool  // over HTTP: another stream has replaced it
}

// start sends the request in a goroutine of streams.
func (st *upstream) start(streams *call.Goroutines, send func(ctx context.Context) error) {
	// Ends when it is cancelled, or with streams. Their close waits for it.
	st.cancel, _ = streams.Start(func(ctx context.Context) { st.end(send(ctx)) })
}

func (st *upstream) end(err error) {
	st.group.mu.Lock()
	defer st.group.mu.Unlock()
	st.ended, st.err = true, err
	st.group.wakeLocked()
}

// Notify receives the server's notifications.
func (st *upstream) Notify(_ context.Context, n *mcp.Notification) error {
	switch n.Method {
	case listen.MethodAcknowledged:
		st.acknowledge(n)
	case listen.MethodTools, listen.MethodPrompts, listen.MethodResources, listen.MethodUpdated, listen.MethodTask:
		st.receive(n)
	}
	return nil
}

// acknowledge records what the server has agreed to. An acknowledgement without a
// filter agrees to everything.
func (st *upstream) acknowledge(n *mcp.Notification) {
	st.group.mu.Lock()
	defer st.group.mu.Unlock()
	if !st.acked {
		st.acked, st.agreed = true, listen.SetOf(st.asked.Filter().Agreed(&n.Params))
		st.group.wakeLocked()
	}
}

// settled returns the part of the filter that need not be asked for again. A resource
// or task that the server did not agree to now, it may agree to later; a list that it
// does not notify about, it supports for no listen.
func (st *upstream) settled() listen.Set {
	return listen.Set{Lists: st.asked.Lists, URIs: st.agreed.URIs, Tasks: st.agreed.Tasks}
}

// newListen returns a listen with the filter.
func (p *Protocol) newListen(want listen.Set) (*mcp.Request, error) {
	var req *mcp.Request
	raw, err := want.Filter().Params()
	if err == nil {
		req, err = mcp.NewRequest(call.MethodListen, raw)
	}
	if err != nil {
		return nil, p.Fault(mcp.CodeInternalError, mcp.NotDispatched, err, "its request could not be written")
	}
	return req, nil
}

// reopenDelay returns how long to wait before a stream is opened again after n failures.
func reopenDelay(n int) time.Duration {
	return backoff.Jitter(min(call.MinListenWait<<min(n, 10), call.MaxListenWait))
}
