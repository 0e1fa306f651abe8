// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxSubscribing bounds how many subscriptions of one session are made or undone
// at a time. A listen may name a thousand, which no server expects all at once.
const maxSubscribing = 4

// subscriptions are the resources that a session is subscribed to at its server,
// counted: the first listen that asks for one subscribes, and the last that did
// unsubscribes (2025-11-25, server/resources, "Subscriptions"). The zero value is
// ready.
//
// What the server knows follows what is wanted, one request per resource at a
// time: so its last word is the right one, however often a resource is wanted and
// not wanted meanwhile.
type subscriptions struct {
	mu      sync.Mutex
	by      map[string]*subscription
	queue   []*subscription // to be told to the server
	workers int
}

// subscription is one resource. All but the URI is guarded by subscriptions.mu.
type subscription struct {
	uri     string
	users   int
	told    bool          // the server has agreed, and was not told otherwise
	pending bool          // queued, or being told
	settled chan struct{} // closed when the server has been told; nil where nobody waits
	err     error         // why the last attempt has failed
}

// join has the session be subscribed to the resource, if it is not. It does not
// wait: await does. work reports that one more worker has to be started.
func (t *subscriptions) join(uri string) (sub *subscription, work bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sub = t.by[uri]
	if sub == nil {
		if t.by == nil {
			t.by = make(map[string]*subscription)
		}
		sub = &subscription{uri: uri}
		t.by[uri] = sub
	}
	sub.users++
	return sub, t.wantLocked(sub)
}

// leave is the end of one who has joined.
func (t *subscriptions) leave(sub *subscription) (work bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sub.users--
	return t.wantLocked(sub)
}

// wantLocked queues what the server has to be told. One that is told already will
// be looked at again when that is done.
func (t *subscriptions) wantLocked(sub *subscription) (work bool) {
	wanted := sub.users > 0
	if sub.pending || wanted == sub.told {
		t.forgetLocked(sub)
		return false
	}
	sub.pending, sub.err = true, nil
	t.queue = append(t.queue, sub)
	if t.workers >= maxSubscribing {
		return false
	}
	t.workers++
	return true
}

// forgetLocked drops a resource that nobody wants and the server does not know of.
func (t *subscriptions) forgetLocked(sub *subscription) {
	if sub.users == 0 && !sub.told && !sub.pending {
		delete(t.by, sub.uri)
	}
}

// next takes the next resource of which the server has to be told, nil where there
// is none: then the worker has ended in the same step.
func (t *subscriptions) next() (sub *subscription, wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) > 0 {
		sub, t.queue = t.queue[0], t.queue[1:]
		if wanted = sub.users > 0; wanted != sub.told {
			return sub, wanted
		}
		t.settleLocked(sub) // it changed its mind while it was waiting
	}
	t.workers--
	return nil, false
}

// note takes in what became of telling the server. A failure stands until somebody
// joins again: those who wait for it have it as theirs.
func (t *subscriptions) note(sub *subscription, wanted bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sub.told = wanted && err == nil
	if err == nil && (sub.users > 0) != sub.told {
		t.queue = append(t.queue, sub) // still pending
		return
	}
	if sub.err = nil; wanted {
		sub.err = err
	}
	if !wanted && sub.users > 0 { // undoing it has failed, and it is wanted again
		t.queue = append(t.queue, sub)
		return
	}
	t.settleLocked(sub)
}

func (t *subscriptions) settleLocked(sub *subscription) {
	sub.pending = false
	if sub.settled != nil {
		close(sub.settled)
		sub.settled = nil
	}
	t.forgetLocked(sub)
}

// state returns whether the server has agreed, or why not, or what to wait for.
func (t *subscriptions) state(sub *subscription) (agreed bool, wait <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case sub.pending:
		if sub.settled == nil {
			sub.settled = make(chan struct{})
		}
		return false, sub.settled, nil
	default:
		return sub.told, nil, sub.err
	}
}

// subscribe has the session be subscribed to the resources and returns those that
// the server has agreed to, in their order, and what undoes it. A server that
// refuses one has spoken of that one; any other error is that of all.
func (s *legacySession) subscribe(ctx context.Context, uris []string) (agreed []string, undo func(), err error) {
	if !s.offers.Resources.Subscribe || len(uris) == 0 {
		return nil, func() {}, nil
	}
	joined := make([]*subscription, 0, len(uris))
	undo = func() {
		for _, sub := range joined {
			s.work(s.subs.leave(sub))
		}
	}
	for _, uri := range uris {
		sub, work := s.subs.join(uri)
		joined = append(joined, sub)
		s.work(work)
	}
	for _, sub := range joined {
		ok, err := s.awaitSubscribed(ctx, sub)
		if err != nil && !answered(err) {
			undo()
			return nil, nil, err
		}
		if ok {
			agreed = append(agreed, sub.uri)
		}
	}
	return agreed, undo, nil
}

func (s *legacySession) awaitSubscribed(ctx context.Context, sub *subscription) (bool, error) {
	for {
		agreed, wait, err := s.subs.state(sub)
		if wait == nil {
			return agreed, err
		}
		select {
		case <-wait:
		case <-s.gone:
			return false, s.lossCause()
		case <-ctx.Done():
			return false, s.givenUp(ctx, mcp.Completed)
		}
	}
}

// work starts a worker, which ends when nothing is left to tell; the session's
// close waits for it and ends it.
func (s *legacySession) work(one bool) {
	if !one {
		return
	}
	s.tasks.start(func(ctx context.Context) {
		for sub, wanted := s.subs.next(); sub != nil; sub, wanted = s.subs.next() {
			s.subs.note(sub, wanted, s.tellSubscribed(ctx, sub.uri, wanted))
		}
	})
}

// tellSubscribed tells the server, unless it has forgotten the session. That a
// resource is no longer wanted is told to one that may have forgotten it, and its
// answer means nothing.
func (s *legacySession) tellSubscribed(ctx context.Context, uri string, wanted bool) error {
	if err := s.lossCause(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Write)
	defer cancel()
	method := methodUnsubscribe
	if wanted {
		method = methodSubscribe
	}
	_, err := s.roundTrip(ctx, method, append(mcp.AppendString([]byte(`{"uri":`), uri), '}'))
	if !wanted && s.lossCause() == nil {
		return nil
	}
	return err
}
