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
