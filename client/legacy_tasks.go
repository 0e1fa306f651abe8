// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
	"time"

	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The methods of tasks. Two of them only 2025-11-25 has, and one only the
// extension; they are served here for whoever asks in either form.
const (
	methodTasks      = "tasks/" // all of them
	methodTaskGet    = "tasks/get"
	methodTaskUpdate = "tasks/update"
	methodTaskCancel = "tasks/cancel"
	methodTaskResult = "tasks/result"
	methodTaskList   = "tasks/list"
)

// taskMode is how a tool is called at a server of 2025-11-25.
type taskMode uint8

const (
	direct  taskMode = iota // for its result
	asTask                  // as a task, which the client takes
	awaited                 // as a task that the client does not hear of, for its result
	refused                 // not at all: its client has to declare first that it takes tasks
)

// callTool makes a call of a tool, as a task where the tool and the client want
// that (2025-11-25, basic/utilities/tasks, "Tool-Level Negotiation"). A tool that
// nobody has listed yet is called for its result; a server that wants a task says
// so, and has done nothing.
func (l *legacy) callTool(ctx context.Context, s *legacySession, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	name, _ := req.Params.Text(mcp.FieldName)
	how := l.wayOf(s, req, name)
	if how == refused {
		return nil, taskform.Missing(methodToolsCall)
	}
	res, err := l.callBy(ctx, s, req, caller, how)
	if how != direct || !s.taskOffer.Calls || !isMethodNotFound(err) || l.support.knows(name) {
		return res, err
	}
	l.support.ask(ctx, s)
	switch how = l.wayOf(s, req, name); how {
	case direct:
		return res, err
	case refused:
		return nil, taskform.Missing(methodToolsCall)
	default:
		return l.callBy(ctx, s, req, caller, how)
	}
}

func isMethodNotFound(err error) bool {
	e, ok := err.(*mcp.Error) //nolint:errorlint // the server's own word only
	return ok && e.Code == mcp.CodeMethodNotFound
}

// wayOf decides how a tool is called. A client of the extension leaves it to the
// server, whose tools say that they may be tasks because they take their time. One of
// 2025-11-25 decides by itself, and is told where it decides wrongly. So is one of the
// modern era, as by a server of its own: it can declare the extension with its next
// request (tasks, "Capability Negotiation"). Any other client that takes no tasks gets
// what it has asked for, however long that takes.
func (l *legacy) wayOf(s *legacySession, req *mcp.Request, tool string) taskMode {
	support, client := l.support.of(tool), req.Client
	if client == nil {
		client = l.self()
	}
	switch {
	case !s.taskOffer.Calls:
		return direct
	case !taskform.Declared(client.Capabilities):
		return undeclaredWay(req, support, client.Version)
	case isLegacyClient(client):
		if req.Params.Has(mcp.FieldTask) {
			return asTask
		}
		return direct
	case support == taskRequired || support == taskOptional:
		return asTask
	default:
		return direct
	}
}

// undeclaredWay is how a tool is called for a client that has not declared that it
// takes tasks.
func undeclaredWay(req *mcp.Request, support string, v mcp.Version) taskMode {
	switch {
	case support != taskRequired || v == mcp.V20251125:
		return direct
	case req.TakesInputRequired:
		return refused
	default:
		return awaited
	}
}

// isLegacyClient reports whether the other edge translates for a client that has no
// extension of its own: such a client asks for results by tasks/result.
func isLegacyClient(p *mcp.Peer) bool { return p != nil && p.Version.Era() == mcp.EraLegacy }

// callBy makes the call.
func (l *legacy) callBy(ctx context.Context, s *legacySession, req *mcp.Request, caller mcp.Caller, how taskMode) (*mcp.Result, error) {
	own, err := withTask(req, how)
	if err != nil {
		return nil, err
	}
	var token mcp.ID
	res, err := s.callNoting(ctx, own, caller, func(id mcp.ID) { token = id })
	if err != nil || how == direct {
		return res, err
	}
	raw, ok := taskform.FromCreated(res.Bytes())
	if !ok {
		return res, nil // it has done at once what it was to do later
	}
	t, err := taskform.Read(raw)
	if err != nil {
		return nil, s.malformed(err)
	}
	l.anchors.put(req.Principal, &t, s)
	if how == asTask {
		return mcp.NewResult(raw)
	}
	return s.awaitTask(ctx, req, &t, token, caller)
}

// withTask returns the request as the server gets it: with params.task as its
// client has written it, with one of ours, or without.
func withTask(req *mcp.Request, how taskMode) (*mcp.Request, error) {
	var e mcp.Edit
	switch has := req.Params.Has(mcp.FieldTask); {
	case how == direct && has:
		e.Delete(mcp.FieldTask)
	case how != direct && (!has || !isLegacyClient(req.Client)):
		e.Set(mcp.FieldTask, []byte("{}"))
	default:
		return req, nil
	}
	params, err := e.Apply(&req.Params)
	if err != nil {
		return nil, err
	}
	own := *req
	own.Params = params
	return &own, nil
}

// awaitTask waits for the result of a task for a client that takes none. What the
// task asks for comes while tasks/result waits, as does its progress, under the
// token of the call. The task has no other owner, and ends with the call.
func (s *legacySession) awaitTask(ctx context.Context, req *mcp.Request, t *taskform.Task, token mcp.ID, caller mcp.Caller) (*mcp.Result, error) {
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	// Ends with the wait; waited for here.
	watch.Go(func() { s.watchTask(watching, req, t, caller) })
	res, err := s.taskResult(ctx, aboutTask(req, methodTaskResult, t.ID), t.ID, token, caller)
	if err != nil && ctx.Err() != nil {
		s.cancelTask(t.ID)
	}
	if err != nil {
		return nil, err
	}
	return withoutRelated(res)
}

// aboutTask makes a request about a task in the name of another.
func aboutTask(like *mcp.Request, method, id string) *mcp.Request {
	params := append(mcp.AppendString([]byte(`{"taskId":`), id), '}')
	obj, err := mcp.ParseObject(params)
	if err != nil {
		obj = mcp.Object{} // an object with one string always parses
	}
	own := *like
	own.Method, own.Params, own.ParamHeaders = method, obj, nil
	if token := like.Params.Raw(mcp.MetaProgressToken); token != nil {
		var e mcp.Edit
		e.Set(mcp.MetaProgressToken, token)
		if with, err := e.Apply(&obj); err == nil {
			own.Params = with
		}
	}
	return &own
}

// watchTask looks at a task from time to time while somebody waits for its result:
// that there is an answer is a sign of life, for who ends what shows none.
func (s *legacySession) watchTask(ctx context.Context, req *mcp.Request, t *taskform.Task, caller mcp.Caller) {
	for pause(ctx, max(taskform.Interval(t.Poll), time.Second)) {
		if _, err := s.call(ctx, aboutTask(req, methodTaskGet, t.ID), caller); err == nil {
			mcp.Pulse(caller)
		}
	}
}

// cancelTask ends a task whose only owner has gone, in the background.
func (s *legacySession) cancelTask(id string) {
	if !s.taskOffer.Cancel {
		return
	}
	params := append(mcp.AppendString([]byte(`{"taskId":`), id), '}')
	// Bounded by Write; the session's end lets it arrive.
	s.notices.start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, s.Write)
		defer cancel()
		_, _ = s.roundTrip(ctx, methodTaskCancel, params) // nobody is left to be told
	})
}

// taskResult asks for the result of a task and waits for it. While it does, what is
// the task's own, and came by no stream of a call, goes to it.
func (s *legacySession) taskResult(ctx context.Context, req *mcp.Request, id string, token mcp.ID, caller mcp.Caller) (*mcp.Result, error) {
	var own mcp.ID
	defer func() { s.taskWaits.end(own) }()
	return s.callNoting(ctx, req, caller, func(call mcp.ID) {
		own = call
		s.taskWaits.begin(call, id, token)
	})
}

// withoutRelated takes the mark of its task from a result: whoever gets it knows of
// no task, or has it inside of the task.
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

// followTask serves a request about a task.
func (l *legacy) followTask(ctx context.Context, s *legacySession, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	id, ok := req.Params.Text(mcp.FieldTaskID)
	if !ok && req.Method != methodTaskList {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: params.taskId is missing or no string", req.Method)
	}
	switch req.Method {
	case methodTaskResult:
		res, err := s.taskResult(ctx, req, id, mcp.ID{}, caller)
		l.anchors.done(req.Principal, id, err)
		return res, err
	case methodTaskGet:
		return l.getTask(ctx, s, req, id, caller)
	case methodTaskUpdate:
		return l.updateTask(ctx, s, req, id)
	case methodTaskCancel:
		return l.endTask(ctx, s, req, id, caller)
	default:
		return s.call(ctx, req, caller)
	}
}

// getTask returns the state of a task in the form of the extension. For a client
// that will ask for its result by itself that is a translation.
func (l *legacy) getTask(ctx context.Context, s *legacySession, req *mcp.Request, id string, caller mcp.Caller) (*mcp.Result, error) {
	if isLegacyClient(req.Client) {
		res, err := s.call(ctx, req, caller)
		if err != nil {
			return nil, err
		}
		return l.told(s, req, res, statusOf(res), "", nil)
	}
	for n := 0; ; n++ {
		res, err := s.call(ctx, req, noCaller{})
		if err != nil {
			return nil, err
		}
		switch status := statusOf(res); status {
		case taskform.Completed, taskform.Failed:
			return l.ended(ctx, s, req, id, res)
		case taskform.Cancelled:
			l.holds.drop(req.Principal, id)
			return l.told(s, req, res, status, "", nil)
		default:
			questions, over, err := l.inputsOf(ctx, s, req, id, status)
			if err != nil {
				return nil, err
			}
			if over && n == 0 {
				continue // with what it has become
			}
			return l.running(s, req, res, questions)
		}
	}
}

func statusOf(res *mcp.Result) taskform.Status { return taskform.StatusOf(res.Bytes()) }

// told turns the server's description of a task into that of the extension, and
// takes note that the task is there.
func (l *legacy) told(s *legacySession, req *mcp.Request, res *mcp.Result, status taskform.Status, detail string, value []byte) (*mcp.Result, error) {
	raw, err := taskform.FromTask(res.Bytes(), status, detail, value)
	if err != nil {
		return nil, s.malformed(err)
	}
	t, err := taskform.Read(raw)
	if err != nil {
		return nil, s.malformed(err)
	}
	l.anchors.put(req.Principal, &t, s)
	return mcp.NewResult(raw)
}

// ended is a task with what it has ended with, which the server is asked for.
func (l *legacy) ended(ctx context.Context, s *legacySession, req *mcp.Request, id string, res *mcp.Result) (*mcp.Result, error) {
	l.holds.drop(req.Principal, id)
	status := statusOf(res)
	end, err := s.call(ctx, aboutTask(req, methodTaskResult, id), noCaller{})
	said, isError := err.(*mcp.Error) //nolint:errorlint // the server's own word only
	switch {
	case err == nil:
		if end, err = withoutRelated(end); err != nil {
			return nil, s.malformed(err)
		}
		answer, err := l.told(s, req, res, taskform.Completed, "result", end.Bytes())
		l.anchors.done(req.Principal, id, err)
		return answer, err
	case isError && status == taskform.Failed:
		answer, err := l.told(s, req, res, taskform.Failed, "error", taskform.ErrorJSON(said))
		l.anchors.done(req.Principal, id, err)
		return answer, err
	default:
		return nil, err
	}
}

// running is a task that has not ended, with what it asks for. One that is said to
// wait for input, and has not asked yet, is at work.
func (l *legacy) running(s *legacySession, req *mcp.Request, res *mcp.Result, questions []byte) (*mcp.Result, error) {
	if questions == nil {
		return l.told(s, req, res, taskform.Working, "", nil)
	}
	return l.told(s, req, res, taskform.InputRequired, "inputRequests", questions)
}

// endTask cancels a task. A server that cannot cancel is not asked to: the
// extension lets it go on, and has the request acknowledged all the same (tasks,
// "Task Cancellation"). So it is where the task has ended, which a legacy server
// refuses to cancel.
func (l *legacy) endTask(ctx context.Context, s *legacySession, req *mcp.Request, id string, caller mcp.Caller) (*mcp.Result, error) {
	if !s.taskOffer.Cancel && !isLegacyClient(req.Client) {
		l.holds.drop(req.Principal, id)
		return emptyResult()
	}
	res, err := s.call(ctx, req, caller)
	if err != nil && (isLegacyClient(req.Client) || !answered(err) || !s.hasEnded(ctx, req)) {
		return nil, err
	}
	l.holds.drop(req.Principal, id)
	if !isLegacyClient(req.Client) {
		return emptyResult()
	}
	return l.told(s, req, res, statusOf(res), "", nil)
}

// hasEnded reports whether the task that a request is about is over, by the server's
// own word.
func (s *legacySession) hasEnded(ctx context.Context, req *mcp.Request) bool {
	get := *req
	get.Method = methodTaskGet
	res, err := s.call(ctx, &get, noCaller{})
	return err == nil && statusOf(res).IsTerminal()
}

// discovered are the server's capabilities as the inside has them: tools that can be
// called as tasks are what the extension offers.
func (s *legacySession) discovered() []byte {
	if !s.taskOffer.Calls {
		return s.capabilities
	}
	return taskform.Declare(s.capabilities)
}
