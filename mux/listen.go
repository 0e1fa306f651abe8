// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxTopics bounds the resources and tasks of one subscription, which are kept in
// memory.
const maxTopics = 1000

// listen serves subscriptions/listen: the acknowledgement, and then changes until the
// context ends.
func (m *Mux) listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	want, err := listen.ParseFilter(&req.Params)
	if err != nil {
		return nil, err
	}
	if n := len(want.URIs) + len(want.TaskIDs); n > maxTopics {
		return nil, invalid("%d resources and tasks in one subscription; at most %d are allowed", n, maxTopics)
	}
	// Before the acknowledgement, so that no change after it is missed.
	agreed := m.agreed(want, req.Principal)
	listener := m.feed.Add(agreed)
	defer m.feed.Remove(listener)
	if err := agreed.Acknowledge(ctx, caller); err != nil {
		return nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return mcp.NewResult([]byte("{}"))
		case <-listener.Wake():
		}
		news := m.feed.Take(listener)
		if news.Updated, err = m.describeTasks(news.Updated, req.Principal); err != nil {
			return nil, err
		}
		if err := news.Notify(ctx, caller); err != nil {
			return nil, err
		}
	}
}

// agreed returns the part of a filter that will be served. The client receives it in
// the acknowledgement, and so knows which notifications it will not get.
func (m *Mux) agreed(want listen.Filter, principal string) listen.Filter {
	var agreed listen.Filter
	if !m.Fixed {
		c := m.current()
		agreed = (want.Lists() & m.has(c)).Filter()
		agreed.URIs = slices.DeleteFunc(want.URIs, func(uri string) bool {
			_, ok := c.find(uri)
			return !ok
		})
	}
	agreed.TaskIDs = slices.DeleteFunc(want.TaskIDs, func(id string) bool { return m.tasks.find(id, principal) == nil })
	return agreed
}

// taskChanged announces a change of a task to the clients that listen to it.
func (m *Mux) taskChanged(t *backgroundCall) {
	n, err := mcp.NewNotification(listen.MethodTask, object("taskId", t.id))
	if err == nil { // always: object returns valid JSON
		m.feed.UpdateTask(n)
	}
}

// describeTasks adds the state of the task to the notifications of taskChanged. It is the
// state when they are sent, so that the last one has the last state. Notifications of
// tasks that are gone are dropped.
func (m *Mux) describeTasks(all []*mcp.Notification, principal string) ([]*mcp.Notification, error) {
	described := all[:0]
	for _, n := range all {
		if n.Method == listen.MethodTask {
			id, _ := n.Params.Text(mcp.FieldTaskID)
			t := m.tasks.find(id, principal)
			if t == nil {
				continue
			}
			var err error
			if n, err = mcp.NewNotification(n.Method, t.describe()); err != nil {
				return nil, err
			}
		}
		described = append(described, n)
	}
	return described, nil
}
