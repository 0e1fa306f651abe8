// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/task"
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

// subscription holds the resources and tasks of one listener. It has one listen at each
// backend that has some of them. Resources follow the catalog: a resource that moves to
// another backend is subscribed there, and counts as updated.
type subscription struct {
	*listener

	req     *mcp.Request
	cancel  context.CancelFunc // ends the listens
	listens sync.WaitGroup
	feed    listen.Feed      // the updates of all backends, by the client's names
	updates *listen.Listener // those not sent yet

	// The fields below belong to the goroutine that starts the listener, and then to
	// the one that sends.
	topics       []topic // the agreed ones, in the order of the request
	current      []*backendListen
	view         *view // for which current is
	acknowledged bool
}

// subscribe subscribes to the topics and returns the agreed filter. Items that are
// hidden from the client and items that do not exist are both left out of it.
func (s *subscription) subscribe(want listen.Filter) listen.Filter {
	s.topics = append(s.g.resourceTopics(s.ctx, s.req, want.URIs), s.g.taskTopics(s.ctx, s.req, want.TaskIDs)...)
	s.updates = s.feed.Add(clientFilter(s.topics))
	s.resubscribe(s.ctx)
	s.awaitAgreement(s.ctx)
	agreed := clientFilter(s.topics)
	s.feed.Narrow(s.updates, agreed)
	want.URIs, want.TaskIDs = agreed.URIs, agreed.TaskIDs
	return want
}

// awaitAgreement waits for the backends, and removes the topics that they refuse.
func (s *subscription) awaitAgreement(ctx context.Context) {
	patience, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	// One timeout for all backends, however many of them hang.
	for _, l := range s.current {
		select {
		case <-l.settled:
		case <-patience.Done():
		}
		refused := l.dropRefused()
		s.topics = slices.DeleteFunc(s.topics, func(t topic) bool { return slices.Contains(refused, t) })
		if len(l.currentTopics()) == 0 {
			l.cancel()
		}
	}
	s.acknowledged = true
}

// resubscribe subscribes to each topic at the backend that has it now.
func (s *subscription) resubscribe(ctx context.Context) {
	v := s.g.viewFor(s.client)
	if v == s.view {
		return
	}
	s.view = v
	shares := s.byBackend(v)
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
	for at := range s.topics {
		of := s.topics[at].resolve(v)
		t := s.topics[at]
		b, ok := v.backend(of)
		if !ok || !s.mayFollow(v, t) {
			continue
		}
		i := slices.IndexFunc(all, func(sh backendTopics) bool { return sh.backend == b })
		if i < 0 {
			i, all = len(all), append(all, backendTopics{backend: b})
		}
		all[i].topics = append(all[i].topics, t)
	}
	return all
}

// mayFollow reports whether the client may still be told of a topic.
func (s *subscription) mayFollow(v *view, t topic) bool {
	if t.backend != "" {
		return v.class == nil || s.g.admitsTask(s.req, t.backend, t.name)
	}
	return v.mayFollow(s.client, t.name)
}

// startListen starts the listen at one backend.
func (s *subscription) startListen(ctx context.Context, sh backendTopics) {
	ctx, cancel := context.WithCancel(ctx)
	l := &backendListen{
		sub: s, backend: sh.backend, cancel: cancel, settled: make(chan struct{}), gap: make(chan struct{}, 1),
		topics: sh.topics, late: s.acknowledged, missed: make(map[topic]int),
	}
	// Waited for by the listener; ends with its context, or when resubscribe finds the
	// topics elsewhere in another catalog.
	s.listens.Go(func() {
		defer cancel()
		l.run(ctx)
	})
	s.current = append(s.current, l)
}

// backendListen is the listen at one backend, over all its attempts.
type backendListen struct {
	sub     *subscription
	backend *activeBackend
	cancel  context.CancelFunc
	settled chan struct{} // closed when the backend has answered which topics it agrees to
	gap     chan struct{} // capacity 1; tasks were added to missed

	mu        sync.Mutex
	topics    []topic // requested by the client and possibly agreed
	isSettled bool    // settled is closed
	late      bool    // awaitAgreement no longer waits for settled
	refused   []topic // set once settled

	// missed are the tasks that may have changed while no notification was received,
	// with the number of the last such gap. A task stays missed, whatever happens to the
	// backend meanwhile, until its state was fetched, the backend itself sent it, or the
	// task no longer exists.
	missed map[topic]int
	gaps   int
}

// currentTopics returns the topics of the listen.
func (l *backendListen) currentTopics() []topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topics
}

// dropRefused removes the topics known to be refused, and returns them. Later refusals
// are late.
func (l *backendListen) dropRefused() (refused []topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = true
	l.topics = slices.DeleteFunc(slices.Clone(l.topics), func(t topic) bool { return slices.Contains(l.refused, t) })
	return l.refused
}

// run listens until ctx ends, and retries after each failure.
func (l *backendListen) run(ctx context.Context) {
	var fetching sync.WaitGroup
	defer fetching.Wait()
	// Ends with ctx; waited for here.
	fetching.Go(func() { l.fetchMissed(ctx) })
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
	req, err := l.listenRequest(topics)
	if err == nil {
		e := &attempt{backendListen: l, asked: topics, names: aliasesOf(topics)}
		_, err = l.backend.listen(ctx, req, e, e.names)
	}
	if _, refused := err.(*mcp.Error); refused || err == nil { //nolint:errorlint // only the backend's own error
		l.settle(topics)
		return
	}
	l.settle(nil)
}

// listenRequest returns a listen for the topics only: the catalog covers changes of
// lists.
func (l *backendListen) listenRequest(topics []topic) (*mcp.Request, error) {
	params, err := backendFilter(topics).Params()
	if err != nil {
		return nil, err
	}
	return l.request("subscriptions/listen", params)
}

// request returns a request on behalf of the client, with the identity that it has now: after a
// failure the token of the request before may have expired.
func (l *backendListen) request(method string, params []byte) (*mcp.Request, error) {
	req, err := mcp.NewRequest(method, params)
	if err != nil {
		return nil, err
	}
	c := l.sub.client
	req.Client, req.Principal, req.Profile, req.Scope, req.Identity = c.Peer, c.Principal, c.profile, c.Scope, c.currentIdentity()
	return req, nil
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

// attempt is the Caller of one listen at the backend. No request belongs to a listen.
type attempt struct {
	noCaller
	*backendListen

	asked []topic
	names aliases // of the tasks
}

// Notify records updates of resources and the states of tasks, for the client to be
// sent. If the backend acknowledges topics after they were promised to the client, or
// again, all of them count as changed: changes before that were not notified.
func (e *attempt) Notify(_ context.Context, n *mcp.Notification) error {
	switch n.Method {
	case listen.MethodAcknowledged:
		agreed := agreedTopics(e.asked, &n.Params)
		if e.settle(slices.DeleteFunc(slices.Clone(e.asked), func(t topic) bool { return slices.Contains(agreed, t) })) {
			return nil
		}
		e.invalidate(agreed)
	case listen.MethodUpdated:
		for _, update := range e.updates(n) {
			e.sub.feed.UpdateResource(update)
		}
	case listen.MethodTask:
		name, _ := n.Params.Text(mcp.FieldTaskID)
		for _, t := range e.asked {
			// A task may have more than one id in the request.
			if t.backend == "" || e.names[t.own] != name {
				continue
			}
			var edit mcp.Edit
			edit.SetText(mcp.FieldTaskID, t.name)
			params, err := edit.Apply(&n.Params)
			if err != nil {
				return err
			}
			e.deliver(t, &mcp.Notification{Method: n.Method, Params: params}, 0)
		}
	}
	e.sub.wake()
	return nil
}

// invalidate marks topics as changed: resources as updated, and tasks as missed.
func (l *backendListen) invalidate(topics []topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gaps++
	for _, t := range topics {
		if t.backend == "" {
			l.sub.feed.UpdateResource(listen.ResourceUpdated(t.name))
		} else {
			l.missed[t] = l.gaps
		}
	}
	select {
	case l.gap <- struct{}{}:
	default: // already signalled
	}
}

// deliver hands on a notification of a task, which is then no longer missed. If the
// notification is of a state fetched because of a gap, it is outdated if the task was
// notified or missed again meanwhile. Without a notification, the task no longer exists.
func (l *backendListen) deliver(t topic, n *mcp.Notification, gap int) {
	if n != nil {
		if f := l.sub.g.taskFilter(l.sub.req, l.backend, t.name); f != nil {
			n = f.notice(n)
		}
		if c := l.sub.g.taskCut(l.sub.req, l.backend, t.name); c != nil && n != nil {
			n = c.notice(n)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if gap != 0 && l.missed[t] != gap {
		return
	}
	delete(l.missed, t)
	if n != nil {
		l.sub.feed.UpdateTask(n)
	}
}

// fetchMissed fetches the states of missed tasks until ctx ends, and retries those that
// fail.
func (l *backendListen) fetchMissed(ctx context.Context) {
	again := backoff.Backoff{Min: minRelistenDelay, Max: maxRelistenDelay}
	for ctx.Err() == nil {
		failed := false
		for _, t := range l.currentTopics() {
			gap := l.missedSince(t)
			if gap == 0 {
				continue
			}
			n, err := l.fetchState(ctx, t)
			if err != nil {
				failed = true
				continue
			}
			l.deliver(t, n, gap)
			l.sub.wake()
		}
		var retry <-chan time.Time
		if failed {
			retry = time.After(again.Next())
		}
		select {
		case <-l.gap:
			again.Reset()
		case <-retry:
		case <-ctx.Done():
		}
	}
}

// missedSince returns the number of the gap in which a task was missed last, or 0.
func (l *backendListen) missedSince(t topic) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missed[t]
}

// fetchState fetches the state of a task from the backend and returns the notification
// of it. It returns nil without an error for a task that no longer exists or cannot be
// fetched: an error response to that effect is an answer, and all other errors may be
// temporary.
func (l *backendListen) fetchState(ctx context.Context, t topic) (*mcp.Notification, error) {
	req, err := l.request("tasks/get", relatedTask(t.own))
	if err != nil {
		return nil, err
	}
	res, err := l.backend.serveParams(ctx, req, &req.Params, noCaller{}, aliases{t.own: t.name})
	switch {
	case errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidParams}), errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}):
		return nil, nil //nolint:nilnil // as documented
	case err != nil:
		return nil, err
	case res == nil:
		return nil, errNoState
	}
	params, err := task.Notice(res.Bytes())
	if err != nil {
		return nil, err
	}
	return mcp.NewNotification(listen.MethodTask, params)
}

var errNoState = errors.New("the backend did not return the state of the task")

// topic is a resource or a task in the filter of a listen.
type topic struct {
	name string // at the client: a URI, or the id of a task
	own  string // at the backend

	backend string // the backend of a task; "" for a resource, which the catalog resolves
}

// resolve returns the name of the backend that has the topic, or "". For a resource it sets the
// URI at that backend.
func (t *topic) resolve(v *view) string {
	if t.backend != "" {
		return t.backend
	}
	if entry, ok := v.catalog.Resource(t.name); ok {
		t.own = entry.Own
		return entry.BackendName
	}
	return ""
}

// resourceTopics returns the resources that are visible to the client.
func (g *Gateway) resourceTopics(ctx context.Context, req *mcp.Request, uris []string) []topic {
	var found []topic
	for _, uri := range uris {
		f := g.find(ctx, req, lookup{kind: catalog.Resources, name: uri})
		if f.entry == nil {
			continue
		}
		if _, refused := g.admit(ctx, req, f); refused == nil {
			found = append(found, topic{name: uri, own: f.entry.Own})
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
		backend, own, ok := g.taskIDs.decode(id, req.Owner())
		if !ok {
			foreign = true
			continue
		}
		if _, ok := g.view.Load().at(req.Profile).backend(backend); ok && g.admitsTask(req, backend, id) {
			found = append(found, topic{name: id, own: own, backend: backend})
		}
	}
	if foreign {
		g.noteForeignTask(ctx, req)
	}
	return found
}

// clientFilter returns the topics by the client's names.
func clientFilter(topics []topic) (f listen.Filter) {
	for _, t := range topics {
		if t.backend != "" {
			f.TaskIDs = append(f.TaskIDs, t.name)
		} else {
			f.URIs = append(f.URIs, t.name)
		}
	}
	return f
}

// backendFilter returns the topics by the backend's names. A task with two ids at the
// client, one of them sealed with an older key, is one task at the backend.
func backendFilter(topics []topic) (f listen.Filter) {
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

// agreedTopics reads an acknowledgement. One without a filter agrees to all.
func agreedTopics(asked []topic, params *mcp.Object) (agreed []topic) {
	set := listen.SetOf(backendFilter(asked).Agreed(params))
	for _, t := range asked {
		if t.backend != "" && set.Tasks[t.own] || t.backend == "" && set.URIs[t.own] {
			agreed = append(agreed, t)
		}
	}
	return agreed
}
