// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxReopenWait is the longest wait before a server is asked again for subscriptions
// that it had agreed to and no longer does. Each attempt reports everything as changed,
// which causes many fetches if a resource is gone permanently.
const maxReopenWait = 5 * time.Minute

// listen serves subscriptions/listen until ctx ends. It reopens the stream of changes
// whenever it breaks, and then reports everything listened for as changed, because
// changes may have been missed. It returns the error of the first attempt, and the last
// error of a server that stays unavailable.
func (c *Client) listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) error {
	want, err := listen.ParseFilter(&req.Params)
	if err != nil {
		return err
	}
	lc := &listenCaller{Caller: caller, client: c, req: req, want: want, again: c.listenedBefore(req.Scope, want)}
	again, failures := backoff.Backoff{Min: call.MinListenWait, Max: call.MaxListenWait}, 0
	// A broken stream is no error to the caller: the listen goes on, and everything is
	// reported as changed.
	for {
		began, before := time.Now(), lc.acknowledged.Load()
		err := c.listenOnce(ctx, req, lc)
		if failures++; lc.acknowledged.Load() > before {
			failures = 0
		}
		switch {
		case ctx.Err() != nil:
			return c.setup.GivenUp(ctx, mcp.Completed)
		case errors.Is(err, call.ErrClosed), errors.Is(err, call.ErrNoListenStream):
			return call.Unwrap(err)
		case lc.acknowledged.Load() == 0 && call.Classify(req, err) != call.Reprobe, failures >= call.MaxListenFailures:
			return call.Unwrap(err)
		case time.Since(began) > call.MaxListenWait:
			again.Reset()
		}
		if !backoff.Sleep(ctx, again.Next()) {
			return c.setup.GivenUp(ctx, mcp.Completed)
		}
	}
}

// listenOnce calls the protocol's listen. If the protocol turns out to be the wrong
// one, no other request uses it any more.
func (c *Client) listenOnce(ctx context.Context, req *mcp.Request, lc *listenCaller) error {
	ap, err := c.protocol(ctx, req, call.NoCaller{})
	if err != nil {
		return err
	}
	lc.era = ap.Era()
	once, cut := context.WithCancel(ctx)
	defer cut()
	lc.cut = cut
	err = ap.Listen(once, req, lc)
	c.release(ap, err)
	return err
}

// listenCaller is the caller of a listen across the successive streams that serve it.
type listenCaller struct {
	mcp.Caller

	client       *Client
	req          *mcp.Request
	want         listen.Filter
	acknowledged atomic.Int64 // number of streams acknowledged

	// agreed holds the resources and tasks that the server of the first stream has
	// agreed to. It is set before the first acknowledgement is forwarded and then
	// constant, because the caller expects notifications only about these.
	agreed listen.Filter

	era      mcp.Era            // of the stream
	cut      context.CancelFunc // ends the stream
	narrower int                // how many streams in a row have agreed to less than the first

	again bool // the scope has listened before, and may have missed changes since
}

// listenedKey is the key under which a scope stores that it has listened to lists of
// the client.
type listenedKey struct{ to *Client }

// listenedBefore reports whether the scope has listened to lists before, and records
// that it does now. Between two streams of a session no listen is open.
func (c *Client) listenedBefore(scope *mcp.Scope, want listen.Filter) bool {
	if scope == nil || want.Lists() == 0 {
		return false
	}
	kept, _ := scope.Value(listenedKey{c}, func() any { return new(atomic.Bool) })
	before, ok := kept.(*atomic.Bool)
	return ok && before.Swap(true)
}

// Notify forwards what a stream brings. The first acknowledgement answers the listen; a
// later one means that changes may have been missed.
func (l *listenCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	if n.Method != listen.MethodAcknowledged {
		return l.Caller.Notify(ctx, n)
	}
	if l.acknowledged.Add(1) == 1 {
		l.agreed = l.want.Agreed(&n.Params)
		if err := l.Caller.Notify(ctx, n); err != nil || !l.again {
			return err
		}
		gap := listen.Changes{Lists: l.want.Lists()}
		return gap.Notify(ctx, l.Caller)
	}
	l.reopenIfNarrower(l.want.Agreed(&n.Params))
	return l.invalidate(ctx)
}

// reopenIfNarrower replaces, after a while, a stream that agrees to less than the
// caller was promised: the server may have just started and not know its resources yet.
// Until then the stream serves the rest.
func (l *listenCaller) reopenIfNarrower(agreed listen.Filter) {
	if agreed.Covers(l.agreed) {
		l.narrower = 0
		return
	}
	wait := min(call.MinListenWait<<min(l.narrower, 16), maxReopenWait)
	l.narrower++
	time.AfterFunc(wait, l.cut) // no effect if the stream has ended
}

// invalidate reports everything listened for as changed. A superfluous notification
// costs a fetch; a missing one leaves the client with an outdated list.
func (l *listenCaller) invalidate(ctx context.Context) error {
	all := listen.Changes{Lists: l.want.Lists()}
	for _, uri := range l.agreed.URIs {
		all.Updated = append(all.Updated, listen.ResourceUpdated(uri))
	}
	if err := all.Notify(ctx, l.Caller); err != nil || l.era != mcp.EraModern {
		return err // the legacy side of the gateway polls each task when a listen begins
	}
	for _, id := range l.agreed.TaskIDs {
		n := l.taskNotice(ctx, id)
		if n == nil {
			continue
		}
		if err := l.Caller.Notify(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// taskNotice polls a task and returns its state as a notification. It returns nil if
// the server does not answer or does not know the task.
func (l *listenCaller) taskNotice(ctx context.Context, id string) *mcp.Notification {
	res, err := l.client.Serve(ctx, call.AboutTask(l.req, call.MethodTaskGet, id), call.NoCaller{})
	if err != nil || res == nil {
		return nil
	}
	return call.TaskNoticeOf(res)
}
