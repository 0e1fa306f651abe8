// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// subscriptionsKey is under what a scope keeps those of its session.
type subscriptionsKey struct{}

// subscriptionsOf returns the subscriptions of a session, false where that has
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

// subscriptions are the resources that one session is subscribed to, by their URIs.
// They end with its scope.
type subscriptions struct {
	mu    sync.Mutex
	last  uint64 // how many there have been
	by    map[string]*subscription
	bound bool
	ended bool
}

// subscription is one resource.
type subscription struct {
	uri     string
	prefix  string          // of the keys of its updates, and of no other subscription's
	ctx     context.Context //nolint:containedctx // of the inner listen, which outlives the request that began it
	cancel  context.CancelCauseFunc
	settled chan struct{} // closed when it is known whether it was agreed
	done    chan struct{} // closed when nothing more will be told
	err     error         // why not; set before settled is closed

	waiting int // guarded by subscriptions.mu: requests that want to know
}

// tie reports true to the first who asks: the one to bind them to the scope.
func (a *subscriptions) bindOnce() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.bound
	a.bound = true
	return first
}

// join returns the subscription to a resource, made by the first who asks for it;
// nil where there are as many as there may be.
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

// settle says what became of it, the first time. One that was not agreed is none.
// It reports whether it is one.
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

// giveUp is the end of a request that no longer waits. With the last of them ends
// a subscription of which nobody has been told.
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

// remove takes the subscription to a resource out, nil where there is none.
func (a *subscriptions) remove(uri string) *subscription {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub := a.by[uri]
	delete(a.by, uri)
	return sub
}

// agreed returns those of which the session is told, in the order of their URIs.
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

// end ends all of them, for good.
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
