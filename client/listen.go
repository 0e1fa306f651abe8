// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The waits between two attempts to hear of changes again. That a stream breaks is
// the ordinary case, because proxies cut what is quiet and servers restart: the
// first wait is short. The last is what a server that is down for long is spared.
const (
	minListenWait = 250 * time.Millisecond
	maxListenWait = 30 * time.Second
)

// deafAfter is how many attempts in a row may fail before a listen ends with the
// error of the last: who listens has to know that nothing is heard any more.
const maxListenFailures = 4

// lastMending is the longest wait before a server is asked once more for what it had
// agreed to tell of and does not any more. Each attempt tells who listens that
// everything may have changed, which is a lot to fetch where a resource is gone for
// good.
const maxReopenWait = 5 * time.Minute

// listen serves subscriptions/listen until ctx ends: the stream of changes is
// opened again whenever it breaks, and because nobody knows what happened in the
// gap, everything listened for then counts as changed. An error of the first
// attempt is the request's, and so is that of a server which stays away.
func (c *Client) listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) error {
	want, err := parseFilter(&req.Params)
	if err != nil {
		return err
	}
	ear := &listenCaller{Caller: caller, want: want, again: c.listenedBefore(req.Scope, want)}
	ear.fetchTask = func(ctx context.Context, id string) *mcp.Notification { return c.taskNotice(ctx, req, id) }
	wait, deaf := minListenWait, 0
	// There is no error for a stream that broke: to the caller the listen goes on,
	// and the gap is said by telling it of everything.
	for {
		began, heard := time.Now(), ear.acknowledged.Load()
		err := c.listenOnce(ctx, req, ear)
		if deaf++; ear.acknowledged.Load() > heard {
			deaf = 0
		}
		switch {
		case ctx.Err() != nil:
			return c.givenUp(ctx, mcp.Completed)
		case errors.Is(err, errClosed), errors.Is(err, errNoListenStream):
			return unwrap(err)
		case ear.acknowledged.Load() == 0 && classify(req, err) != reprobe, deaf >= maxListenFailures:
			return unwrap(err)
		case time.Since(began) > maxListenWait:
			wait = minListenWait
		}
		if !pause(ctx, wait/2+rand.N(wait/2)) { //nolint:gosec // jitter, not a secret
			return c.givenUp(ctx, mcp.Completed)
		}
		wait = min(2*wait, maxListenWait)
	}
}

// listenOnce is a protocol's listen. A protocol that turned out to be the wrong one
// is given up for all, as with any other request.
func (c *Client) listenOnce(ctx context.Context, req *mcp.Request, ear *listenCaller) error {
	sp, err := c.protocol(ctx, nil)
	if err != nil {
		return err
	}
	ear.era = sp.era()
	once, cut := context.WithCancel(ctx)
	defer cut()
	ear.cut = cut
	err = sp.listen(once, req, ear)
	c.release(sp, isRejected(err, wrongEra) || isRejected(err, neverSpoke))
	return err
}

// listening is the caller of a listen over all the streams that serve it one
// after the other.
type listenCaller struct {
	mcp.Caller

	want         filter
	acknowledged atomic.Int64 // how many streams were opened

	// agreed are the resources and tasks that the first stream's server has agreed to
	// tell of. It is set before the first acknowledgement is passed on, and not
	// changed: only these does the caller know to be told of.
	agreed filter

	era       mcp.Era            // of the stream
	cut       context.CancelFunc // ends the stream
	narrower  int                // how many streams in a row have agreed to less than the first
	fetchTask func(ctx context.Context, id string) *mcp.Notification

	again bool // the scope has listened before, and may have missed something since
}

// listened is under what a scope keeps that it has listened to the lists of a
// client.
type listenedKey struct{ to *Client }

// listenedBefore reports whether the scope has listened to lists before, and notes
// that it does now. A session's stream comes and goes, and between two of them
// nobody listens for it.
func (c *Client) listenedBefore(scope *mcp.Scope, want filter) bool {
	if scope == nil || want.lists() == 0 {
		return false
	}
	kept, _ := scope.Value(listenedKey{c}, func() any { return new(atomic.Bool) })
	before, ok := kept.(*atomic.Bool)
	return ok && before.Swap(true)
}

// Notify passes on what a stream brings. The first stream's acknowledgement is
// the listen's; that of a later one says that there was a gap.
func (l *listenCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	if n.Method != methodAcknowledged {
		return l.Caller.Notify(ctx, n)
	}
	if l.acknowledged.Add(1) == 1 {
		l.agreed = acknowledged(n, l.want)
		if err := l.Caller.Notify(ctx, n); err != nil || !l.again {
			return err
		}
		gap := news{lists: l.want.lists()}
		return gap.notify(ctx, l.Caller)
	}
	l.reopenIfNarrower(acknowledged(n, l.want))
	return l.invalidate(ctx)
}

// mend has a stream that agrees to less than what the caller was promised be
// followed by another one after a while: the server may have just started, and not
// know yet what it has. Until then the stream tells of the rest.
func (l *listenCaller) reopenIfNarrower(agreed filter) {
	if agreed.covers(l.agreed) {
		l.narrower = 0
		return
	}
	wait := min(minListenWait<<min(l.narrower, 16), maxReopenWait)
	l.narrower++
	time.AfterFunc(wait, l.cut) // of a stream that is over it does nothing
}

// invalidate tells the caller that all it listens for may have changed. A notice
// too many costs a fetch; one too few leaves a client with a list that is wrong for
// as long as it lives.
func (l *listenCaller) invalidate(ctx context.Context) error {
	all := news{lists: l.want.lists()}
	for _, uri := range l.agreed.URIs {
		all.updated = append(all.updated, updateOf(uri))
	}
	if err := all.notify(ctx, l.Caller); err != nil || l.era != mcp.EraModern {
		return err // the legacy edge looks at each task as it begins
	}
	for _, id := range l.agreed.TaskIDs {
		n := l.fetchTask(ctx, id)
		if n == nil {
			continue
		}
		if err := l.Caller.Notify(ctx, n); err != nil {
			return err
		}
	}
	return nil
}
