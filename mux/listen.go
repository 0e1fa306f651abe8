// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxTopics bounds the resources and tasks of one subscription, which are kept in
// memory.
const maxTopics = 1000

// filter is the notifications that a client wants, or those that were agreed
// (2026-07-28, basic/patterns/subscriptions, "Notification Filter").
type filter listen.Filter

func filterOf(req *mcp.Request) (filter, error) {
	f, err := listen.ParseFilter(&req.Params)
	want := filter(f)
	if err != nil {
		return want, err
	}
	if n := len(want.URIs) + len(want.TaskIDs); n > maxTopics {
		return want, invalid("%d resources and tasks in one subscription; at most %d are allowed", n, maxTopics)
	}
	return want, nil
}

// agreed returns the part of a filter that will be served. The client receives it in
// the acknowledgement, and so knows which notifications it will not get.
func (m *Mux) agreed(want filter, principal string) filter {
	c := m.current()
	if m.Fixed {
		want = filter{TaskIDs: want.TaskIDs}
	}
	has := m.has(c)
	want.Tools = want.Tools && has.tools
	want.Prompts = want.Prompts && has.prompts
	want.Resources = want.Resources && has.resources
	want.URIs = slices.DeleteFunc(want.URIs, func(uri string) bool {
		_, ok := c.find(uri)
		return !ok
	})
	want.TaskIDs = slices.DeleteFunc(want.TaskIDs, func(id string) bool { return m.tasks.find(id, principal) == nil })
	return want
}

// listen serves subscriptions/listen: the acknowledgement, and then changes until the
// context ends.
func (m *Mux) listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	want, err := filterOf(req)
	if err != nil {
		return nil, err
	}
	// Before the acknowledgement, so that no change after it is missed.
	want = m.agreed(want, req.Principal)
	sub := m.subscribers.subscribe(want)
	defer m.subscribers.unsubscribe(sub)
	if err := acknowledge(ctx, caller, want); err != nil {
		return nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return mcp.NewResult([]byte("{}"))
		case <-sub.wake:
		}
		if err := m.deliver(ctx, caller, m.subscribers.take(sub), req.Principal); err != nil {
			return nil, err
		}
	}
}

func acknowledge(ctx context.Context, caller mcp.Caller, agreed filter) error {
	params, err := json.Marshal(map[string]filter{"notifications": agreed})
	if err != nil {
		return err
	}
	return notify(ctx, caller, "notifications/subscriptions/acknowledged", params)
}

func notify(ctx context.Context, caller mcp.Caller, method string, params []byte) error {
	n, err := mcp.NewNotification(method, params)
	if err != nil {
		return err
	}
	return caller.Notify(ctx, n)
}

// deliver sends the notifications.
func (m *Mux) deliver(ctx context.Context, caller mcp.Caller, n changeSet, principal string) error {
	for _, list := range []struct {
		changed bool
		method  string
	}{
		{n.lists.tools, "notifications/tools/list_changed"},
		{n.lists.prompts, "notifications/prompts/list_changed"},
		{n.lists.resources, "notifications/resources/list_changed"},
	} {
		if !list.changed {
			continue
		}
		if err := notify(ctx, caller, list.method, nil); err != nil {
			return err
		}
	}
	for _, uri := range n.uris {
		if err := notify(ctx, caller, "notifications/resources/updated", object("uri", uri)); err != nil {
			return err
		}
	}
	for _, id := range n.tasks {
		t := m.tasks.find(id, principal)
		if t == nil {
			continue
		}
		if err := notify(ctx, caller, "notifications/tasks", t.describe()); err != nil {
			return err
		}
	}
	return nil
}

// changeSet is what has changed, but not how: the notification refers to the state when
// it is sent. So many changes need only one notification, after the last.
type changeSet struct {
	lists listSet
	uris  []string
	tasks []string
}

// subscribers are the listening clients.
type subscribers struct {
	mu  sync.Mutex
	all map[*subscriber]struct{}
}

// subscriber is one listening client.
type subscriber struct {
	want    filter
	wake    chan struct{} // written to when there are changes
	pending changeSet     // guarded by subscribers.mu
}

func (s *subscribers) subscribe(want filter) *subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*subscriber]struct{})
	}
	sub := &subscriber{want: want, wake: make(chan struct{}, 1)}
	s.all[sub] = struct{}{}
	return sub
}

func (s *subscribers) unsubscribe(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sub)
}

// publish adds the changes for all clients that want them. It never waits.
func (s *subscribers) publish(n changeSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.all {
		if !sub.addLocked(n) {
			continue
		}
		select {
		case sub.wake <- struct{}{}:
		default: // already woken
		}
	}
}

// addLocked adds the changes that the client wants and reports whether there are any.
func (sub *subscriber) addLocked(n changeSet) bool {
	mine := n.lists.and(listSet{sub.want.Tools, sub.want.Resources, sub.want.Prompts})
	sub.pending.lists = sub.pending.lists.or(mine)
	noted := mine.any()
	for _, uri := range n.uris {
		if slices.Contains(sub.want.URIs, uri) {
			sub.pending.uris, noted = with(sub.pending.uris, uri), true
		}
	}
	for _, id := range n.tasks {
		if slices.Contains(sub.want.TaskIDs, id) {
			sub.pending.tasks, noted = with(sub.pending.tasks, id), true
		}
	}
	return noted
}

func with(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// take returns the pending changes and clears them.
func (s *subscribers) take(sub *subscriber) changeSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := sub.pending
	sub.pending = changeSet{}
	return due
}
