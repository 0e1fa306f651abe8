// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxTasks bounds the tasks, running or ended, that are kept at once.
const maxTasks = 10_000

// taskStore holds the tasks of a Mux.
type taskStore struct {
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	all    map[string]*task
	order  []*task // all of them, the oldest first
}

// begin runs f, the rest of a call, as a task. The task can be found when begin
// returns.
func (m *Mux) begin(ctx context.Context, call *Call, f func(context.Context, *Call) (*Result, error)) (*task, error) {
	ttl := m.TaskTTL
	if ttl <= 0 {
		ttl = DefaultTaskTTL
	}
	now := time.Now()
	// The context has the request's values, and the task's own deadline and
	// cancellation.
	ctx, stop := context.WithDeadline(context.WithoutCancel(ctx), now.Add(ttl))
	ctx, cancel := context.WithCancelCause(ctx)
	t := &task{
		id: rand.Text(), principal: call.Request.Principal, client: call.Request.Client,
		created: now, updated: now, ttl: ttl, status: tasks.Working,
		cancel:  func(cause error) { cancel(cause); stop() },
		changed: func(t *task) { m.subscribers.publish(changeSet{tasks: []string{t.id}}) },
	}
	if err := m.tasks.add(t, now); err != nil {
		t.cancel(err)
		return nil, err
	}
	go func() { // Ends with f, which ctx cancels; Close waits for it.
		defer m.tasks.running.Done()
		t.run(ctx, call, f)
	}()
	return t, nil
}

// add keeps the task and counts it as running.
func (b *taskStore) add(t *task, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeExpiredLocked(now)
	switch {
	case b.closed:
		return &mcp.Fault{Code: mcp.CodeShuttingDown, Outcome: mcp.NotDispatched, Message: "the server is shutting down"}
	case len(b.all) >= maxTasks:
		return &mcp.Fault{Code: mcp.CodeLimit, Outcome: mcp.NotDispatched, Message: "too many tasks"}
	}
	if b.all == nil {
		b.all = make(map[string]*task)
	}
	b.all[t.id] = t
	b.order = append(b.order, t)
	b.running.Add(1)
	return nil
}

// removeExpiredLocked drops expired tasks: those that began first, because all have the
// same TTL. It runs when a task is added, which is the only way the number of tasks
// grows.
func (b *taskStore) removeExpiredLocked(now time.Time) {
	for len(b.order) > 0 && b.order[0].isOver(now) {
		delete(b.all, b.order[0].id)
		b.order[0], b.order = nil, b.order[1:]
	}
}

func (t *task) isOver(now time.Time) bool { return now.Sub(t.created) >= t.ttl }

// find returns the task if it exists and belongs to the principal.
func (b *taskStore) find(id, principal string) *task {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.all[id]
	if t == nil || t.principal != principal || t.isOver(time.Now()) {
		return nil
	}
	return t
}

func (b *taskStore) close() {
	for _, t := range b.removeAll() {
		t.stop()
	}
	b.running.Wait()
}

// removeAll removes all tasks and admits no more.
func (b *taskStore) removeAll() map[string]*task {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all
	b.all, b.order, b.closed = nil, nil, true
	return all
}

// serveTasks serves the methods of the extension. The edge checks that the client has
// declared it. An unknown id and another principal's id get the same answer.
func (m *Mux) serveTasks(req *mcp.Request) (*mcp.Result, error) {
	id, _ := req.Params.Text(mcp.FieldTaskID)
	t := m.tasks.find(id, req.Principal)
	if t == nil {
		return nil, invalid("unknown task")
	}
	switch req.Method {
	case "tasks/get":
		return mcp.NewResult(t.describe())
	case "tasks/cancel":
		t.stop()
	default:
		if err := update(t, req); err != nil {
			return nil, err
		}
	}
	return mcp.NewResult([]byte("{}"))
}

func update(t *task, req *mcp.Request) error {
	var values map[string]jsontext.Value
	if err := json.Unmarshal(req.Params.Raw(mcp.FieldInputResponses), &values); err != nil || values == nil {
		return invalid("params.inputResponses must be an object")
	}
	return t.answer(values)
}
