// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyTaskHandler serves the task methods of 2025-11-25 (basic/utilities/tasks) with a
// Handler that implements the tasks extension. It wraps the Handler of the server for
// such requests.
type legacyTaskHandler struct {
	handler   mcp.Handler
	tasks     *sessionTasks
	onCreated func(ctx context.Context, id string) // called for each task that the Handler creates
}

// legacyTaskHandlerOf returns the Handler of a legacy request that concerns tasks, and
// nil for any other. To a client that was not offered tasks the methods do not exist, and
// the task parameter of a call is ignored ("Task Support and Handling").
func (s *Server) legacyTaskHandlerOf(sess *session.Session, m *mcp.Message) (mcp.Handler, error) {
	asked := isTaskMethod(m.Method)
	if !asked && (m.Method != "tools/call" || !m.Params.Has(mcp.FieldTask)) {
		return nil, nil //nolint:nilnil // the Handler of the server
	}
	kept := sessionTasksOf(sess.Scope)
	offered := kept != nil && kept.offered
	switch {
	case asked && (!offered || m.Method == "tasks/update"):
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "method %q does not exist here", m.Method)
	case !offered:
		return nil, nil //nolint:nilnil // as above
	default:
		e := &legacyTaskHandler{handler: s.handler, tasks: kept}
		e.onCreated = func(ctx context.Context, id string) { s.watchTask(ctx, sess, e, id) }
		return e, nil
	}
}

func isTaskMethod(method string) bool {
	switch method {
	case "tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update":
		return true
	default:
		return false
	}
}

// Serve answers in the form of 2025-11-25.
func (e *legacyTaskHandler) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	own := *req
	own.Client = e.tasks.declareTasks(req.Client)
	switch req.Method {
	case "tools/call":
		return e.create(ctx, &own, caller)
	case "tasks/list":
		return e.list(ctx, &own, caller)
	}
	id, ok := req.Params.Text(mcp.FieldTaskID)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: params.taskId must be a string", req.Method)
	}
	if e.tasks.isOurs(id) {
		return e.immediate(req.Method, id)
	}
	switch req.Method {
	case "tasks/result":
		return e.result(ctx, &own, id, caller)
	case "tasks/cancel":
		return e.cancel(ctx, &own, caller)
	default:
		return e.get(ctx, &own, caller)
	}
}

// create serves a call that the client wants as a task. Such a client accepts no other
// answer, so an immediate result becomes a task of ours, which has ended.
func (e *legacyTaskHandler) create(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	res, err := e.handler.Serve(ctx, req, caller)
	switch {
	case err != nil || res == nil || res.Type() == mcp.ResultInputRequired:
		return res, err
	case res.Type() != mcp.ResultTask:
		return e.tasks.store(req, res, time.Now())
	}
	raw, err := tasks.ToCreated(res.Bytes())
	if err != nil {
		return nil, err
	}
	if id, ok := res.Text(mcp.FieldTaskID); ok {
		e.onCreated(ctx, id)
	}
	return mcp.NewResult(raw)
}

// immediate serves a request about a task of ours, which has ended.
func (e *legacyTaskHandler) immediate(method, id string) (*mcp.Result, error) {
	t := e.tasks.find(id, time.Now())
	switch {
	case t == nil:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown task")
	case method == "tasks/result":
		return relatedTo(id, t.result)
	case method == "tasks/cancel":
		return nil, errTerminal(tasks.Completed)
	default:
		return mcp.NewResult(t.encode(tasks.Completed))
	}
}

func (e *legacyTaskHandler) get(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	_, res, err := e.fetch(ctx, req, caller)
	if err != nil {
		return nil, err
	}
	return asTask(res)
}

// asTask translates a task to the form of 2025-11-25.
func asTask(res *mcp.Result) (*mcp.Result, error) {
	raw, err := tasks.ToTask(res.Bytes())
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(raw)
}

// fetch asks the Handler for the state of the task that a request is about.
func (e *legacyTaskHandler) fetch(ctx context.Context, req *mcp.Request, caller mcp.Caller) (tasks.Task, *mcp.Result, error) {
	get := *req
	get.Method = "tasks/get"
	res, err := e.handler.Serve(ctx, &get, caller)
	if err != nil {
		return tasks.Task{}, nil, err
	}
	if res == nil {
		return tasks.Task{}, nil, errNoResult
	}
	t, err := tasks.Read(res.Bytes())
	return t, res, err
}

// result waits for the end of a task, and meanwhile sends its questions to the client. A
// Handler in front of a server of 2025-11-25 can wait by itself; one with only the
// extension is polled.
func (e *legacyTaskHandler) result(ctx context.Context, req *mcp.Request, id string, caller mcp.Caller) (*mcp.Result, error) {
	related := &taskCaller{Caller: caller, id: id}
	for {
		res, err := e.handler.Serve(ctx, req, related)
		if errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
			res, err = e.await(ctx, req, id, related, err)
		}
		switch {
		case err == nil && res != nil:
			return relatedTo(id, res)
		case !isDeadline(err):
			return nil, err
		}
		// Only the wait has timed out. While the task exists, the client has asked to
		// wait.
		if _, _, err := e.fetch(ctx, req, caller); err != nil {
			return nil, err
		}
	}
}

// await is result for a Handler without that method. refused is the Handler's answer,
// which may have been that of the call itself: then the task has failed, without a
// reason.
func (e *legacyTaskHandler) await(ctx context.Context, req *mcp.Request, id string, caller mcp.Caller, refused error) (*mcp.Result, error) {
	t, _, err := e.fetch(ctx, req, caller)
	if err != nil {
		return nil, err
	}
	if t.Status == tasks.Failed && t.Error == nil {
		return nil, refused
	}
	return tasks.Await(ctx, e.handler, req, id, caller)
}

func isDeadline(err error) bool {
	f, ok := errors.AsType[*mcp.Fault](err)
	return ok && f.Code == mcp.CodeDeadline
}

const (
	// cancelPolls is how often a task is polled after it was cancelled, and cancelPause
	// the time between two polls: the extension lets a server take its time, and
	// 2025-11-25 requires the cancelled task in the answer.
	cancelPolls = 5
	cancelPause = 200 * time.Millisecond
)

// cancel ends a task, and fails if it has ended ("Task Cancellation").
func (e *legacyTaskHandler) cancel(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	t, _, err := e.fetch(ctx, req, caller)
	if err != nil {
		return nil, err
	}
	if t.Status.IsTerminal() {
		return nil, errTerminal(t.Status)
	}
	res, err := e.handler.Serve(ctx, req, caller)
	switch {
	case err != nil:
		return nil, err
	case res != nil && res.Has(mcp.FieldTaskID):
		return asTask(res) // from a server of 2025-11-25
	default:
		return e.cancelled(ctx, req, caller)
	}
}

// cancelled waits a while for a cancelled task to end. One that does not is returned in
// its present state: nothing obliges it to stop.
func (e *legacyTaskHandler) cancelled(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	for n := 1; ; n++ {
		t, res, err := e.fetch(ctx, req, caller)
		switch {
		case err != nil:
			return nil, err
		case t.Status == tasks.Cancelled, !t.Status.IsTerminal() && n == cancelPolls:
			return asTask(res)
		case t.Status.IsTerminal():
			return nil, errTerminal(t.Status)
		}
		timer := time.NewTimer(cancelPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

func errTerminal(status tasks.Status) error {
	return mcp.Errorf(mcp.CodeInvalidParams, "the task cannot be cancelled: it is %s", status)
}

// list adds our own tasks to the first page of the Handler's.
func (e *legacyTaskHandler) list(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	res, err := e.handler.Serve(ctx, req, caller)
	if err != nil || res == nil || req.Params.Has(mcp.FieldCursor) {
		return res, err
	}
	raw, err := tasks.Prepend(res.Bytes(), e.tasks.all(time.Now()))
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(raw)
}

// relatedTo marks a result with its task ("Associating Task-Related Messages").
func relatedTo(id string, res *mcp.Result) (*mcp.Result, error) {
	if res.Has(mcp.MetaRelatedTask) {
		return res, nil
	}
	var e mcp.Edit
	e.Set(mcp.MetaRelatedTask, relatedTask(id))
	obj, err := e.Apply(&res.Object)
	if err != nil {
		return nil, err
	}
	return &mcp.Result{Object: obj}, nil
}

func relatedTask(id string) []byte {
	return append(mcp.AppendString([]byte(`{"taskId":`), id), '}')
}

// taskCaller marks the questions of a task with the task, as 2025-11-25 requires.
type taskCaller struct {
	mcp.Caller
	id string
}

// Start sends a question of the task to the client.
func (c *taskCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	// A question about a task of the client refers to that task ("Associating
	// Task-Related Messages").
	if req.Params.Has(mcp.MetaRelatedTask) || isTaskMethod(req.Method) {
		return c.Caller.Start(ctx, req)
	}
	var e mcp.Edit
	e.Set(mcp.MetaRelatedTask, relatedTask(c.id))
	params, err := e.Apply(&req.Params)
	if err != nil {
		return nil, err
	}
	marked := *req
	marked.Params = params
	return c.Caller.Start(ctx, &marked)
}
