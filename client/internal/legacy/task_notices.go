// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// watchedTasks are the tasks of one server for which there are listens. A status
// notification in any session wakes all listens for the task. They poll it themselves,
// each for its own client. The zero value is ready.
type watchedTasks struct {
	mu          sync.Mutex
	subscribers map[string]map[chan struct{}]struct{}
}

// add returns a channel that receives when the task has changed. The caller must remove
// it.
func (w *watchedTasks) add(id string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subscribers == nil {
		w.subscribers = make(map[string]map[chan struct{}]struct{})
	}
	if w.subscribers[id] == nil {
		w.subscribers[id] = make(map[chan struct{}]struct{})
	}
	wake := make(chan struct{}, 1)
	w.subscribers[id][wake] = struct{}{}
	return wake
}

func (w *watchedTasks) remove(id string, wake chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.subscribers[id], wake)
	if len(w.subscribers[id]) == 0 {
		delete(w.subscribers, id)
	}
}

// note wakes the listens for the task. It does not wait.
func (w *watchedTasks) note(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wake := range w.subscribers[id] {
		select {
		case wake <- struct{}{}:
		default: // a wake-up is pending
		}
	}
}

// noteTaskStatus wakes the listens for the task of a status notification. The owner of
// the task does not matter here, because nothing of the notification is passed on.
func (s *clientSession) noteTaskStatus(m *mcp.Message) {
	if m.Method != call.MethodTaskStatus || s.routing.watched == nil {
		return
	}
	if id, ok := m.Params.Text(mcp.FieldTaskID); ok {
		s.routing.watched.note(id)
	}
}

// routeStatus passes a task's status notification to the session's client. The
// notification does not belong to the call in progress, and a client without a session
// uses a listen.
func (s *clientSession) routeStatus(m *mcp.Message) {
	if s.routing.unrelated != nil {
		s.notifyLater(&s.unsolicited, s.routing.unrelated, &mcp.Notification{Method: m.Method, Params: m.Params})
	}
}
