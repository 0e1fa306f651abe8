// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// pollInterval is how often a client should poll a task: often enough for a user, and
// without much load.
const pollInterval = 500 // milliseconds

// backgroundCall is a call that continues in the background, and the Caller of that call.
type backgroundCall struct {
	id        string
	principal string
	client    *mcp.Peer
	created   time.Time
	ttl       time.Duration
	cancel    context.CancelCauseFunc
	mux       *Mux

	mu      sync.Mutex
	updated time.Time
	status  task.Status
	detail  jsontext.Value // result or error
	open    []*pending     // open questions, in order
	asked   int
}

// pending is one question without an answer.
type pending struct {
	key    string
	req    *mcp.Request
	answer chan *mcp.Result // capacity 1
}

// Background continues the call in f, as a task if the client supports tasks and the
// tool allows it. Then Background returns at once, with the result that announces the
// task, which the function must return. f runs until it returns, the task is cancelled,
// or its TTL ends. It gets its own Call; questions asked with it become input requests
// of the task, and its progress and log messages are dropped. If there is no task,
// Background calls f and returns its results.
//
// Questions that decide whether there is anything to do should be asked before, with
// Input.
func (c *Call) Background(ctx context.Context, f func(ctx context.Context, call *Call) (*Result, error)) (*Result, error) {
	if !c.tasks || c.isTask() || !task.Declared(c.Request.Client.Capabilities) {
		return f(ctx, c)
	}
	t, err := c.mux.begin(ctx, c, f)
	if err != nil {
		return nil, err
	}
	created := t.encode(task.Working, t.created, "", nil)
	raw, err := mcp.NewResult(append([]byte(`{"resultType":"`+mcp.ResultTask+`",`), created[1:]...))
	return &Result{raw: raw}, err
}

// isTask reports whether the call runs as a task.
func (c *Call) isTask() bool {
	_, ok := c.Caller.(*backgroundCall)
	return ok
}

// Notify drops the notification: a task cannot send any (tasks, "Task Status
// Notifications").
func (t *backgroundCall) Notify(context.Context, *mcp.Notification) error { return nil }

// Extension returns one that can do nothing: the request that began the task has ended.
func (t *backgroundCall) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// Start adds a question to the task's input requests.
func (t *backgroundCall) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	if err := checkDeclared(t.client, req); err != nil {
		return nil, err
	}
	p, err := t.addQuestion(req)
	if err != nil {
		return nil, err
	}
	t.mux.taskChanged(t)
	return func() (*mcp.Result, error) {
		select {
		case res := <-p.answer:
			return res, nil
		case <-ctx.Done():
			if t.withdraw(p) {
				t.mux.taskChanged(t)
			}
			return nil, context.Cause(ctx)
		}
	}, nil
}

// maxOpen bounds the open questions of a task: each is a dialogue with a user.
const maxOpen = 16

func (t *backgroundCall) addQuestion(req *mcp.Request) (*pending, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.status.IsTerminal():
		return nil, mcp.ErrRequestEnded
	case len(t.open) == maxOpen:
		return nil, &mcp.Fault{Code: mcp.CodeLimit, Message: "the task has too many open questions"}
	}
	t.asked++ // keys are never reused
	p := &pending{key: "q" + strconv.Itoa(t.asked), req: req, answer: make(chan *mcp.Result, 1)}
	t.open = append(t.open, p)
	t.updateStatusLocked()
	return p, nil
}

func (t *backgroundCall) withdraw(p *pending) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closeLocked(p.key) != nil
}

// closeLocked removes the question with the key, and returns it, or nil.
func (t *backgroundCall) closeLocked(key string) *pending {
	i := slices.IndexFunc(t.open, func(p *pending) bool { return p.key == key })
	if i < 0 {
		return nil
	}
	p := t.open[i]
	t.open = slices.Delete(t.open, i, i+1)
	t.updateStatusLocked()
	return p
}

// updateStatusLocked updates the status: input required or working.
func (t *backgroundCall) updateStatusLocked() {
	t.updated = time.Now()
	switch {
	case t.status.IsTerminal():
	case len(t.open) > 0:
		t.status = task.InputRequired
	default:
		t.status = task.Working
	}
}

// answer passes answers to the open questions. It ignores answers to other keys (tasks,
// "Task Update Requests"). If an answer is invalid, it rejects all of them.
func (t *backgroundCall) answer(values map[string]jsontext.Value) error {
	taken, err := t.take(values)
	if taken {
		t.mux.taskChanged(t)
	}
	return err
}

func (t *backgroundCall) take(values map[string]jsontext.Value) (taken bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.open {
		if raw, ok := values[p.key]; ok && !question.IsAnswer(p.req.Method, raw) {
			return false, invalid("params.inputResponses.%s is not a valid answer to %s", p.key, p.req.Method)
		}
	}
	for key, raw := range values {
		p := t.closeLocked(key)
		if p == nil {
			continue
		}
		res, err := mcp.NewResult(raw)
		if err != nil {
			return taken, err // impossible: IsAnswer has checked that it is an object
		}
		p.answer <- res
		taken = true
	}
	return taken, nil
}

// run runs the task. A panic in its function affects no other task.
func (t *backgroundCall) run(ctx context.Context, call *Call, f func(context.Context, *Call) (*Result, error)) {
	status, detail := task.Failed, jsontext.Value(nil)
	defer func() {
		if p := recover(); p != nil {
			t.mux.logPanic(ctx, t, p)
			status, detail = task.Failed, task.ErrorJSON(mcp.ToWire(errPanic))
		}
		t.end(status, detail)
	}()
	own := &Call{Request: call.Request, Caller: t, mux: t.mux, tasks: true, vars: call.vars}
	res, err := own.toResult(f(ctx, own))
	switch {
	case err == nil:
		status, detail = task.Completed, res.Bytes()
	case ctx.Err() != nil:
		status = task.Cancelled
	default:
		t.mux.logFailure(ctx, t, err)
		detail = task.ErrorJSON(mcp.ToWire(err))
	}
}

// logFailure logs an error that the client receives without its text.
func (m *Mux) logFailure(ctx context.Context, t *backgroundCall, err error) {
	_, ours := errors.AsType[*mcp.Fault](err)
	_, wire := errors.AsType[*mcp.Error](err)
	if m.Logger != nil && !ours && !wire {
		m.Logger.ErrorContext(ctx, "task failed", slog.String("task", t.id), slog.Any("error", err))
	}
}

func (m *Mux) logPanic(ctx context.Context, t *backgroundCall, p any) {
	if m.Logger != nil {
		m.Logger.ErrorContext(ctx, "task panicked", slog.String("task", t.id), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}

var errPanic = errors.New("the function panicked")

// end ends the task and notifies listening clients.
func (t *backgroundCall) end(status task.Status, detail jsontext.Value) {
	t.finish(status, detail)
	t.cancel(nil)
	t.mux.taskChanged(t)
}

func (t *backgroundCall) finish(status task.Status, detail jsontext.Value) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status.IsTerminal() {
		return
	}
	t.status, t.detail, t.open, t.updated = status, detail, nil, time.Now()
}

// stop cancels the task. Its status stays cancelled, whatever the function returns,
// because the client has been promised that.
func (t *backgroundCall) stop() { t.end(task.Cancelled, nil) }

// describe returns the task as JSON, with the member of its status.
func (t *backgroundCall) describe() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.status {
	case task.Completed:
		return t.encode(t.status, t.updated, "result", t.detail)
	case task.Failed:
		return t.encode(t.status, t.updated, "error", t.detail)
	case task.InputRequired:
		var keys []string
		for _, p := range t.open {
			keys = append(keys, p.key)
		}
		inputs := task.Inputs(keys, func(key string) *mcp.Request { return t.open[slices.Index(keys, key)].req })
		return t.encode(t.status, t.updated, "inputRequests", inputs)
	default:
		return t.encode(t.status, t.updated, "", nil)
	}
}

// encode returns the task as JSON: the members of every status, and another one unless its
// name is empty.
func (t *backgroundCall) encode(status task.Status, updated time.Time, member string, value jsontext.Value) []byte {
	out := jsonscan.AppendString([]byte(`{"taskId":`), t.id)
	out = jsonscan.AppendString(append(out, `,"status":`...), string(status))
	out = jsonscan.AppendString(append(out, `,"createdAt":`...), t.created.UTC().Format(time.RFC3339Nano))
	out = jsonscan.AppendString(append(out, `,"lastUpdatedAt":`...), updated.UTC().Format(time.RFC3339Nano))
	out = strconv.AppendInt(append(out, `,"ttlMs":`...), t.ttl.Milliseconds(), 10)
	out = strconv.AppendInt(append(out, `,"pollIntervalMs":`...), pollInterval, 10)
	if member != "" {
		out = append(append(out, `,"`+member+`":`...), value...)
	}
	return append(out, '}')
}

// maxTasks bounds the tasks, running or ended, that are kept at once.
const maxTasks = 10_000

// taskStore holds the tasks of a Mux.
type taskStore struct {
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	all    map[string]*backgroundCall
	order  []*backgroundCall // all of them, the oldest first
}

// begin runs f, the rest of a call, as a task. The task can be found when begin
// returns.
func (m *Mux) begin(ctx context.Context, call *Call, f func(context.Context, *Call) (*Result, error)) (*backgroundCall, error) {
	ttl := m.TaskTTL
	if ttl <= 0 {
		ttl = DefaultTaskTTL
	}
	now := time.Now()
	// The context has the request's values, and the task's own deadline and
	// cancellation.
	ctx, stop := context.WithDeadline(context.WithoutCancel(ctx), now.Add(ttl))
	ctx, cancel := context.WithCancelCause(ctx)
	t := &backgroundCall{
		id: rand.Text(), principal: call.Request.Principal, client: call.Request.Client,
		created: now, updated: now, ttl: ttl, status: task.Working, mux: m,
		cancel: func(cause error) { cancel(cause); stop() },
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
func (b *taskStore) add(t *backgroundCall, now time.Time) error {
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
		b.all = make(map[string]*backgroundCall)
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

func (t *backgroundCall) isOver(now time.Time) bool { return now.Sub(t.created) >= t.ttl }

// find returns the task if it exists and belongs to the principal.
func (b *taskStore) find(id, principal string) *backgroundCall {
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
func (b *taskStore) removeAll() map[string]*backgroundCall {
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
		var answers map[string]jsontext.Value
		if err := json.Unmarshal(req.Params.Raw(mcp.FieldInputResponses), &answers); err != nil || answers == nil {
			return nil, invalid("params.inputResponses must be an object")
		}
		if err := t.answer(answers); err != nil {
			return nil, err
		}
	}
	return mcp.NewResult([]byte("{}"))
}
