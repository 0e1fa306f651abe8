// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

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
		return nil, taskform.Missing(call.MethodToolsCall)
	}
	res, err := l.callAs(ctx, s, req, caller, mode)
	if mode != direct || !s.taskOffer.Calls || !isMethodNotFound(err) || l.support.knows(name) {
		return res, err
	}
	l.support.ask(ctx, s)
	switch mode = l.modeOf(s, req, name); mode {
	case direct:
		return res, err
	case refused:
		return nil, taskform.Missing(call.MethodToolsCall)
	default:
		return l.callAs(ctx, s, req, caller, mode)
	}
}

func isMethodNotFound(err error) bool {
	e, ok := err.(*mcp.Error) //nolint:errorlint // the server's own error only
	return ok && e.Code == mcp.CodeMethodNotFound
}

// modeOf decides how a tool is called. A client of the extension leaves the choice to
// the server, which marks tools that take long. A client of 2025-11-25 chooses itself,
// and receives an error if the choice is wrong. So does a modern client without the
// extension, as from a server of its own: it can declare the extension with its next
// request (tasks, "Capability Negotiation"). Any other client gets the result, however
// long that takes.
func (l *Protocol) modeOf(s *clientSession, req *mcp.Request, tool string) taskMode {
	support, client := l.support.of(tool), req.Client
	if client == nil {
		client = l.Self()
	}
	switch {
	case !s.taskOffer.Calls:
		return direct
	case !taskform.Declared(client.Capabilities):
		return undeclaredMode(req, support, client.Version)
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

// undeclaredMode is modeOf for a client that has not declared task support.
func undeclaredMode(req *mcp.Request, support string, v mcp.Version) taskMode {
	switch {
	case support != taskRequired || v == mcp.V20251125:
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
	raw, ok := taskform.FromCreated(res.Bytes())
	if !ok {
		return res, nil // the server returned the result at once
	}
	t, err := taskform.Read(raw)
	if err != nil {
		return nil, s.Malformed(err)
	}
	l.taskSessions.put(req.Principal, &t, s)
	if mode == asTask {
		return mcp.NewResult(raw)
	}
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
// token of the call. The task has no other owner and is cancelled with the call.
func (s *clientSession) awaitTask(ctx context.Context, req *mcp.Request, t *taskform.Task, token mcp.ID, caller mcp.Caller) (*mcp.Result, error) {
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	// Ends with tasks/result; waited for here.
	watch.Go(func() { s.pollTask(watching, req, t, caller) })
	res, err := s.taskResult(ctx, call.AboutTask(req, call.MethodTaskResult, t.ID), t.ID, token, caller)
	if err != nil && ctx.Err() != nil {
		s.cancelTask(t.ID)
	}
	if err != nil {
		return nil, err
	}
	return withoutRelated(res)
}

// pollTask polls a task while a caller waits for its result. Each answer resets the
// caller's idle timeout.
func (s *clientSession) pollTask(ctx context.Context, req *mcp.Request, t *taskform.Task, caller mcp.Caller) {
	for backoff.Sleep(ctx, max(taskform.Interval(t.Poll), time.Second)) {
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
	defer func() { s.taskWaits.end(own) }()
	return s.callWithID(ctx, req, caller, func(call mcp.ID) {
		own = call
		s.taskWaits.begin(call, id, token)
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
		l.taskSessions.resultFetched(req.Principal, id, err)
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

// getTask returns the state of a task in the form of the extension. For a legacy
// client, which fetches the result itself, this is a mere conversion.
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
		case taskform.Completed, taskform.Failed:
			return l.endedTask(ctx, s, req, id, res)
		case taskform.Cancelled:
			l.openResults.cancel(req.Principal, id)
			return l.convertTask(s, req, res, status, "", nil)
		default:
			questions, over, err := l.pendingInputs(ctx, s, req, id, status)
			if err != nil {
				return nil, err
			}
			if over && n == 0 {
				continue // with the new state
			}
			return l.runningTask(s, req, res, questions)
		}
	}
}

func statusOf(res *mcp.Result) taskform.Status { return taskform.StatusOf(res.Bytes()) }

// convertTask converts a legacy server's description of a task to that of the
// extension, and records the session of the task.
func (l *Protocol) convertTask(s *clientSession, req *mcp.Request, res *mcp.Result, status taskform.Status, detail string, value []byte) (*mcp.Result, error) {
	raw, err := taskform.FromTask(res.Bytes(), status, detail, value)
	if err != nil {
		return nil, s.Malformed(err)
	}
	t, err := taskform.Read(raw)
	if err != nil {
		return nil, s.Malformed(err)
	}
	l.taskSessions.put(req.Principal, &t, s)
	return mcp.NewResult(raw)
}

// endedTask returns a task that has ended, with its result or error, which it fetches
// from the server.
func (l *Protocol) endedTask(ctx context.Context, s *clientSession, req *mcp.Request, id string, res *mcp.Result) (*mcp.Result, error) {
	l.openResults.cancel(req.Principal, id)
	status := statusOf(res)
	end, err := s.call(ctx, call.AboutTask(req, call.MethodTaskResult, id), call.NoCaller{})
	said, isError := err.(*mcp.Error) //nolint:errorlint // the server's own error only
	switch {
	case err == nil:
		if end, err = withoutRelated(end); err != nil {
			return nil, s.Malformed(err)
		}
		answer, err := l.convertTask(s, req, res, taskform.Completed, "result", end.Bytes())
		l.taskSessions.resultFetched(req.Principal, id, err)
		return answer, err
	case isError && status == taskform.Failed:
		answer, err := l.convertTask(s, req, res, taskform.Failed, "error", taskform.ErrorJSON(said))
		l.taskSessions.resultFetched(req.Principal, id, err)
		return answer, err
	default:
		return nil, err
	}
}

// runningTask returns a task that has not ended, with its input requests. A task with
// the status input_required that has not sent any yet is reported as working.
func (l *Protocol) runningTask(s *clientSession, req *mcp.Request, res *mcp.Result, questions []byte) (*mcp.Result, error) {
	if questions == nil {
		return l.convertTask(s, req, res, taskform.Working, "", nil)
	}
	return l.convertTask(s, req, res, taskform.InputRequired, "inputRequests", questions)
}

// cancelTask serves tasks/cancel. For a client of the extension the request is
// acknowledged (tasks, "Task Cancellation") even if the server cannot cancel, and is not
// asked to, or if the task has ended, which a legacy server refuses to cancel.
func (l *Protocol) cancelTask(ctx context.Context, s *clientSession, req *mcp.Request, id string, caller mcp.Caller) (*mcp.Result, error) {
	if !s.taskOffer.Cancel && !isLegacyClient(req.Client) {
		l.openResults.cancel(req.Principal, id)
		return call.EmptyResult()
	}
	res, err := s.call(ctx, req, caller)
	if err != nil && (isLegacyClient(req.Client) || !call.Answered(err) || !s.taskHasEnded(ctx, req)) {
		return nil, err
	}
	l.openResults.cancel(req.Principal, id)
	if !isLegacyClient(req.Client) {
		return call.EmptyResult()
	}
	return l.convertTask(s, req, res, statusOf(res), "", nil)
}

// taskHasEnded reports whether the server returns a terminal state for the task of a
// request.
func (s *clientSession) taskHasEnded(ctx context.Context, req *mcp.Request) bool {
	get := *req
	get.Method = call.MethodTaskGet
	res, err := s.call(ctx, &get, call.NoCaller{})
	return err == nil && statusOf(res).IsTerminal()
}

// declaredCapabilities returns the server's capabilities in modern form: tools that can
// be called as tasks are declared as the extension.
func (s *clientSession) declaredCapabilities() []byte {
	if !s.taskOffer.Calls {
		return s.capabilities
	}
	return taskform.Declare(s.capabilities)
}
