// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/serial"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxSubscribeWorkers bounds the concurrent resources/subscribe and unsubscribe
// requests of one session. A listen may name a thousand resources.
const maxSubscribeWorkers = 4

// subscriptions are the resources to which a session is subscribed at its server. They
// are counted: the first listen for a resource subscribes, and the last one
// unsubscribes (2025-11-25, server/resources, "Subscriptions"). The zero value is
// ready.
//
// There is one request per resource at a time, and the next one follows if the wanted
// state has changed meanwhile. So the server's last request is the right one.
type subscriptions struct {
	queue serial.Queue[*subscription] // with a request to send

	mu    sync.Mutex
	byURI map[string]*subscription
}

// subscription is one resource. All fields but uri are guarded by subscriptions.mu.
type subscription struct {
	uri     string
	users   int
	active  bool          // the server has accepted it, and no unsubscribe was sent
	queued  bool          // in queue, or in a worker
	settled chan struct{} // closed when queued becomes false; nil if none waits for that
	err     error         // of the last attempt
}

// acquire adds a use of the resource, and subscribes if it is the first. It does not
// wait: awaitSubscribed does. If queue is set, the caller must queue the resource.
func (t *subscriptions) acquire(uri string) (sub *subscription, queue bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sub = t.byURI[uri]
	if sub == nil {
		if t.byURI == nil {
			t.byURI = make(map[string]*subscription)
		}
		sub = &subscription{uri: uri}
		t.byURI[uri] = sub
	}
	sub.users++
	return sub, t.changedLocked(sub)
}

// release ends a use of the resource. If queue is set, the caller must queue the resource.
func (t *subscriptions) release(sub *subscription) (queue bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sub.users--
	return t.changedLocked(sub)
}

// changedLocked reports whether to queue a request, because the server's state differs
// from the wanted one. A resource that is queued already is checked again after its
// request.
func (t *subscriptions) changedLocked(sub *subscription) (queue bool) {
	if sub.queued {
		return false
	}
	if wanted := sub.users > 0; wanted == sub.active {
		t.forgetLocked(sub)
		return false
	}
	sub.queued, sub.err = true, nil
	return true
}

// next returns the request to send for a resource that was queued. needed is false if the
// wanted state has changed back meanwhile.
func (t *subscriptions) next(sub *subscription) (wanted, needed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wanted = sub.users > 0
	if wanted == sub.active {
		t.settleLocked(sub)
		return wanted, false
	}
	return wanted, true
}

// record stores the outcome of a request. An error is kept until the next acquire, for
// the listens that wait for it. If queue is set, the caller must queue the resource again.
func (t *subscriptions) record(sub *subscription, wanted bool, err error) (queue bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sub.active = wanted && err == nil
	if err == nil && (sub.users > 0) != sub.active {
		return true
	}
	if sub.err = nil; wanted {
		sub.err = err
	}
	if !wanted && sub.users > 0 { // unsubscribing has failed, and it is wanted again
		return true
	}
	t.settleLocked(sub)
	return false
}

func (t *subscriptions) settleLocked(sub *subscription) {
	sub.queued = false
	if sub.settled != nil {
		close(sub.settled)
		sub.settled = nil
	}
	t.forgetLocked(sub)
}

// forgetLocked removes a resource that has no users and no subscription.
func (t *subscriptions) forgetLocked(sub *subscription) {
	if sub.users == 0 && !sub.active {
		delete(t.byURI, sub.uri)
	}
}

// state returns whether the server has accepted the subscription, or the error, or a
// channel to wait on.
func (t *subscriptions) state(sub *subscription) (agreed bool, wait <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !sub.queued {
		return sub.active, nil, sub.err
	}
	if sub.settled == nil {
		sub.settled = make(chan struct{})
	}
	return false, sub.settled, nil
}

// subscribe subscribes the session to the resources and returns those that the server
// has accepted, in their order. The caller must call undo. An error response refuses
// that resource only; any other error fails all.
func (s *clientSession) subscribe(ctx context.Context, uris []string) (agreed []string, undo func(), err error) {
	if !s.offers.Resources.Subscribe || len(uris) == 0 {
		return nil, func() {}, nil
	}
	joined := make([]*subscription, 0, len(uris))
	undo = func() {
		for _, sub := range joined {
			if s.subs.release(sub) {
				s.queueSubscribe(sub)
			}
		}
	}
	for _, uri := range uris {
		sub, queue := s.subs.acquire(uri)
		joined = append(joined, sub)
		if queue {
			s.queueSubscribe(sub)
		}
	}
	for _, sub := range joined {
		ok, err := s.awaitSubscribed(ctx, sub)
		if err != nil && !call.Answered(err) {
			undo()
			return nil, nil, err
		}
		if ok {
			agreed = append(agreed, sub.uri)
		}
	}
	return agreed, undo, nil
}

func (s *clientSession) awaitSubscribed(ctx context.Context, sub *subscription) (bool, error) {
	for {
		agreed, wait, err := s.subs.state(sub)
		if wait == nil {
			return agreed, err
		}
		select {
		case <-wait:
		case <-s.ended:
			return false, s.endCause()
		case <-ctx.Done():
			return false, s.GivenUp(ctx, mcp.Completed)
		}
	}
}

// queueSubscribe queues the request for a resource.
func (s *clientSession) queueSubscribe(sub *subscription) {
	s.subs.queue.Put(sub, func(next func(context.Context) (*subscription, bool)) bool {
		// Ends when the queue is empty; the session's close cancels it and waits for it.
		_, ok := s.group.Start(func(ctx context.Context) {
			for sub, ok := next(ctx); ok; sub, ok = next(ctx) {
				wanted, needed := s.subs.next(sub)
				if needed && s.subs.record(sub, wanted, s.sendSubscribe(ctx, sub.uri, wanted)) {
					s.queueSubscribe(sub)
				}
			}
		})
		return ok
	})
}

// sendSubscribe sends resources/subscribe or unsubscribe, unless the server has
// forgotten the session. An error response to unsubscribe is ignored.
func (s *clientSession) sendSubscribe(ctx context.Context, uri string, wanted bool) error {
	if err := s.endCause(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Write)
	defer cancel()
	method := call.MethodUnsubscribe
	if wanted {
		method = call.MethodSubscribe
	}
	_, err := s.ownCall(ctx, method, append(jsonscan.AppendString([]byte(`{"uri":`), uri), '}'))
	if !wanted && s.endCause() == nil {
		return nil
	}
	return err
}
