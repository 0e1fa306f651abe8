// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/listenfilter"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxTopics bounds the resources and tasks of one subscription, which are kept in
// memory.
const maxTopics = 1000

// filter is the notifications that a client wants, or those that were agreed
// (2026-07-28, basic/patterns/subscriptions, "Notification Filter").
type filter listenfilter.Filter

func filterOf(req *mcp.Request) (filter, error) {
	f, err := listenfilter.Read(&req.Params)
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
	e := m.ears.open(want)
	defer m.ears.close(e)
	if err := acknowledge(ctx, caller, want); err != nil {
		return nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return mcp.NewResult([]byte("{}"))
		case <-e.wake:
		}
		if err := m.deliver(ctx, caller, m.ears.take(e), req.Principal); err != nil {
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
func (m *Mux) deliver(ctx context.Context, caller mcp.Caller, n news, principal string) error {
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

// news is what has changed, but not how: the notification refers to the state when it
// is sent. So many changes need only one notification, after the last.
type news struct {
	lists lists
	uris  []string
	tasks []string
}

// ears are the listening clients.
type ears struct {
	mu  sync.Mutex
	all map[*ear]struct{}
}

// ear is one listening client.
type ear struct {
	want filter
	wake chan struct{} // written to when there is news
	due  news          // guarded by ears.mu
}

func (a *ears) open(want filter) *ear {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[*ear]struct{})
	}
	e := &ear{want: want, wake: make(chan struct{}, 1)}
	a.all[e] = struct{}{}
	return e
}

func (a *ears) close(e *ear) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, e)
}

// tell adds the news for all clients that want it. It never waits.
func (a *ears) tell(n news) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for e := range a.all {
		if !e.noteLocked(n) {
			continue
		}
		select {
		case e.wake <- struct{}{}:
		default: // already woken
		}
	}
}

// noteLocked adds the news and reports whether any of it is wanted.
func (e *ear) noteLocked(n news) bool {
	mine := n.lists.and(lists{e.want.Tools, e.want.Resources, e.want.Prompts})
	e.due.lists = e.due.lists.or(mine)
	noted := mine.any()
	for _, uri := range n.uris {
		if slices.Contains(e.want.URIs, uri) {
			e.due.uris, noted = with(e.due.uris, uri), true
		}
	}
	for _, id := range n.tasks {
		if slices.Contains(e.want.TaskIDs, id) {
			e.due.tasks, noted = with(e.due.tasks, id), true
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

// take returns the pending news and clears it.
func (a *ears) take(e *ear) news {
	a.mu.Lock()
	defer a.mu.Unlock()
	due := e.due
	e.due = news{}
	return due
}
