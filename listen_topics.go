// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ackTimeout is how long a listen waits for backends to acknowledge its resources and
// tasks. Those of a backend that has not answered by then count as agreed, and as
// changed once it acknowledges: the client does not wait for a backend that hangs, and
// does not keep outdated state.
const ackTimeout = 2 * time.Second

// The delays between two attempts to listen at a backend.
const (
	minRelistenDelay = 500 * time.Millisecond
	maxRelistenDelay = 30 * time.Second
)

// subscription holds the resources and tasks of one listen. It has one listen at each
// backend that has some of them. Resources follow the catalog: a resource that moves to
// another backend is subscribed there, and counts as updated.
type subscription struct {
	g      *Gateway
	req    *mcp.Request
	caller mcp.Caller

	acknowledged chan struct{} // closed after the acknowledgement; no other notification is sent before
	listens      sync.WaitGroup

	// The fields below belong to the goroutine that serves the listen.
	topics  []topic // the agreed ones, in the order of the request
	current []*backendListen
}

func newSubscription(g *Gateway, req *mcp.Request, caller mcp.Caller) *subscription {
	return &subscription{g: g, req: req, caller: caller, acknowledged: make(chan struct{})}
}

// subscribe subscribes to the topics and returns the agreed filter. Items that are
// hidden from the client and items that do not exist are both left out of it.
func (s *subscription) subscribe(ctx context.Context, want listen.Filter) listen.Filter {
	s.topics = append(s.g.resourceTopics(ctx, s.req, want.URIs), s.g.taskTopics(ctx, s.req, want.TaskIDs)...)
	if len(s.topics) > 0 {
		s.resubscribe(ctx)
		s.awaitAgreement(ctx)
	}
	want.URIs, want.TaskIDs = topicNames(s.topics)
	return want
}

// awaitAgreement waits for the backends, and removes the topics that they refuse.
func (s *subscription) awaitAgreement(ctx context.Context) {
	patience, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	// One timeout for all backends, however many of them hang.
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

// dropRefused reduces the listens to the agreed topics, so that resubscribe finds them
// unchanged.
func (s *subscription) dropRefused() {
	s.current = slices.DeleteFunc(s.current, func(l *backendListen) bool {
		left := l.keep(s.topics)
		if left == 0 {
			l.cancel()
		}
		return left == 0
	})
}

// resubscribe subscribes to each topic at the backend that has it now.
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

// backendTopics are the topics that one backend has.
type backendTopics struct {
	backend *activeBackend
	topics  []topic
}

// byBackend groups the topics by backend. It leaves out a topic that no backend has
// now.
func (s *subscription) byBackend(v *view) []backendTopics {
	var all []backendTopics
	// In the order of the topics, so that the same topics give the same groups.
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

// startListen starts the listen at one backend.
func (s *subscription) startListen(ctx context.Context, sh backendTopics) {
	ctx, cancel := context.WithCancel(ctx)
	l := &backendListen{sub: s, backend: sh.backend, topics: sh.topics, cancel: cancel, settled: make(chan struct{}), pending: newPendingUpdates()}
	select {
	case <-s.acknowledged:
		l.late = true
	default:
	}
	// Waited for by the listen; ends with its context, or when resubscribe finds the
	// topics elsewhere in another catalog.
	s.listens.Go(func() {
		defer cancel()
		l.run(ctx)
	})
	s.current = append(s.current, l)
}

// wait returns when all listens at backends have ended.
func (s *subscription) wait() { s.listens.Wait() }

// backendListen is the listen at one backend, over all its attempts.
type backendListen struct {
	sub     *subscription
	backend *activeBackend
	cancel  context.CancelFunc
	settled chan struct{} // closed when the backend has answered which topics it agrees to
	pending *pendingUpdates

	mu        sync.Mutex
	topics    []topic // requested by the client and possibly agreed
	isSettled bool    // settled is closed
	late      bool    // awaitAgreement no longer waits for settled
	refused   []topic // set once settled
}

// currentTopics returns the topics of the listen.
func (l *backendListen) currentTopics() []topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topics
}

// keep removes the topics that were not agreed, and returns how many are left.
func (l *backendListen) keep(agreed []topic) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics = slices.DeleteFunc(slices.Clone(l.topics), func(t topic) bool { return !slices.Contains(agreed, t) })
	return len(l.topics)
}

// run listens until ctx ends, and retries after each failure.
func (l *backendListen) run(ctx context.Context) {
	var telling sync.WaitGroup
	defer telling.Wait()
	// Ends with ctx; waited for here.
	telling.Go(func() { l.sendPending(ctx) })
	for again := (backoff.Backoff{Min: minRelistenDelay, Max: maxRelistenDelay}); ctx.Err() == nil; backoff.Sleep(ctx, again.Next()) {
		began := time.Now()
		l.listenOnce(ctx, l.currentTopics())
		if time.Since(began) > maxRelistenDelay {
			again.Reset()
		}
	}
}

// listenOnce listens until the listen fails or ends. A failure proves nothing about the
// topics and is retried. A refusal, by an error response or by ending the listen,
// settles them.
func (l *backendListen) listenOnce(ctx context.Context, topics []topic) {
	req, err := listenRequest(l.sub.req, topics)
	if err == nil {
		_, err = l.backend.listenWithAliases(ctx, req, &attempt{backendListen: l, asked: topics}, aliasesOf(topics))
	}
	if _, refused := err.(*mcp.Error); refused || err == nil { //nolint:errorlint // only the backend's own error
		l.settle(topics)
		return
	}
	l.settle(nil)
}

// settle records the topics that the backend refused, at the first answer. It reports
// whether this was in time for the acknowledgement to the client.
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

// refusals returns the topics known to be refused. Later refusals are late.
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

// Notify forwards updates of resources and the states of tasks. If the backend
// acknowledges topics after they were promised to the client, or again, all of them
// count as changed: changes before that were not notified.
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

// invalidate marks all agreed topics as changed.
func (e *attempt) invalidate(ctx context.Context, agreed map[topic]bool) error {
	var pending []topic
	for _, t := range e.asked {
		switch {
		case !agreed[t]:
		case t.backend != "":
			pending = append(pending, t)
		default:
			if err := e.forward(ctx, listen.Updated(t.name)); err != nil {
				return err
			}
		}
	}
	if len(pending) == 0 {
		return nil
	}
	return e.pending.add(ctx, pending)
}

// forward notifies the client, after its listen is acknowledged.
func (l *backendListen) forward(ctx context.Context, n *mcp.Notification) error {
	select {
	case <-l.sub.acknowledged:
		return l.sub.caller.Notify(ctx, n)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start refuses: no request belongs to a listen.
func (e *attempt) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return noCaller{}.Start(ctx, req)
}

// Extension returns one that can do nothing.
func (e *attempt) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// taskNotice notifies of the state of a task (io.modelcontextprotocol/tasks, "Task
// Status Notifications").
const taskNotice = "notifications/tasks"

// taskStatus is the same of 2025-11-25, which both sides send.
const taskStatus = "notifications/tasks/status"

// topic is a resource or a task in the filter of a listen.
type topic struct {
	name string // at the client: a URI, or the id of a task
	own  string // at the backend

	backend string // the backend of a task; "" for a resource, which the catalog resolves
}

// backendOf returns the name of the backend that has the topic, or "".
func (t topic) backendOf(v *view) string {
	if t.backend != "" {
		return t.backend
	}
	if entry, ok := v.catalog.Resource(t.name); ok {
		return entry.BackendName
	}
	return ""
}

// resourceTopics returns the resources that are visible to the client.
func (g *Gateway) resourceTopics(ctx context.Context, req *mcp.Request, uris []string) []topic {
	var found []topic
	for _, uri := range uris {
		if f := g.find(ctx, req, lookup{kind: catalog.Resources, name: uri}); f.entry != nil {
			found = append(found, topic{name: uri, own: uri})
		}
	}
	return found
}

// taskTopics returns the tasks that belong to the client. Foreign ids count as one
// event, however many there are.
func (g *Gateway) taskTopics(ctx context.Context, req *mcp.Request, ids []string) []topic {
	var found []topic
	foreign := false
	for _, id := range ids {
		backend, own, ok := g.taskIDs.decode(id, req.Principal)
		if !ok {
			foreign = true
			continue
		}
		if _, ok := g.view.Load().backend(backend); ok {
			found = append(found, topic{name: id, own: own, backend: backend})
		}
	}
	if foreign {
		g.noteForeignTask(ctx, req)
	}
	return found
}

// topicNames returns the client's names of topics.
func topicNames(topics []topic) (uris, ids []string) {
	for _, t := range topics {
		if t.backend != "" {
			ids = append(ids, t.name)
		} else {
			uris = append(uris, t.name)
		}
	}
	return uris, ids
}

// backendFilter returns the topics by the backend's names. A task with two ids at the
// client, one of them sealed with an older key, is one task at the backend.
func backendFilter(topics []topic) listen.Filter {
	var f listen.Filter
	for _, t := range topics {
		if t.backend != "" {
			f.TaskIDs = append(f.TaskIDs, t.own)
		} else {
			f.URIs = append(f.URIs, t.own)
		}
	}
	f.TaskIDs = listen.Distinct(f.TaskIDs)
	return f
}

// aliasesOf returns one client's id of each task.
func aliasesOf(topics []topic) aliases {
	known := make(aliases)
	for _, t := range topics {
		if t.backend != "" {
			known[t.own] = t.name
		}
	}
	return known
}

// listenRequest returns a listen for the topics only: the catalog covers changes of
// lists.
func listenRequest(from *mcp.Request, topics []topic) (*mcp.Request, error) {
	raw, err := backendFilter(topics).Params()
	if err != nil {
		return nil, err
	}
	req, err := mcp.NewRequest("subscriptions/listen", raw)
	if err != nil {
		return nil, err
	}
	req.Client, req.Principal, req.Scope = from.Client, from.Principal, from.Scope
	return req, nil
}

// agreedTopics reads an acknowledgement. One without a filter agrees to all.
func agreedTopics(asked []topic, params *mcp.Object) map[topic]bool {
	agreedTo := listen.SetOf(backendFilter(asked).Agreed(params))
	agreed := make(map[topic]bool, len(asked))
	for _, t := range asked {
		if t.backend != "" && agreedTo.Tasks[t.own] || t.backend == "" && agreedTo.URIs[t.own] {
			agreed[t] = true
		}
	}
	return agreed
}

// sameTask returns the topics that are the same task as name: one for each id in the
// request.
func sameTask(asked []topic, name string) []topic {
	i := slices.IndexFunc(asked, func(t topic) bool { return t.backend != "" && t.name == name })
	if i < 0 {
		return nil
	}
	var all []topic
	for _, t := range asked {
		if t.backend == asked[i].backend && t.own == asked[i].own {
			all = append(all, t)
		}
	}
	return all
}
