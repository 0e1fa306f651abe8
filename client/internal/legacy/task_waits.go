// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"sync"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/session"
	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// taskWaits are the tasks/result calls of a session. A message of the task may arrive
// on a stream that belongs to no call, or to all. It names its task, or the token of
// the call that began the task, and is routed to the tasks/result call (2025-11-25,
// basic/utilities/tasks, "Associating Task-Related Messages"). The zero value is ready.
type taskWaits struct {
	mu   sync.Mutex
	open map[mcp.ID]taskWait // by the id of the tasks/result call
}

type taskWait struct {
	task  string
	token mcp.ID // of the call that began the task, zero if that was another request
}

func (w *taskWaits) begin(call mcp.ID, task string, token mcp.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = make(map[mcp.ID]taskWait)
	}
	w.open[call] = taskWait{task, token}
}

func (w *taskWaits) end(call mcp.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, call)
}

// find returns a call with a wait that satisfies is.
func (w *taskWaits) find(is func(taskWait) bool) (mcp.ID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for call, one := range w.open {
		if is(one) {
			return call, true
		}
	}
	return mcp.ID{}, false
}

// taskCall returns the tasks/result call for the task that a message names, or nil.
func (s *clientSession) taskCall(m *mcp.Message) *session.Call {
	if !m.Params.Has(mcp.MetaRelatedTask) {
		return nil
	}
	task := taskform.RelatedID(m.Params.Raw(mcp.MetaRelatedTask))
	call, ok := s.taskWaits.find(func(w taskWait) bool { return w.task == task })
	if !ok {
		return nil
	}
	return s.calls.Find(call)
}

// progressCall returns the call that progress is for: the call of the token, or the
// tasks/result call for the task that it began.
func (s *clientSession) progressCall(m *mcp.Message) *session.Call {
	raw := m.Params.Raw(mcp.FieldProgressToken)
	if call := call.FindCall(s.calls, raw); call != nil {
		return call
	}
	token, err := mcp.ParseID(raw)
	if err != nil {
		return nil
	}
	call, ok := s.taskWaits.find(func(w taskWait) bool { return !w.token.IsZero() && w.token == token })
	if !ok {
		return nil
	}
	return s.calls.Find(call)
}
