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

// maxWatchedTasks bounds the tasks of a session with status notifications. The oldest is
// dropped first: these notifications are optional (2025-11-25, basic/utilities/tasks,
// "Task Notifications").
const maxWatchedTasks = 64

var (
	errTaskOver       = errors.New("the task has no more status notifications")
	errTooManyWatched = errors.New("displaced by newer tasks")
)

// watchedTasks are the tasks of a session for which the client gets status notifications.
// The zero value is ready.
type watchedTasks struct {
	mu    sync.Mutex
	open  []*watchedTask // oldest first
	ended bool
}

type watchedTask struct {
	id     string
	cancel context.CancelCauseFunc
}

// add adds a task, and returns the one that it displaces, or nil. It reports false if the
// session has ended.
func (t *watchedTasks) add(task *watchedTask) (gone *watchedTask, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, false
	}
	if len(t.open) >= maxWatchedTasks {
		gone, t.open = t.open[0], t.open[1:]
	}
	t.open = append(t.open, task)
	return gone, true
}

func (t *watchedTasks) remove(task *watchedTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = slices.DeleteFunc(t.open, func(other *watchedTask) bool { return other == task })
}

// end ends all of them, with the session.
func (t *watchedTasks) end() {
	for _, task := range t.markEnded() {
		task.cancel(session.ErrEnded)
	}
}

func (t *watchedTasks) markEnded() []*watchedTask {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	return slices.Clone(t.open)
}

// watchTask sends status notifications of a task that a session has begun on the
// session's standalone stream. The Handler reports the status on a listen for the task;
// one that does not agree to the listen reports nothing, or sends notifications itself.
// watchTask returns at once. Its goroutine ends with the task, the session, or the
// Handler's listen; Shutdown and Close wait for it.
func (s *Server) watchTask(ctx context.Context, sess *session.Session, e *legacyTaskHandler, id string) {
	// The values are those of the request, but not the end.
	ctx, cancel := context.WithCancelCause(life.Apart(ctx))
	task := &watchedTask{id: id, cancel: cancel}
	gone, ok := e.tasks.watched.add(task)
	if gone != nil {
		gone.cancel(errTooManyWatched)
	}
	entry := &inflight{kind: kindInnerListen, stop: session.StopFunc(cancel)}
	if !ok || !s.inflight.add(entry) {
		e.tasks.watched.remove(task)
		cancel(errTaskOver)
		return
	}
	go func() { // ends with the Handler's listen; Shutdown and Close wait for its entry
		defer s.inflight.remove(entry)
		defer cancel(nil)
		defer e.tasks.watched.remove(task)
		req := taskListenRequest(sess, id)
		req.Client = e.tasks.declareTasks(sess.Client)
		_, _ = s.serve(ctx, req, &taskStatusCaller{streamSender{server: s, stream: sess.Standalone()}, notifyOnly{}, task}) // the client can poll
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

// taskStatusCaller is the Caller of the listen for a task.
type taskStatusCaller struct {
	streamSender
	notifyOnly
	task *watchedTask
}

// Notify appends the state of the task to the standalone stream, in the form of
// 2025-11-25. It never blocks: the newest state replaces those that the client has not
// read.
func (t *taskStatusCaller) Notify(_ context.Context, n *mcp.Notification) error {
	switch n.Method {
	case methodAcknowledged:
		if !t.isAcknowledged(n) {
			t.task.cancel(errTaskOver)
		}
		return nil
	case "notifications/tasks":
		return t.sendStatus(n)
	default:
		return t.drop()
	}
}

func (t *taskStatusCaller) isAcknowledged(n *mcp.Notification) bool {
	var ack struct {
		TaskIDs []string `json:"taskIds"`
	}
	err := json.Unmarshal(n.Params.Raw(mcp.FieldNotifications), &ack)
	return err == nil && slices.Contains(ack.TaskIDs, t.task.id)
}

func (t *taskStatusCaller) sendStatus(n *mcp.Notification) error {
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
