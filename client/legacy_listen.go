// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// listen serves subscriptions/listen out of a session's changes, until the
// session or ctx ends. The legacy era has no such request: its servers tell of
// changes without being asked, on whatever stream the session has
// (2025-11-25, basic/transports, "Listening for Messages from the Server").
func (l *legacy) listen(ctx context.Context, req *mcp.Request, sink mcp.Caller) error {
	want, err := parseFilter(&req.Params)
	if err != nil {
		return err
	}
	if len(want.TaskIDs) > 0 {
		return l.listenTasks(ctx, want, req, sink)
	}
	return l.listenLists(ctx, want, req, sink)
}

// listenLists is listen without tasks.
func (l *legacy) listenLists(ctx context.Context, want filter, req *mcp.Request, sink mcp.Caller) error {
	err := l.listenOnce(ctx, want, req, sink)
	if isRejected(err, sessionGone) {
		// The session was lost before anything was promised, as with a call that the
		// server has not looked at: there is nothing to be told of but in the next.
		err = l.listenOnce(ctx, want, req, sink)
	}
	return err
}

func (l *legacy) listenOnce(ctx context.Context, want filter, req *mcp.Request, sink mcp.Caller) error {
	s, done, err := l.listened(ctx, want, req)
	if err != nil {
		return err
	}
	defer done()
	return s.listen(ctx, want, sink)
}

// listened returns the session whose changes a listen is told of. It is the
// scope's own where there is one, because a server may tell each session of
// others. The listens of one client that have no scope share one, which lives as
// long as they do and is lent to the client's calls: some servers tell a session only
// of what was asked for in it. That of the only client is there anyway.
func (l *legacy) listened(ctx context.Context, want filter, req *mcp.Request) (*legacySession, func(), error) {
	if l.Share || req.Scope != nil {
		use, err := l.acquire(ctx, req)
		if err == nil {
			// Who only listens does not keep a scope from yielding: that is its
			// owner's to judge, who knows what the listen is for.
			l.release(&use, true)
		}
		return use.legacySession, func() {}, err
	}
	if l.hasHome(req) {
		s, err := l.goHome(ctx, req, len(want.URIs) == 0)
		return s, func() {}, err
	}
	key := keyOf(req)
	own, err := l.watch.join(l, key)
	if err != nil {
		return nil, nil, err
	}
	leave := func() { l.watch.leave(l, key, own) }
	// Lists are what a server offers to all, and are asked for by nobody; resources are
	// watched for a client.
	open := l.opener(req.Client, routing{onlyCall: true}, len(want.URIs) == 0)
	s, err := own.slot.get(ctx, l, func(ctx context.Context) (*legacySession, error) {
		if s := l.pool.adopt(key); s != nil {
			return s, nil
		}
		return open(ctx)
	})
	if err != nil {
		leave()
		return nil, nil, err
	}
	l.pool.host(&own.slot, key, s, false)
	return s, leave, nil
}

// watches are the sessions of listens without a scope, one for each key of the pool:
// a server may tell a session what only its principal may know. The zero value is
// ready.
type watches struct {
	mu    sync.Mutex
	by    map[poolKey]*watch
	ended bool
}

// watch is the session of one key. users is guarded by watches.mu.
type watch struct {
	slot  scopedSession
	users int
}

// join returns the session's place, made by the first who joins. It is given back
// with leave.
func (w *watches) join(l *legacy, key poolKey) (*watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil, l.closed()
	}
	own := w.by[key]
	if own == nil {
		if w.by == nil {
			w.by = make(map[poolKey]*watch)
		}
		own = new(watch)
		w.by[key] = own
	}
	own.users++
	return own, nil
}

// leave lets the session go with the last of those who joined, and forgets the
// key. A session that is lent is closed when it comes back.
func (w *watches) leave(l *legacy, key poolKey, own *watch) {
	if !w.drop(key, own) {
		return
	}
	if l.pool.dismiss(&own.slot) {
		own.slot.takeOut(true)
		return
	}
	own.slot.end(l)
}

// drop reports whether nobody uses the session any more. Whoever comes next makes
// another one: that is decided here, so that nobody can join one that is ended.
func (w *watches) drop(key poolKey, own *watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	own.users--
	if own.users > 0 {
		return false
	}
	delete(w.by, key)
	return true
}

// end lets all sessions go, for good.
func (w *watches) end(l *legacy) {
	for _, own := range w.shut() {
		own.slot.end(l)
	}
}

func (w *watches) shut() []*watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	return slices.Collect(maps.Values(w.by))
}

// listen tells sink of the lists that it wants to hear of and the server has
// promised to tell of, and of the resources that the server lets it subscribe to,
// until the session, its way of telling, or ctx ends.
//
// The end of a session ends its stream too, and the two are seen in any order.
// The end of the session is what counts: the next session may well tell, while a
// server without a stream is not listened to again. A session knows that it has
// ended before its stream is closed, so that whoever sees the stream closed finds
// the reason there.
func (s *legacySession) listen(ctx context.Context, want filter, sink mcp.Caller) error {
	promised, deafness := want.with(want.lists()&s.promises()), s.wire.noListenStream()
	deaf := isClosed(deafness) // looked at first: then what ended it is known below
	if err := s.lossCause(); err != nil {
		return &rejected{why: sessionGone, err: err}
	}
	if deaf {
		promised = filter{}
	}
	// Before the server is asked: it may tell of a change before it has answered.
	ear := s.feed.add(promised)
	defer s.feed.remove(ear)
	agreed, undo, err := s.subscribe(ctx, promised.URIs)
	if err != nil {
		return err
	}
	defer undo()
	promised.URIs = agreed
	s.feed.keep(ear, promised)
	if promised.lists() == 0 && len(agreed) == 0 {
		deafness = nil // nothing that could be missed
	}
	if err := acknowledge(ctx, promised, sink); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return s.givenUp(ctx, mcp.Completed)
		case <-s.gone:
			return s.lossCause()
		case <-deafness:
			if err := s.lossCause(); err != nil {
				return err
			}
			return s.errNoListen()
		case <-ear.wake:
			if err := s.feed.take(ear).notify(ctx, sink); err != nil {
				return err
			}
		}
	}
}

// promises returns the lists whose changes the server has said that it will tell.
func (s *legacySession) promises() changes {
	return filter{
		Tools: s.offers.Tools.ListChanged, Prompts: s.offers.Prompts.ListChanged, Resources: s.offers.Resources.ListChanged,
	}.lists()
}
