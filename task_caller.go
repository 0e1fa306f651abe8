// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// taskIDCaller is the Caller of a request at one backend. It translates between the
// task ids of the backend and those that clients see. All other bytes pass unmodified.
type taskIDCaller struct {
	mcp.Caller
	mcp.CallerExtension // of Caller
	backend             *activeBackend
	principal           string
	aliases             aliases
}

// encode returns the client's id of a task of the backend.
func (c *taskIDCaller) encode(own string) string {
	if name, ok := c.aliases[own]; ok {
		return name
	}
	return c.backend.taskIDs.encode(c.backend.Name(), own, c.principal)
}

// decode returns the backend's own id of a task of the caller.
func (c *taskIDCaller) decode(name string) (own string, ok bool) {
	of, own, ok := c.backend.taskIDs.decode(name, c.principal)
	return own, ok && of == c.backend.Name()
}

// backendRequest is a request as one backend receives it, and its Caller there.
type backendRequest struct {
	taskIDCaller

	req mcp.Request
}

// newRequest returns a request with these parameters as the backend receives it: in a
// scope of its own, and with the backend's id of the related task. It removes a related
// task that is not one of this backend.
func (b *activeBackend) newRequest(req *mcp.Request, params *mcp.Object, caller mcp.Caller, known aliases) (*backendRequest, error) {
	r := new(backendRequest)
	r.taskIDCaller = taskIDCaller{Caller: caller, CallerExtension: caller.Extension(), backend: b, principal: req.Principal, aliases: known}
	r.req = *req
	r.req.Params = *params
	r.req.Scope = b.scopeOf(req.Scope, req.Principal)
	if !params.Has(mcp.MetaRelatedTask) {
		return r, nil
	}
	return r, r.decodeRelated()
}

// decodeRelated is a separate function because it needs stack space that nearly no
// request uses.
//
//go:noinline
func (r *backendRequest) decodeRelated() (err error) {
	r.req.Params, err = r.decodeObject(&r.req.Params)
	return err
}

func (c *taskIDCaller) decodeObject(o *mcp.Object) (mcp.Object, error) {
	var e mcp.Edit
	if own, ok := c.decode(tasks.RelatedID(o.Raw(mcp.MetaRelatedTask))); ok {
		e.Set(mcp.MetaRelatedTask, relatedTask(own))
	} else {
		e.Delete(mcp.MetaRelatedTask)
	}
	return e.Apply(o)
}

func relatedTask(id string) []byte {
	return append(jsonscan.AppendString([]byte(`{"taskId":`), id), '}')
}

// encodeResult returns a result with the client's task ids. Nearly every result has
// none, and is returned unmodified.
func (c *taskIDCaller) encodeResult(method string, res *mcp.Result) (*mcp.Result, error) {
	isTask := isAboutTask(method) || res.Type() == mcp.ResultTask
	if !isTask && !res.Has(mcp.MetaRelatedTask) {
		return res, nil
	}
	return c.encodeMarkedResult(res, isTask)
}

func (c *taskIDCaller) encodeMarkedResult(res *mcp.Result, isTask bool) (*mcp.Result, error) {
	obj, err := c.encodeObject(&res.Object, isTask)
	if err != nil {
		return nil, err
	}
	return &mcp.Result{Object: obj}, nil
}

// encodeObject replaces the task ids in an object; isTask reports that the object is a
// task itself.
func (c *taskIDCaller) encodeObject(o *mcp.Object, isTask bool) (mcp.Object, error) {
	var e mcp.Edit
	if own, ok := o.Text(mcp.FieldTaskID); ok && isTask {
		if len(own) > maxTaskID {
			return mcp.Object{}, c.backend.errTaskIDTooLong()
		}
		e.SetText(mcp.FieldTaskID, c.encode(own))
	}
	if o.Has(mcp.MetaRelatedTask) {
		if own := tasks.RelatedID(o.Raw(mcp.MetaRelatedTask)); len(own) <= maxTaskID {
			e.Set(mcp.MetaRelatedTask, relatedTask(c.encode(own)))
		}
	}
	return e.Apply(o)
}

func (b *activeBackend) errTaskIDTooLong() error {
	return &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Completed, Backend: b.Name(), Message: "its task id is too long"}
}

// Notify forwards a notification with the client's task ids.
func (c *taskIDCaller) Notify(ctx context.Context, msg *mcp.Notification) error {
	isTask := msg.Method == taskNotice || msg.Method == taskStatus
	if !isTask && !msg.Params.Has(mcp.MetaRelatedTask) {
		return c.Caller.Notify(ctx, msg)
	}
	params, err := c.encodeObject(&msg.Params, isTask)
	if err != nil {
		return err
	}
	return c.Caller.Notify(ctx, &mcp.Notification{Method: msg.Method, Params: params})
}

// Start forwards a request of the backend. Requests about a task that the client runs
// have the client's own id.
func (c *taskIDCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	if isAboutTask(req.Method) {
		return c.Caller.Start(ctx, req)
	}
	if req.Params.Has(mcp.MetaRelatedTask) {
		own := *req
		params, err := c.encodeObject(&req.Params, false)
		if err != nil {
			return nil, err
		}
		own.Params = params
		req = &own
	}
	wait, err := c.Caller.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return func() (*mcp.Result, error) { return c.decodeAnswer(wait()) }, nil
}

// decodeAnswer returns the response to a backend's request, as the backend receives it.
// It may be related to the client's own task that it creates; that id is not decoded.
func (c *taskIDCaller) decodeAnswer(res *mcp.Result, err error) (*mcp.Result, error) {
	if err != nil || res == nil || !res.Has(mcp.MetaRelatedTask) {
		return res, err
	}
	if id := tasks.CreatedID(res.Bytes()); id != "" && id == tasks.RelatedID(res.Raw(mcp.MetaRelatedTask)) {
		return res, nil
	}
	obj, err := c.decodeObject(&res.Object)
	if err != nil {
		return nil, err
	}
	return &mcp.Result{Object: obj}, nil
}

// Extension returns the caller itself, which changes Receive.
func (c *taskIDCaller) Extension() mcp.CallerExtension { return c }

// Receive passes a result on while it arrives, with the client's task ids. It does so
// only for results of our own client, which forwards them unchanged: Handlers in this
// process return their results.
func (c *taskIDCaller) Receive(ctx context.Context, res mcp.StreamedResult) (taken bool, err error) {
	if c.backend.client == nil || res.Has(mcp.MetaRelatedTask) {
		return false, nil
	}
	res.Omit(mcp.MetaRelatedTask) // a task is returned by tasks/result, which is read as a whole
	return c.CallerExtension.Receive(ctx, res)
}

// scopeKey is the key of a backend's scope in the client's scope.
type scopeKey struct{ of *backend.Backend }

// backendScope is a client's scope as one backend receives it. It is the same for each
// request, because backends identify scopes by identity.
type backendScope struct {
	scope *mcp.Scope
	tie   sync.Once
}

// scopeOf returns the scope of a client for this backend. Unlike the client's, its
// unrelated Caller translates task ids.
func (b *activeBackend) scopeOf(scope *mcp.Scope, principal string) *mcp.Scope {
	if scope == nil || scope.Unrelated() == nil {
		return scope
	}
	kept, ok := scope.Value(scopeKey{b.Backend}, func() any {
		client := scope.Unrelated()
		unrelated := &taskIDCaller{Caller: client, CallerExtension: client.Extension(), backend: b, principal: principal}
		return &backendScope{scope: mcp.NewScope(scope.Key(), unrelated)}
	})
	own, isScope := kept.(*backendScope)
	if !ok || !isScope {
		return scope // it has ended, which the backend's client detects
	}
	own.tie.Do(func() {
		if o := sessionLists(scope); o != nil {
			own.scope.Value(sessionListsKey{}, func() any { return o })
		}
		own.scope.OnYield(scope.Yield)
		if !scope.OnEnd(own.scope.End) {
			own.scope.End()
		}
	})
	return own.scope
}
