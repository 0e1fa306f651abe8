// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyTaskHandler serves the task methods of 2025-11-25 (basic/utilities/tasks) with a
// Handler that implements the tasks extension. It wraps the Handler of the server for
// such requests.
type legacyTaskHandler struct {
	handler   mcp.Handler
	tasks     *sessionTasks
	onCreated func(ctx context.Context, identity *mcp.Identity, id string) // called for each task that the Handler creates
}

// legacyTaskHandlerOf returns the Handler of a legacy request that concerns tasks, and
// nil for any other. To a client that was not offered tasks the methods do not exist, and
// the task parameter of a call is ignored ("Task Support and Handling").
func (s *Server) legacyTaskHandlerOf(sess *session.Session, m *mcp.Message) (mcp.Handler, *mcp.Error) {
	asked := isTaskMethod(m.Method)
	if !asked && (m.Method != "tools/call" || !m.Params.Has(mcp.FieldTask)) {
		return nil, nil // the Handler of the server
	}
	kept := scoped(sess.Scope, func() *sessionTasks { return new(sessionTasks) }) // unless offerTasks was first
	offered := kept != nil && kept.offered
	switch {
	case asked && (!offered || m.Method == "tasks/update"):
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "method %q does not exist here", m.Method)
	case !offered:
		return nil, nil // as above
	default:
		e := &legacyTaskHandler{handler: s.handler, tasks: kept}
		e.onCreated = func(ctx context.Context, identity *mcp.Identity, id string) { s.watchTask(ctx, sess, identity, e, id) }
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
	own.Client = declareTasks(req.Client)
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
		_, res, err := e.fetch(ctx, &own, caller)
		if err != nil {
			return nil, err
		}
		return asTask(res)
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
	raw, err := task.ToCreated(res.Bytes())
	if err != nil {
		return nil, err
	}
	if id, ok := res.Text(mcp.FieldTaskID); ok {
		e.onCreated(ctx, req.Identity, id)
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
		return nil, errTerminal(task.Completed)
	default:
		return mcp.NewResult(t.encode(task.Completed))
	}
}

// asTask translates a task to the form of 2025-11-25.
func asTask(res *mcp.Result) (*mcp.Result, error) {
	raw, err := task.ToTask(res.Bytes())
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(raw)
}

// fetch asks the Handler for the state of the task that a request is about.
func (e *legacyTaskHandler) fetch(ctx context.Context, req *mcp.Request, caller mcp.Caller) (task.Task, *mcp.Result, error) {
	get := *req
	get.Method = "tasks/get"
	res, err := e.handler.Serve(ctx, &get, caller)
	if err != nil {
		return task.Task{}, nil, err
	}
	if res == nil {
		return task.Task{}, nil, errNoResult
	}
	t, err := task.Read(res.Bytes())
	return t, res, err
}

// result sends the questions of a task to the client until the task ends, and returns the
// result of the task. A Handler in front of a server of 2025-11-25 serves tasks/result
// itself. A Handler that supports only the extension is polled.
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
	if t.Status == task.Failed && t.Error == nil {
		return nil, refused
	}
	return task.Await(ctx, e.handler, req, id, caller)
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

// cancel ends a task, and fails if it has ended ("Task Cancellation"). It waits a while for
// the end. A task that does not end is returned in its present state: nothing obliges it
// to stop.
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
	}
	for n := 1; ; n++ {
		t, res, err := e.fetch(ctx, req, caller)
		switch {
		case err != nil:
			return nil, err
		case t.Status == task.Cancelled, !t.Status.IsTerminal() && n == cancelPolls:
			return asTask(res)
		case t.Status.IsTerminal():
			return nil, errTerminal(t.Status)
		}
		if !backoff.Sleep(ctx, cancelPause) {
			return nil, context.Cause(ctx)
		}
	}
}

func errTerminal(status task.Status) error {
	return mcp.Errorf(mcp.CodeInvalidParams, "the task cannot be cancelled: it is %s", status)
}

// list adds our own tasks to the first page of the Handler's.
func (e *legacyTaskHandler) list(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	res, err := e.handler.Serve(ctx, req, caller)
	if err != nil || res == nil || req.Params.Has(mcp.FieldCursor) {
		return res, err
	}
	raw, err := task.Prepend(res.Bytes(), e.tasks.all(time.Now()))
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
	return editResult(res, &e)
}

func relatedTask(id string) []byte {
	return append(jsonscan.AppendString([]byte(`{"taskId":`), id), '}')
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

// The bounds of the results that a session keeps as tasks, for calls that asked for a
// task and were answered at once. The oldest is dropped first.
const (
	maxImmediateTasks = 64
	maxImmediateBytes = 8 << 20 // bytes

	defaultTaskTTL   = 10 * time.Minute // if the client asks for no ttl
	maxTaskTTL       = time.Hour
	taskPollInterval = 100 // milliseconds: the task has ended
)

// sessionTasks are the tasks of one session as the edge sees them: whether the client was
// offered tasks, and those that the edge itself has created. They end with the session.
type sessionTasks struct {
	offered bool
	prefix  string // of the ids of its tasks, and no others

	mu      sync.Mutex
	tasks   []*immediateTask
	size    int
	watched []*watchedTask // oldest first
	ended   bool
}

// immediateTask is a result that was available at once, shown as a task.
type immediateTask struct {
	id      string
	created time.Time
	ttl     time.Duration
	result  *mcp.Result
}

// offerTasks records on the scope that the client was offered tasks.
func offerTasks(scope *mcp.Scope) {
	scoped(scope, func() *sessionTasks { return &sessionTasks{offered: true, prefix: rand.Text()} })
}

// declareTasks returns the client with the tasks extension declared.
func declareTasks(p *mcp.Peer) *mcp.Peer {
	client := *p
	client.Capabilities = task.Declare(p.Capabilities)
	return &client
}

// store keeps a result as a task and returns the answer for the client. The task is
// reported as working, the state in which every task begins ("Task Status Lifecycle").
func (k *sessionTasks) store(req *mcp.Request, res *mcp.Result, now time.Time) (*mcp.Result, error) {
	t := &immediateTask{id: k.prefix + rand.Text(), created: now, ttl: defaultTaskTTL, result: res}
	if asked := task.TTL(req.Params.Raw(mcp.FieldTask)); asked > 0 {
		t.ttl = min(asked, maxTaskTTL)
	}
	k.add(t)
	created := append([]byte(`{"task":`), t.encode(task.Working)...)
	return mcp.NewResult(append(created, '}'))
}

func (k *sessionTasks) add(t *immediateTask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked(t.created)
	k.tasks = append(k.tasks, t)
	k.size += len(t.result.Bytes())
	for len(k.tasks) > maxImmediateTasks || k.size > maxImmediateBytes && len(k.tasks) > 1 {
		k.size -= len(k.tasks[0].result.Bytes())
		k.tasks = slices.Delete(k.tasks, 0, 1)
	}
}

// expireLocked drops the tasks that are past their ttl. It runs on each access instead of
// on a timer: the memory is bounded, and only this session pays for it.
func (k *sessionTasks) expireLocked(now time.Time) {
	k.tasks = slices.DeleteFunc(k.tasks, func(t *immediateTask) bool {
		gone := now.Sub(t.created) >= t.ttl
		if gone {
			k.size -= len(t.result.Bytes())
		}
		return gone
	})
}

// isOurs reports whether an id is of a task that the edge has created in this session,
// even if it has been dropped.
func (k *sessionTasks) isOurs(id string) bool {
	return k.prefix != "" && strings.HasPrefix(id, k.prefix)
}

func (k *sessionTasks) find(id string, now time.Time) *immediateTask {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked(now)
	for _, t := range k.tasks {
		if t.id == id {
			return t
		}
	}
	return nil
}

// all returns the tasks in the form of 2025-11-25.
func (k *sessionTasks) all(now time.Time) [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked(now)
	listed := make([][]byte, 0, len(k.tasks))
	for _, t := range k.tasks {
		listed = append(listed, t.encode(task.Completed))
	}
	return listed
}

// encode returns the task in the given state; a result with isError is a failed task
// ("Task Execution Errors").
func (t *immediateTask) encode(status task.Status) []byte {
	if failed, _ := t.result.Bool(mcp.FieldIsError); failed && status == task.Completed {
		status = task.Failed
	}
	at := t.created.UTC().Format(time.RFC3339)
	b := jsonscan.AppendString([]byte(`{"taskId":`), t.id)
	b = jsonscan.AppendString(append(b, `,"status":`...), string(status))
	b = jsonscan.AppendString(append(b, `,"createdAt":`...), at)
	b = jsonscan.AppendString(append(b, `,"lastUpdatedAt":`...), at)
	b = strconv.AppendInt(append(b, `,"ttl":`...), t.ttl.Milliseconds(), 10)
	b = strconv.AppendInt(append(b, `,"pollInterval":`...), taskPollInterval, 10)
	return append(b, '}')
}

// maxWatchedTasks bounds the tasks of a session with status notifications. The oldest is
// dropped first: these notifications are optional (2025-11-25, basic/utilities/tasks,
// "Task Notifications").
const maxWatchedTasks = 64

var (
	errTaskOver       = errors.New("the task has no more status notifications")
	errTooManyWatched = errors.New("displaced by newer tasks")
)

// watchedTask is a task for which the client gets status notifications.
type watchedTask struct {
	id     string
	cancel context.CancelCauseFunc
}

// watch adds a task, which may displace another. It reports false if the session has ended.
func (k *sessionTasks) watch(task *watchedTask) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return false
	}
	if len(k.watched) >= maxWatchedTasks {
		k.watched[0].cancel(errTooManyWatched)
		k.watched = slices.Delete(k.watched, 0, 1)
	}
	k.watched = append(k.watched, task)
	return true
}

func (k *sessionTasks) unwatch(task *watchedTask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watched = slices.DeleteFunc(k.watched, func(other *watchedTask) bool { return other == task })
}

// end ends all status notifications, with the session.
func (k *sessionTasks) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	for _, task := range k.watched {
		task.cancel(session.ErrEnded)
	}
}

// watchTask sends status notifications of a task that a session has begun on the
// session's standalone stream. The Handler reports the status on a listen for the task;
// one that does not agree to the listen reports nothing, or sends notifications itself.
// watchTask returns at once. Its goroutine ends with the task, the session, or the
// Handler's listen; Shutdown and Close wait for it.
func (s *Server) watchTask(ctx context.Context, sess *session.Session, identity *mcp.Identity, e *legacyTaskHandler, id string) {
	// The values are those of the request, but not the end.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	task := &watchedTask{id: id, cancel: cancel}
	if !e.tasks.watch(task) {
		cancel(errTaskOver)
		return
	}
	ended := func() {
		e.tasks.unwatch(task)
		cancel(errTaskOver)
	}
	if !s.goListen(func() {
		defer ended()
		follow := func(ctx context.Context, identity *mcp.Identity) {
			req := listenRequest(sess, identity, listen.Filter{TaskIDs: []string{id}})
			req.Client = declareTasks(sess.Client)
			_, _ = s.callHandler(ctx, s.handler, req, &taskStatusCaller{streamSender{server: s, stream: sess.Standalone()}, notifyOnly{}, task}) // the client can poll
		}
		for listenAs(ctx, sess, identity, follow) && ctx.Err() == nil {
			continue // for other credentials
		}
	}) {
		ended()
	}
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
	case listen.MethodAcknowledged:
		if agreed, err := listen.ParseFilter(&n.Params); err != nil || !slices.Contains(agreed.TaskIDs, t.task.id) {
			t.task.cancel(errTaskOver)
		}
		return nil
	case listen.MethodTask:
		return t.sendStatus(n)
	default:
		return t.drop()
	}
}

func (t *taskStatusCaller) sendStatus(n *mcp.Notification) error {
	if id, _ := n.Params.Text(mcp.FieldTaskID); id != t.task.id {
		return t.drop()
	}
	raw, err := task.ToTask(withoutSubscription(n).AppendTo(nil, &n.Params))
	if err != nil {
		return t.drop()
	}
	m := session.Message{Class: session.Progress, Key: "notifications/tasks/status " + t.task.id}
	m.Head = jsonrpc.AppendNotification(nil, "notifications/tasks/status", raw)
	full, err := t.stream.Append(m)
	if task.StatusOf(raw).IsTerminal() {
		t.task.cancel(errTaskOver)
	}
	if full != nil {
		return t.drop()
	}
	return err
}
