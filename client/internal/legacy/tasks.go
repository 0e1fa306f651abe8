// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// How long a session is kept open for a task without requests. A shorter TTL of the
// task takes precedence.
const (
	taskSessionTime = time.Hour
	fetchedTaskTime = time.Minute // after its result was fetched
)

// The bounds of what is stored of a server's tasks and tools. Requests on any other task
// go to the session that their principal has. For any other tool the server is asked
// again.
const (
	maxTaskSessions = 4096
	maxSupportTools = 4096
)

// The values of execution.taskSupport that are used here.
const (
	taskRequired = "required"
	taskOptional = "optional"
)

// taskKey identifies a task of a principal.
type taskKey struct{ principal, id string }

// serverTasks is what is stored of the tasks of one server of 2025-11-25, over all its
// sessions. The zero value is ready.
type serverTasks struct {
	mu sync.Mutex

	// support holds execution.taskSupport of each tool by its name, "" if unset: whether
	// the tool may, or must, be called as a task. It is read from forwarded tools/list
	// results.
	support map[string]string

	// sessions holds the session in which each task began. Many servers keep a task in its
	// session, or in its process, so requests on the task go there as long as the session
	// lives, from any client of the principal.
	sessions map[taskKey]*clientSession

	// results holds the tasks that wait for input from clients that poll with tasks/get and
	// answer with tasks/update. A server of 2025-11-25 sends its input requests while a
	// tasks/result is pending, so one is kept open for each of these tasks.
	results map[taskKey]*openTaskResult

	// watchers holds the channels of the listens for each task, by its id. A status
	// notification in any session wakes all of them. They poll the task themselves, each
	// for its own client.
	watchers map[string]map[chan struct{}]struct{}
}

// supportOf returns the taskSupport of a tool, and whether the tool was in a list.
func (t *serverTasks) supportOf(tool string) (support string, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	support, known = t.support[tool]
	return support, known
}

// learn stores the tools of one page of a list. A malformed list is ignored.
func (t *serverTasks) learn(res *mcp.Result) {
	if !bytes.Contains(res.Bytes(), []byte("taskSupport")) && !t.hasSupport() {
		return
	}
	var tools []struct {
		Name      string `json:"name"`
		Execution struct {
			Support string `json:"taskSupport"`
		} `json:"execution"`
	}
	if err := json.Unmarshal(res.Raw(mcp.FieldTools), &tools); err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.support == nil || len(t.support)+len(tools) > maxSupportTools {
		t.support = make(map[string]string, len(tools))
	}
	for _, tool := range tools {
		t.support[tool.Name] = tool.Execution.Support
	}
}

func (t *serverTasks) hasSupport() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.support) > 0
}

// keepSession stores the session of a task and keeps it open.
func (t *serverTasks) keepSession(principal string, one *task.Task, s *clientSession) {
	keep := taskSessionTime
	if one.Status == task.Cancelled { // it has no result
		keep = fetchedTaskTime
	}
	if one.TTL > 0 {
		keep = min(keep, one.TTL)
	}
	key := taskKey{principal, one.ID}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions == nil {
		t.sessions = make(map[taskKey]*clientSession)
	}
	if t.sessions[key] == nil && len(t.sessions) >= maxTaskSessions {
		t.evictLocked(time.Now())
	}
	t.sessions[key] = s
	s.tasks.keepUntil(key, time.Now().Add(keep))
}

// evictLocked makes room: it drops the sessions that are not kept any longer and, if that
// is not enough, arbitrary ones.
func (t *serverTasks) evictLocked(now time.Time) {
	for key, s := range t.sessions {
		if !s.isAlive() || !s.tasks.isKeptFor(key, now) {
			t.dropLocked(key)
		}
	}
	for key := range t.sessions {
		if len(t.sessions) < maxTaskSessions {
			return
		}
		t.dropLocked(key)
	}
}

func (t *serverTasks) dropLocked(key taskKey) {
	t.sessions[key].tasks.release(key)
	delete(t.sessions, key)
}

// sessionEnded drops the tasks that began in a session.
func (t *serverTasks) sessionEnded(s *clientSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.sessions, func(_ taskKey, of *clientSession) bool { return of == s })
}

// taskEnded shortens the time that the session of a task is kept, because the result was
// fetched or will not be. It may be fetched once more.
func (t *serverTasks) taskEnded(principal, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := taskKey{principal, id}
	if s := t.sessions[key]; s != nil {
		s.tasks.keepUntil(key, time.Now().Add(fetchedTaskTime))
	}
}

// sessionOf returns the session in which a task began, or nil.
func (t *serverTasks) sessionOf(principal, id string) *clientSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := taskKey{principal, id}
	s := t.sessions[key]
	if s != nil && !s.isAlive() {
		t.dropLocked(key)
		return nil
	}
	return s
}

// watch returns a channel that receives when the task has changed. The caller must call
// unwatch.
func (t *serverTasks) watch(id string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers == nil {
		t.watchers = make(map[string]map[chan struct{}]struct{})
	}
	if t.watchers[id] == nil {
		t.watchers[id] = make(map[chan struct{}]struct{})
	}
	wake := make(chan struct{}, 1)
	t.watchers[id][wake] = struct{}{}
	return wake
}

func (t *serverTasks) unwatch(id string, wake chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watchers[id], wake)
	if len(t.watchers[id]) == 0 {
		delete(t.watchers, id)
	}
}

// wake wakes the listens for the task. It does not wait.
func (t *serverTasks) wake(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for wake := range t.watchers[id] {
		select {
		case wake <- struct{}{}:
		default: // a wake-up is pending
		}
	}
}

// sessionTasks are the server's tasks in one session. The zero value is ready.
type sessionTasks struct {
	mu sync.Mutex

	// kept holds the time until which the session must be kept open, by the taskKey of a
	// task that began in it or by the openTaskResult that is pending in it.
	kept map[any]time.Time

	// results holds the pending tasks/result calls by their id. A message of the task may
	// arrive on a stream that belongs to no call, or to all. It names its task, or the
	// token of the call that began the task, and is routed to the tasks/result call
	// (2025-11-25, basic/utilities/tasks, "Associating Task-Related Messages").
	results map[mcp.ID]taskResultCall
}

// taskResultCall is a pending tasks/result.
type taskResultCall struct {
	task  string
	token mcp.ID // of the call that began the task, zero if that was another request
}

// keepUntil keeps the session open for a task, or for an openTaskResult.
func (t *sessionTasks) keepUntil(key any, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = make(map[any]time.Time)
	}
	t.kept[key] = until
}

func (t *sessionTasks) release(key any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.kept, key)
}

func (t *sessionTasks) isKeptFor(key any, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[key].After(now)
}

// keptUntil returns the time until which the session must be kept open, the zero time if
// it need not be.
func (t *sessionTasks) keptUntil(now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	var latest time.Time
	for key, until := range t.kept {
		switch {
		case !until.After(now):
			delete(t.kept, key)
		case until.After(latest):
			latest = until
		}
	}
	return latest
}

func (t *sessionTasks) beginResult(id mcp.ID, c taskResultCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.results == nil {
		t.results = make(map[mcp.ID]taskResultCall)
	}
	t.results[id] = c
}

func (t *sessionTasks) endResult(id mcp.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.results, id)
}

// resultCall returns the id of a pending tasks/result that satisfies is, the zero ID if
// none does.
func (t *sessionTasks) resultCall(is func(taskResultCall) bool) mcp.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, c := range t.results {
		if is(c) {
			return id
		}
	}
	return mcp.ID{}
}

// isKeptForTask reports whether the session must be kept open for a task.
func (s *clientSession) isKeptForTask() bool { return !s.tasks.keptUntil(time.Now()).IsZero() }

// taskMode is how a tool is called at a server of 2025-11-25.
type taskMode uint8

const (
	direct  taskMode = iota // for its result
	asTask                  // as a task that the client receives
	awaited                 // as a task that the client does not see, for its result
	refused                 // not called: the client must declare task support first
)

// callTool calls a tool, as a task if the tool and the client want that (2025-11-25,
// basic/utilities/tasks, "Tool-Level Negotiation"). A tool that no list has shown yet
// is called for its result. If the server requires a task it returns an error and has
// done nothing, so the tool is called again.
func (l *Protocol) callTool(ctx context.Context, s *clientSession, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	name, _ := req.Params.Text(mcp.FieldName)
	mode := l.modeOf(s, req, name)
	if mode == refused {
		return nil, task.Missing(call.MethodToolsCall)
	}
	res, err := l.callAs(ctx, s, req, caller, mode)
	if mode != direct || !s.taskOffer.Calls || !isMethodNotFound(err) {
		return res, err
	}
	if _, known := l.tasks.supportOf(name); known {
		return res, err
	}
	l.learnTools(ctx, s)
	switch mode = l.modeOf(s, req, name); mode {
	case direct:
		return res, err
	case refused:
		return nil, task.Missing(call.MethodToolsCall)
	default:
		return l.callAs(ctx, s, req, caller, mode)
	}
}

func isMethodNotFound(err error) bool {
	e, ok := err.(*mcp.Error) //nolint:errorlint // the server's own error only
	return ok && e.Code == mcp.CodeMethodNotFound
}

// learnTools lists the tools in a session, up to as many pages as are read for headers.
func (l *Protocol) learnTools(ctx context.Context, s *clientSession) {
	var params []byte
	for range call.MaxToolPages {
		res, err := s.ownCall(ctx, call.MethodToolsList, params)
		if err != nil {
			return
		}
		l.tasks.learn(res)
		cursor := res.Raw(mcp.FieldNextCursor)
		if cursor == nil || string(cursor) == "null" {
			return
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
}

// modeOf decides how a tool is called. A client of the extension leaves the choice to
// the server, which marks tools that take long. A client of 2025-11-25 chooses itself,
// and receives an error if the choice is wrong. So does a modern client without the
// extension, as from a server of its own: it can declare the extension with its next
// request (tasks, "Capability Negotiation"). Any other client gets the result, however
// long that takes.
func (l *Protocol) modeOf(s *clientSession, req *mcp.Request, tool string) taskMode {
	if !s.taskOffer.Calls {
		return direct
	}
	client := req.Client
	if client == nil {
		client = l.Self()
	}
	support, _ := l.tasks.supportOf(tool)
	declared := task.Declared(client.Capabilities)
	switch {
	case declared && isLegacyClient(client):
		if req.Params.Has(mcp.FieldTask) {
			return asTask
		}
		return direct
	case declared && (support == taskRequired || support == taskOptional):
		return asTask
	case declared, support != taskRequired, client.Version == mcp.V20251125:
		return direct
	case req.TakesInputRequired:
		return refused
	default:
		return awaited
	}
}

// isLegacyClient reports whether the server edge translates for a client without the
// extension. Such a client fetches results with tasks/result.
func isLegacyClient(p *mcp.Peer) bool { return p != nil && p.Version.Era() == mcp.EraLegacy }

// callAs calls a tool in the given mode.
func (l *Protocol) callAs(ctx context.Context, s *clientSession, req *mcp.Request, caller mcp.Caller, mode taskMode) (*mcp.Result, error) {
	own, err := withTask(req, mode)
	if err != nil {
		return nil, err
	}
	var token mcp.ID
	res, err := s.callWithID(ctx, own, caller, func(id mcp.ID) { token = id })
	if err != nil || mode == direct {
		return res, err
	}
	raw, ok := task.FromCreated(res.Bytes())
	if !ok {
		return res, nil // the server returned the result at once
	}
	t, err := task.Read(raw)
	if err != nil {
		return nil, s.Malformed(err)
	}
	l.tasks.keepSession(req.Principal, &t, s)
	if mode == asTask {
		return mcp.NewResult(raw)
	}
	defer l.tasks.taskEnded(req.Principal, t.ID)
	return s.awaitTask(ctx, req, &t, token, caller)
}

// withTask returns the request with the client's params.task, with an empty one, or
// without it.
func withTask(req *mcp.Request, mode taskMode) (*mcp.Request, error) {
	if mode == direct {
		return call.WithoutTask(req)
	}
	if req.Params.Has(mcp.FieldTask) && isLegacyClient(req.Client) {
		return req, nil
	}
	var e mcp.Edit
	e.Set(mcp.FieldTask, []byte("{}"))
	return call.WithEdit(req, &e)
}

// awaitTask waits for the result of a task for a client without task support. The input
// requests of the task arrive while tasks/result is pending, and its progress under the
// token of the call. The task has no other owner and is cancelled if the call ends first.
func (s *clientSession) awaitTask(ctx context.Context, req *mcp.Request, t *task.Task, token mcp.ID, caller mcp.Caller) (*mcp.Result, error) {
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	// Ends with tasks/result; waited for here.
	watch.Go(func() { s.pollTask(watching, req, t, caller) })
	res, err := s.taskResult(ctx, call.AboutTask(req, call.MethodTaskResult, t.ID), t.ID, token, caller)
	if !call.Answered(err) {
		s.cancelTask(t.ID)
	}
	if err != nil {
		return nil, s.AfterStart(err)
	}
	return withoutRelated(res)
}

// pollTask polls a task while a caller waits for its result. Each answer resets the
// caller's idle timeout.
func (s *clientSession) pollTask(ctx context.Context, req *mcp.Request, t *task.Task, caller mcp.Caller) {
	for backoff.Sleep(ctx, max(task.Interval(t.Poll), time.Second)) {
		if _, err := s.call(ctx, call.AboutTask(req, call.MethodTaskGet, t.ID), caller); err == nil {
			caller.Extension().Pulse()
		}
	}
}

// cancelTask cancels a task in the background, because its only owner has gone.
func (s *clientSession) cancelTask(id string) {
	if !s.taskOffer.Cancel {
		return
	}
	params := append(jsonscan.AppendString([]byte(`{"taskId":`), id), '}')
	// Bounded by Write. The session's close lets it finish.
	s.sends.Start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, s.Write)
		defer cancel()
		_, _ = s.ownCall(ctx, call.MethodTaskCancel, params) // no caller is left to receive an error
	})
}

// taskResult sends a tasks/result and waits for the result. Meanwhile its caller
// receives the task's messages that arrive on no call's stream.
func (s *clientSession) taskResult(ctx context.Context, req *mcp.Request, id string, token mcp.ID, caller mcp.Caller) (*mcp.Result, error) {
	var own mcp.ID
	defer func() { s.tasks.endResult(own) }()
	return s.callWithID(ctx, req, caller, func(call mcp.ID) {
		own = call
		s.tasks.beginResult(call, taskResultCall{task: id, token: token})
	})
}

// withoutRelated removes the related-task field from a result, for a caller that does
// not know the task, or that knows it from the enclosing object.
func withoutRelated(res *mcp.Result) (*mcp.Result, error) {
	if !res.Has(mcp.MetaRelatedTask) {
		return res, nil
	}
	var e mcp.Edit
	e.Delete(mcp.MetaRelatedTask)
	obj, err := e.Apply(&res.Object)
	if err != nil {
		return nil, err
	}
	if string(obj.Raw(mcp.FieldMeta)) == "{}" {
		e = mcp.Edit{}
		e.Delete(mcp.FieldMeta)
		if obj, err = e.Apply(&obj); err != nil {
			return nil, err
		}
	}
	return &mcp.Result{Object: obj}, nil
}

// serveTask serves a request on a task.
func (l *Protocol) serveTask(ctx context.Context, s *clientSession, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	id, ok := req.Params.Text(mcp.FieldTaskID)
	if !ok && req.Method != call.MethodTaskList {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: params.taskId is missing or not a string", req.Method)
	}
	switch req.Method {
	case call.MethodTaskResult:
		res, err := s.taskResult(ctx, req, id, mcp.ID{}, caller)
		if call.Answered(err) { // the server's own error ends a task as well
			l.tasks.taskEnded(req.Principal, id)
		}
		return res, err
	case call.MethodTaskGet:
		return l.getTask(ctx, s, req, id, caller)
	case call.MethodTaskUpdate:
		return l.updateTask(ctx, s, req, id)
	case call.MethodTaskCancel:
		return l.cancelTask(ctx, s, req, id, caller)
	default:
		return s.call(ctx, req, caller)
	}
}

// getTask returns the state of a task in the form of the extension, with its input
// requests. A task with the status input_required that has not sent any yet is reported
// as working. For a legacy client, which fetches the result itself, this is a mere
// conversion.
func (l *Protocol) getTask(ctx context.Context, s *clientSession, req *mcp.Request, id string, caller mcp.Caller) (*mcp.Result, error) {
	if isLegacyClient(req.Client) {
		res, err := s.call(ctx, req, caller)
		if err != nil {
			return nil, err
		}
		return l.convertTask(s, req, res, statusOf(res), "", nil)
	}
	for n := 0; ; n++ {
		res, err := s.call(ctx, req, call.NoCaller{})
		if err != nil {
			return nil, err
		}
		switch status := statusOf(res); status {
		case task.Completed, task.Failed:
			return l.endedTask(ctx, s, req, id, res)
		case task.Cancelled:
			l.tasks.cancelResult(req.Principal, id)
			return l.convertTask(s, req, res, status, "", nil)
		default:
			questions, over, err := l.pendingInputs(ctx, s, req, id, status)
			if err != nil {
				return nil, err
			}
			if over && n == 0 {
				continue // with the new state
			}
			if questions == nil {
				return l.convertTask(s, req, res, task.Working, "", nil)
			}
			return l.convertTask(s, req, res, task.InputRequired, "inputRequests", questions)
		}
	}
}

func statusOf(res *mcp.Result) task.Status { return task.StatusOf(res.Bytes()) }

// convertTask converts a legacy server's description of a task to that of the
// extension, and records the session of the task.
func (l *Protocol) convertTask(s *clientSession, req *mcp.Request, res *mcp.Result, status task.Status, detail string, value []byte) (*mcp.Result, error) {
	raw, err := task.FromTask(res.Bytes(), status, detail, value)
	if err != nil {
		return nil, s.Malformed(err)
	}
	t, err := task.Read(raw)
	if err != nil {
		return nil, s.Malformed(err)
	}
	l.tasks.keepSession(req.Principal, &t, s)
	return mcp.NewResult(raw)
}

// endedTask returns a task that has ended, with its result or error, which it fetches
// from the server.
func (l *Protocol) endedTask(ctx context.Context, s *clientSession, req *mcp.Request, id string, res *mcp.Result) (*mcp.Result, error) {
	l.tasks.cancelResult(req.Principal, id)
	end, err := s.call(ctx, call.AboutTask(req, call.MethodTaskResult, id), call.NoCaller{})
	said, isError := err.(*mcp.Error) //nolint:errorlint // the server's own error only
	var answer *mcp.Result
	switch {
	case err == nil:
		if end, err = withoutRelated(end); err != nil {
			return nil, s.Malformed(err)
		}
		answer, err = l.convertTask(s, req, res, task.Completed, "result", end.Bytes())
	case isError && statusOf(res) == task.Failed:
		answer, err = l.convertTask(s, req, res, task.Failed, "error", task.ErrorJSON(said))
	default:
		return nil, err
	}
	l.tasks.taskEnded(req.Principal, id)
	return answer, err
}

// cancelTask serves tasks/cancel. For a client of the extension the request is
// acknowledged (tasks, "Task Cancellation") even if the server cannot cancel, and is not
// asked to, or if the task has ended, which a legacy server refuses to cancel.
func (l *Protocol) cancelTask(ctx context.Context, s *clientSession, req *mcp.Request, id string, caller mcp.Caller) (*mcp.Result, error) {
	if !s.taskOffer.Cancel && !isLegacyClient(req.Client) {
		l.tasks.cancelResult(req.Principal, id)
		return call.EmptyResult()
	}
	res, err := s.call(ctx, req, caller)
	if err != nil && (isLegacyClient(req.Client) || !call.Answered(err) || !s.taskHasEnded(ctx, req)) {
		return nil, err
	}
	l.tasks.cancelResult(req.Principal, id)
	if isLegacyClient(req.Client) {
		return l.convertTask(s, req, res, statusOf(res), "", nil)
	}
	if err == nil {
		l.tasks.taskEnded(req.Principal, id)
	}
	return call.EmptyResult()
}

// taskHasEnded reports whether the server returns a terminal state for the task of a
// request.
func (s *clientSession) taskHasEnded(ctx context.Context, req *mcp.Request) bool {
	get := *req
	get.Method = call.MethodTaskGet
	res, err := s.call(ctx, &get, call.NoCaller{})
	return err == nil && statusOf(res).IsTerminal()
}
