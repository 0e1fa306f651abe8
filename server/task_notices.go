// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/life"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxToldTasks bounds of how many tasks a session is told without asking. The one that
// it has begun first goes first: what is told of a task is optional (2025-11-25,
// basic/utilities/tasks, "Task Notifications").
const maxToldTasks = 64

var (
	errTaskOver    = errors.New("nothing more is told of the task")
	errTooManyTold = errors.New("newer tasks are told of")
)

// toldTasks are the tasks of a session of which its client is told. The zero value is
// ready.
type toldTasks struct {
	mu    sync.Mutex
	open  []*toldTask // oldest first
	ended bool
}

type toldTask struct {
	id     string
	cancel context.CancelCauseFunc
}

// add takes a task in, and returns the one that goes for it, nil where there is room.
// It reports false when the session has ended.
func (t *toldTasks) add(one *toldTask) (gone *toldTask, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, false
	}
	if len(t.open) >= maxToldTasks {
		gone, t.open = t.open[0], t.open[1:]
	}
	t.open = append(t.open, one)
	return gone, true
}

func (t *toldTasks) remove(one *toldTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = slices.DeleteFunc(t.open, func(other *toldTask) bool { return other == one })
}

// end ends all, with the session.
func (t *toldTasks) end() {
	for _, one := range t.shut() {
		one.cancel(session.ErrEnded)
	}
}

func (t *toldTasks) shut() []*toldTask {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	return slices.Clone(t.open)
}

// tellTask has the Handler tell what becomes of a task that a session has begun: the
// inside has one way to hear of it, a listen for the task, and what comes of that goes
// on the session's standalone stream. A Handler that does not agree to the listen tells
// nothing, or by itself. tellTask returns at once; Shutdown and Close wait for the
// goroutine, which ends with the task, the session, or the Handler's listen.
func (s *Server) tellTask(ctx context.Context, sess *session.Session, e *taskEdge, id string) {
	// The values are those of the request, and the end is the task's own.
	ctx, cancel := context.WithCancelCause(life.Apart(ctx))
	one := &toldTask{id: id, cancel: cancel}
	gone, ok := e.kept.told.add(one)
	if gone != nil {
		gone.cancel(errTooManyTold)
	}
	fl := &flight{kind: inner, stop: session.StopFunc(cancel)}
	if !ok || !s.flights.enter(fl) {
		e.kept.told.remove(one)
		cancel(errTaskOver)
		return
	}
	go func() { // ends with the Handler's listen; Shutdown and Close wait for its flight
		defer s.flights.leave(fl)
		defer cancel(nil)
		defer e.kept.told.remove(one)
		req := taskListenRequest(sess, id)
		req.Client = e.kept.declaring(sess.Client)
		_, _ = s.serve(ctx, req, &taskTeller{outlet{server: s, stream: sess.Standalone()}, one}) // its client can ask
	}()
}

func taskListenRequest(sess *session.Session, id string) *mcp.Request {
	params := mcp.AppendString([]byte(`{"notifications":{"taskIds":[`), id)
	req, err := mcp.NewRequest("subscriptions/listen", append(params, "]}}"...))
	if err != nil {
		req = &mcp.Request{Method: "subscriptions/listen"} // the text above parses
	}
	req.Principal, req.Scope = sess.Principal, sess.Scope
	return req
}

// taskTeller is the Caller of the listen for a task.
type taskTeller struct {
	outlet
	task *toldTask
}

// Notify puts the state of the task on the standalone stream, as 2025-11-25 tells it.
// It never waits: the newest state takes the place of those that nobody has read.
func (t *taskTeller) Notify(_ context.Context, n *mcp.Notification) error {
	switch n.Method {
	case acknowledged:
		if !t.isAgreed(n) {
			t.task.cancel(errTaskOver)
		}
		return nil
	case "notifications/tasks":
		return t.tell(n)
	default:
		return t.drop()
	}
}

func (t *taskTeller) isAgreed(n *mcp.Notification) bool {
	var said struct {
		TaskIDs []string `json:"taskIds"`
	}
	err := json.Unmarshal(n.Params.Raw(mcp.FieldNotifications), &said)
	return err == nil && slices.Contains(said.TaskIDs, t.task.id)
}

func (t *taskTeller) tell(n *mcp.Notification) error {
	if id, _ := n.Params.Text(mcp.FieldTaskID); id != t.task.id {
		return t.drop()
	}
	var e mcp.Edit
	if n.Params.Has(mcp.MetaSubscriptionID) {
		e.Delete(mcp.MetaSubscriptionID)
	}
	raw, err := tasks.ToTask(legacyParams(n, &e))
	if err != nil {
		return t.drop()
	}
	m := session.Message{Class: session.Progress, Key: "notifications/tasks/status " + t.task.id}
	m.Head = mcp.AppendNotification(nil, "notifications/tasks/status", raw)
	full, err := t.stream.Append(m)
	if tasks.StatusOf(raw).IsTerminal() {
		t.task.cancel(errTaskOver)
	}
	if full != nil {
		return t.drop()
	}
	return err
}

// Ask fails: a listen asks nothing.
func (t *taskTeller) Ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeInvalidRequest, "%s does not belong to a subscription", req.Method)
}
