// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

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
	err = l.listenOnce(ctx, want, req, sink)
	if isRejected(err, sessionGone) {
		// The session was lost before anything was promised, as with a call that the
		// server has not looked at: there is nothing to be told of but in the next.
		err = l.listenOnce(ctx, want, req, sink)
	}
	return err
}

func (l *legacy) listenOnce(ctx context.Context, want filter, req *mcp.Request, sink mcp.Caller) error {
	s, done, err := l.listened(ctx, req)
	if err != nil {
		return err
	}
	defer done()
	return s.listen(ctx, want, sink)
}

// listened returns the session whose changes a listen is told of. It is the
// scope's own where there is one, because a server may tell each session of
// others; listens without a scope share one that exists for them alone, and no
// longer than they do.
func (l *legacy) listened(ctx context.Context, req *mcp.Request) (*legacySession, func(), error) {
	if l.Share || req.Scope != nil {
		s, release, err := l.acquire(ctx, req)
		if err == nil {
			// Who only listens does not keep a scope from yielding: that is its
			// owner's to judge, who knows what the listen is for.
			release(true)
		}
		return s, func() {}, err
	}
	l.watch.join()
	s, err := l.watch.get(ctx, l, l.opener(l.self(), address{}, true))
	leave := func() { l.watch.leave(l) }
	if err != nil {
		leave()
		return nil, nil, err
	}
	return s, leave, nil
}

// listen tells sink of the lists that it wants to hear of and the server has
// promised to tell of, until the session, its way of telling, or ctx ends.
//
// The end of a session ends its stream too, and the two are seen in any order.
// The end of the session is what counts: the next session may well tell, while a
// server without a stream is not listened to again. A session knows that it has
// ended before its stream is closed, so that whoever sees the stream closed finds
// the reason there.
func (s *legacySession) listen(ctx context.Context, want filter, sink mcp.Caller) error {
	promised, deafness := want.lists()&s.promises(), s.wire.deafness()
	deaf := isClosed(deafness) // looked at first: then what ended it is known below
	if err := s.lossCause(); err != nil {
		return &rejected{why: sessionGone, err: err}
	}
	if deaf {
		promised = 0
	}
	if promised == 0 {
		deafness = nil // nothing that could be missed
	}
	ear := s.feed.add(promised)
	defer s.feed.remove(ear)
	if err := acknowledge(ctx, promised.filter(), sink); err != nil {
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
			return s.deaf()
		case <-ear.wake:
			if err := s.feed.take(ear).tell(ctx, sink); err != nil {
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
