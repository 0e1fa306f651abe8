// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// pollInterval is how often a client is to look at a task: soon enough that nobody
// wonders, and no load.
const pollInterval = 500 // milliseconds

// task is a call that goes on in the background, and the Caller of it.
type task struct {
	id        string
	principal string
	client    *mcp.Peer
	created   time.Time
	ttl       time.Duration
	cancel    context.CancelCauseFunc
	changed   func(*task) // is called with nothing locked

	mu      sync.Mutex
	updated time.Time
	status  tasks.Status
	detail  jsontext.Value // its result or its error
	open    []*pending     // what it asks for, in its order
	asked   int
}

// pending is one question that has no answer yet.
type pending struct {
	key    string
	method string
	params []byte
	answer chan *mcp.Result // of capacity 1
}

// Background goes on with the call in f, as a task where the client takes one and the
// tool says that it may be one. Then it returns at once, with the result that tells
// the client of the task, for the function to return; f runs until it returns, the
// task is cancelled, or its time is up, and gets a Call of its own, whose questions are
// the task's. Progress and log messages of a task go nowhere. Where there is no task,
// Background is f.
//
// What is to be known before it is clear that there is something to do is asked for
// before, by Input.
func (c *Call) Background(ctx context.Context, f func(ctx context.Context, call *Call) (*Result, error)) (*Result, error) {
	if !c.tasks || c.isTask() || !tasks.Declared(c.Request.Client.Capabilities) {
		return f(ctx, c)
	}
	t, err := c.mux.begin(ctx, c, f)
	if err != nil {
		return nil, err
	}
	raw, err := mcp.NewResult(t.describeAs(tasks.Working, `"resultType":"`+mcp.ResultTask+`",`, nil))
	return &Result{raw: raw}, err
}

// isTask reports whether the call is what runs as a task.
func (c *Call) isTask() bool {
	_, ok := c.Caller.(*task)
	return ok
}

// Notify drops what a task has no way to say (tasks, "Task Status Notifications").
func (t *task) Notify(context.Context, *mcp.Notification) error { return nil }

// Ask puts a question of the task.
func (t *task) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	wait, err := t.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return wait()
}

// Start puts a question of the task, for whoever looks at it.
func (t *task) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	switch missing, known := question.Missing(t.client.Capabilities, req); {
	case !known:
		return nil, mcp.Errorf(mcp.CodeInternalError, "a client cannot be asked for %s", req.Method)
	case missing != "":
		return nil, question.Undeclared(req.Method, missing)
	}
	p, err := t.put(req)
	if err != nil {
		return nil, err
	}
	t.changed(t)
	return func() (*mcp.Result, error) {
		select {
		case res := <-p.answer:
			return res, nil
		case <-ctx.Done():
			if t.withdraw(p) {
				t.changed(t)
			}
			return nil, context.Cause(ctx)
		}
	}, nil
}

// maxOpen bounds what a task asks for at once: each is a transcript with a person.
const maxOpen = 16

func (t *task) put(req *mcp.Request) (*pending, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.status.IsTerminal():
		return nil, mcp.ErrRequestEnded
	case len(t.open) == maxOpen:
		return nil, &mcp.Fault{Code: mcp.CodeLimit, Message: "the task asks too much at once"}
	}
	t.asked++ // a key is never another's
	p := &pending{key: "q" + strconv.Itoa(t.asked), method: req.Method, params: req.Params.Bytes(), answer: make(chan *mcp.Result, 1)}
	t.open = append(t.open, p)
	t.turnLocked()
	return p, nil
}

// withdraw takes a question back, and reports whether it was still open.
func (t *task) withdraw(p *pending) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closeLocked(p.key) != nil
}

// closeLocked takes the question of a key out, if there is one.
func (t *task) closeLocked(key string) *pending {
	for i, p := range t.open {
		if p.key == key {
			t.open = append(t.open[:i:i], t.open[i+1:]...)
			t.turnLocked()
			return p
		}
	}
	return nil
}

// turnLocked has the status say whether input is required.
func (t *task) turnLocked() {
	t.updated = time.Now()
	switch {
	case t.status.IsTerminal():
	case len(t.open) > 0:
		t.status = tasks.InputRequired
	default:
		t.status = tasks.Working
	}
}

// answer gives answers to the questions that are open. What answers none of them is
// ignored (tasks, "Task Update Requests"); what is none is refused, and no answer is
// taken.
func (t *task) answer(values map[string]jsontext.Value) error {
	taken, err := t.take(values)
	if taken {
		t.changed(t)
	}
	return err
}

func (t *task) take(values map[string]jsontext.Value) (taken bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.open {
		if raw, ok := values[p.key]; ok && !question.IsAnswer(p.method, raw) {
			return false, invalid("params.inputResponses.%s is no answer to %s", p.key, p.method)
		}
	}
	for key, raw := range values {
		p := t.closeLocked(key)
		if p == nil {
			continue
		}
		res, err := mcp.NewResult(raw)
		if err != nil {
			return taken, err // it was an answer, and so an object
		}
		p.answer <- res
		taken = true
	}
	return taken, nil
}

// run is the task. Its function may panic, and costs nobody else their task.
func (t *task) run(ctx context.Context, call *Call, f func(context.Context, *Call) (*Result, error)) {
	status, detail := tasks.Failed, jsontext.Value(nil)
	defer func() {
		if p := recover(); p != nil {
			call.mux.notePanic(ctx, t, p)
			status, detail = tasks.Failed, failure(errPanic)
		}
		t.end(status, detail)
	}()
	own := t.callOf(call)
	res, err := own.conclude(f(ctx, own))
	switch {
	case err == nil:
		status, detail = tasks.Completed, res.Bytes()
	case ctx.Err() != nil:
		status = tasks.Cancelled
	default:
		call.mux.noteFailure(ctx, t, err)
		detail = failure(err)
	}
}

// noteFailure logs what the client is not told of an error, and nobody else would
// hear of.
func (m *Mux) noteFailure(ctx context.Context, t *task, err error) {
	_, ours := errors.AsType[*mcp.Fault](err)
	_, wire := errors.AsType[*mcp.Error](err)
	if m.Logger != nil && !ours && !wire {
		m.Logger.ErrorContext(ctx, "a task has failed", slog.String("task", t.id), slog.Any("error", err))
	}
}

// notePanic logs what nobody else would hear of.
func (m *Mux) notePanic(ctx context.Context, t *task, p any) {
	if m.Logger != nil {
		m.Logger.ErrorContext(ctx, "a task has panicked", slog.String("task", t.id), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}

var errPanic = errors.New("the function has panicked")

// callOf is the call as the task has it.
func (t *task) callOf(call *Call) *Call {
	return &Call{Request: call.Request, Caller: t, mux: call.mux, tasks: true, vars: call.vars}
}

// failure is an error as the task has it.
func failure(err error) jsontext.Value {
	wire := mcp.ToWire(err)
	out := strconv.AppendInt([]byte(`{"code":`), wire.Code, 10)
	out = mcp.AppendString(append(out, `,"message":`...), wire.Message)
	if wire.Data != nil {
		out = append(append(out, `,"data":`...), wire.Data...)
	}
	return append(out, '}')
}

// end is the last that changes.
func (t *task) end(status tasks.Status, detail jsontext.Value) {
	t.finish(status, detail)
	t.cancel(nil)
	t.changed(t)
}

func (t *task) finish(status tasks.Status, detail jsontext.Value) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status.IsTerminal() {
		return
	}
	t.status, t.detail, t.open, t.updated = status, detail, nil, time.Now()
}

// stop cancels the task. The function is told; whatever it returns, the task has been
// cancelled, because that is what its client was promised first.
func (t *task) stop() { t.end(tasks.Cancelled, nil) }

// describe returns the task with what belongs to its state.
func (t *task) describe() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	var member string
	value := t.detail
	switch t.status {
	case tasks.Completed:
		member = "result"
	case tasks.Failed:
		member = "error"
	case tasks.InputRequired:
		member, value = "inputRequests", t.inputsLocked()
	default:
		return t.describeLocked(t.status, "", nil)
	}
	return t.describeLocked(t.status, "", append([]byte(`,"`+member+`":`), value...))
}

func (t *task) inputsLocked() []byte {
	var all [][]byte
	for _, p := range t.open {
		one := append(mcp.AppendString(nil, p.key), `:{"method":`...)
		one = append(mcp.AppendString(one, p.method), `,"params":`...)
		all = append(all, append(append(one, p.params...), '}'))
	}
	return append(append([]byte{'{'}, bytes.Join(all, []byte{','})...), '}')
}

func (t *task) describeAs(status tasks.Status, head string, tail []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.describeLocked(status, head, tail)
}

func (t *task) describeLocked(status tasks.Status, head string, tail []byte) []byte {
	out := mcp.AppendString(append([]byte{'{'}, head+`"taskId":`...), t.id)
	out = mcp.AppendString(append(out, `,"status":`...), string(status))
	out = mcp.AppendString(append(out, `,"createdAt":`...), t.created.UTC().Format(time.RFC3339Nano))
	out = mcp.AppendString(append(out, `,"lastUpdatedAt":`...), t.updated.UTC().Format(time.RFC3339Nano))
	out = strconv.AppendInt(append(out, `,"ttlMs":`...), t.ttl.Milliseconds(), 10)
	out = strconv.AppendInt(append(out, `,"pollIntervalMs":`...), pollInterval, 10)
	return append(append(out, tail...), '}')
}
