// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"

	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// taskNotice returns the state of a task as it is told to who listens for it: after a
// gap, of which nobody knows what has happened in it. It is nil where the server does
// not say, or has no such task any more.
func (c *Client) taskNotice(ctx context.Context, like *mcp.Request, id string) *mcp.Notification {
	res, err := c.Serve(ctx, aboutTask(like, methodTaskGet, id), noCaller{})
	if err != nil || res == nil {
		return nil
	}
	return taskNoticeOf(res)
}

func taskNoticeOf(res *mcp.Result) *mcp.Notification {
	params, err := taskform.Notice(res.Bytes())
	if err != nil {
		return nil
	}
	n, err := mcp.NewNotification(methodTaskNotice, params)
	if err != nil {
		return nil
	}
	return n
}

// watchedTasks are the tasks of one server whose states are listened for. Word of one
// in any of its sessions wakes all who listen for that: they look for themselves, each
// as the client that it is. The zero value is ready.
type watchedTasks struct {
	mu   sync.Mutex
	ears map[string]map[chan struct{}]struct{}
}

// add returns what is written to when a task has changed. It must be given back.
func (w *watchedTasks) add(id string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ears == nil {
		w.ears = make(map[string]map[chan struct{}]struct{})
	}
	if w.ears[id] == nil {
		w.ears[id] = make(map[chan struct{}]struct{})
	}
	ear := make(chan struct{}, 1)
	w.ears[id][ear] = struct{}{}
	return ear
}

func (w *watchedTasks) remove(id string, ear chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ears[id], ear)
	if len(w.ears[id]) == 0 {
		delete(w.ears, id)
	}
}

// note wakes who listens for the task. It waits for nobody.
func (w *watchedTasks) note(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ear := range w.ears[id] {
		select {
		case ear <- struct{}{}:
		default: // it will look
		}
	}
}

// noteTask takes note of word that a task has changed. Whose the task is does not
// matter here: nothing of it is passed on.
func (s *legacySession) noteTask(m *mcp.Message) {
	if m.Method != methodTaskStatus || s.addr.watched == nil {
		return
	}
	if id, ok := m.Params.Text(mcp.FieldTaskID); ok {
		s.addr.watched.note(id)
	}
}

// routeStatus hands on the state of a task to the client of the session. It belongs to
// no call that happens to be under way, and a client without a session has no use for
// it: it listens.
func (s *legacySession) routeStatus(m *mcp.Message) {
	if s.addr.unrelated != nil {
		s.stray.put(&s.tasks, s.addr.unrelated, &mcp.Notification{Method: m.Method, Params: m.Params})
	}
}
