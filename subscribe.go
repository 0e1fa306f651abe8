// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// agreeWithin is how long a listen waits for backends to say which resources and
// tasks they will tell of. Those of one that has not said count as agreed, and as
// changed as soon as it has: the client is not kept waiting by a backend that hangs,
// and does not keep what may be old.
const ackTimeout = 2 * time.Second

// The waits between two attempts to subscribe at a backend.
const (
	minRelistenDelay = 500 * time.Millisecond
	maxRelistenDelay = 30 * time.Second
)

// subscribed are the resources and tasks of one listen: one listen of its own at
// each backend that has some of them. Resources follow the catalog: one that comes to
// be another backend's is subscribed to there, and counts as updated.
type subscription struct {
	g      *Gateway
	req    *mcp.Request
	caller mcp.Caller

	acknowledged chan struct{} // closed when the listen is acknowledged: nothing is said before
	listens      sync.WaitGroup

	// Of the goroutine that serves the listen.
	topics  []topic // that were agreed, in the order in which they were asked for
	current []*backendListen
}

func newSubscription(g *Gateway, req *mcp.Request, caller mcp.Caller) *subscription {
	return &subscription{g: g, req: req, caller: caller, acknowledged: make(chan struct{})}
}

// begin subscribes and returns what was agreed. What is hidden from the client and
// what nobody has are the same to it: not agreed.
func (s *subscription) subscribe(ctx context.Context, want listenFilter) listenFilter {
	s.topics = append(s.g.resourceTopics(ctx, s.req, want.URIs), s.g.taskTopics(ctx, s.req, want.TaskIDs)...)
	if len(s.topics) > 0 {
		s.resubscribe(ctx)
		s.awaitAgreement(ctx)
	}
	want.URIs, want.TaskIDs = topicNames(s.topics)
	return want
}

// agree waits for the backends, and leaves out what they refuse.
func (s *subscription) awaitAgreement(ctx context.Context) {
	patience, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	// One time for all of them: how many hang makes no difference to the client.
	refused := make(map[topic]bool)
	for _, l := range s.current {
		select {
		case <-l.settled:
		case <-patience.Done():
		}
		for _, t := range l.refusals() {
			refused[t] = true
		}
	}
	s.topics = slices.DeleteFunc(s.topics, func(t topic) bool { return refused[t] })
	if len(refused) > 0 {
		s.dropRefused()
	}
}

// trim has the links know what was agreed, so that they are not taken for others.
func (s *subscription) dropRefused() {
	s.current = slices.DeleteFunc(s.current, func(l *backendListen) bool {
		left := l.keep(s.topics)
		if left == 0 {
			l.cancel()
		}
		return left == 0
	})
}

// follow has each topic be subscribed to at the backend that has it now.
func (s *subscription) resubscribe(ctx context.Context) {
	if len(s.topics) == 0 {
		return
	}
	shares := s.byBackend(s.g.viewFor(clientOf(s.req)))
	s.current = slices.DeleteFunc(s.current, func(l *backendListen) bool {
		i := slices.IndexFunc(shares, func(sh backendTopics) bool {
			return sh.backend.Backend == l.backend.Backend && slices.Equal(sh.topics, l.currentTopics())
		})
		if i < 0 {
			l.cancel()
			return true
		}
		shares = slices.Delete(shares, i, i+1)
		return false
	})
	for _, sh := range shares {
		s.startListen(ctx, sh)
	}
}

// share is what one backend has of the topics.
type backendTopics struct {
	backend *activeBackend
	topics  []topic
}

// shares splits the topics by the backend that has each. One that nobody has any
// more is nobody's until somebody has it again.
func (s *subscription) byBackend(v *view) []backendTopics {
	var all []backendTopics
	// In the order of the topics, so that the same topics have the same shares.
	at := make(map[*activeBackend]int)
	for _, t := range s.topics {
		b, ok := v.backend(t.backendOf(v))
		if !ok {
			continue
		}
		i, known := at[b]
		if !known {
			i = len(all)
			at[b], all = i, append(all, backendTopics{backend: b})
		}
		all[i].topics = append(all[i].topics, t)
	}
	return all
}

// link begins the listen at one backend.
func (s *subscription) startListen(ctx context.Context, sh backendTopics) {
	ctx, cancel := context.WithCancel(ctx)
	l := &backendListen{sub: s, backend: sh.backend, topics: sh.topics, cancel: cancel, settled: make(chan struct{}), pending: newPendingUpdates()}
	select {
	case <-s.acknowledged:
		l.late = true
	default:
	}
	// Waited for by the listen; ends with its context, or when a catalog without the
	// backend has the listen look again.
	s.listens.Go(func() {
		defer cancel()
		l.run(ctx)
	})
	s.current = append(s.current, l)
}

// wait returns when nothing is under way at any backend.
func (s *subscription) wait() { s.listens.Wait() }

// link is the Caller of a listen at one backend, over all attempts to have one.
type backendListen struct {
	sub     *subscription
	backend *activeBackend
	cancel  context.CancelFunc
	settled chan struct{} // closed when the backend has said what it agrees to
	pending *pendingUpdates

	mu        sync.Mutex
	topics    []topic // that the client wants to hear of and may have been promised
	isSettled bool    // settled is closed
	late      bool    // nobody waits for that any more
	refused   []topic // once settled
}

// wanted returns the topics of the link.
func (l *backendListen) currentTopics() []topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topics
}

// keep leaves the topics that were agreed on, and returns how many those are.
func (l *backendListen) keep(agreed []topic) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics = slices.DeleteFunc(slices.Clone(l.topics), func(t topic) bool { return !slices.Contains(agreed, t) })
	return len(l.topics)
}

// run listens until ctx ends, and again after each failure.
func (l *backendListen) run(ctx context.Context) {
	var telling sync.WaitGroup
	defer telling.Wait()
	// Ends with the listen or the backend; waited for here.
	telling.Go(func() { l.sendPending(ctx) })
	for wait := minRelistenDelay; ctx.Err() == nil; wait = min(2*wait, maxRelistenDelay) {
		began := time.Now()
		l.listenOnce(ctx, l.currentTopics())
		if time.Since(began) > maxRelistenDelay {
			wait = minRelistenDelay
		}
		sleep(ctx, wait/2+rand.N(wait/2)) //nolint:gosec // jitter, not a secret
	}
}

// once listens until that fails. Where it has failed nothing is known, and it will
// be tried again. That it was refused, in words or by leaving, is known.
func (l *backendListen) listenOnce(ctx context.Context, topics []topic) {
	req, err := listenRequest(l.sub.req, topics)
	if err == nil {
		_, err = l.backend.listenWithAliases(ctx, req, &attempt{backendListen: l, asked: topics}, aliasesOf(topics))
	}
	if _, refused := err.(*mcp.Error); refused || err == nil { //nolint:errorlint // only the backend's own word
		l.settle(topics)
		return
	}
	l.settle(nil)
}

// settle notes what the backend has refused, the first time that anything is known.
// It reports whether that was in time to be acknowledged to the client.
func (l *backendListen) settle(refused []topic) (inTime bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isSettled {
		return false
	}
	l.isSettled, l.refused = true, refused
	close(l.settled)
	return !l.late
}

// refusals returns what is known to be refused. Nobody waits for more afterwards.
func (l *backendListen) refusals() []topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = true
	return l.refused
}

// attempt is the Caller of one listen at the backend.
type attempt struct {
	*backendListen
	asked []topic
}

// Notify passes on that a resource was updated, and what has become of a task. Where
// the client has been promised to hear of something before the backend has agreed to
// tell of it, or again, all of it counts as changed: what happened until then was not
// told.
func (e *attempt) Notify(ctx context.Context, n *mcp.Notification) error {
	switch n.Method {
	case "notifications/subscriptions/acknowledged":
		agreed := agreedTopics(e.asked, &n.Params)
		if e.settle(slices.DeleteFunc(slices.Clone(e.asked), func(t topic) bool { return agreed[t] })) {
			return nil
		}
		return e.invalidate(ctx, agreed)
	case "notifications/resources/updated":
		return e.forward(ctx, n)
	case taskNotice:
		return e.forwardTask(ctx, e.asked, n)
	}
	return nil
}

// invalidate has all that was agreed count as changed.
func (e *attempt) invalidate(ctx context.Context, agreed map[topic]bool) error {
	var pending []topic
	for _, t := range e.asked {
		switch {
		case !agreed[t]:
		case t.backend != "":
			pending = append(pending, t)
		default:
			n, err := t.updatedNotice()
			if err == nil {
				err = e.forward(ctx, n)
			}
			if err != nil {
				return err
			}
		}
	}
	if len(pending) == 0 {
		return nil
	}
	return e.pending.add(ctx, pending)
}

// pass tells the client, once its listen is acknowledged.
func (l *backendListen) forward(ctx context.Context, n *mcp.Notification) error {
	select {
	case <-l.sub.acknowledged:
		return l.sub.caller.Notify(ctx, n)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ask refuses: a listen asks nothing.
func (e *attempt) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	return noCaller{}.Ask(ctx, req)
}
