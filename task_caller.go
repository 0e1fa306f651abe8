// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// naming is the Caller of a request at one backend, for whom tasks have the
// backend's own names. All bytes but those of the names pass as they are.
type taskIDCaller struct {
	mcp.Caller
	backend   *activeBackend
	principal string
	aliases   aliases
}

// outside returns the name outside of a task of the backend.
func (c *taskIDCaller) encode(own string) string {
	if name, ok := c.aliases[own]; ok {
		return name
	}
	return c.backend.taskIDs.encode(c.backend.Name(), own, c.principal)
}

// inside returns the backend's own name of a task of the caller's.
func (c *taskIDCaller) decode(name string) (own string, ok bool) {
	of, own, ok := c.backend.taskIDs.decode(name, c.principal)
	return own, ok && of == c.backend.Name()
}

// errand is a request as one backend gets it, and its Caller there.
type backendRequest struct {
	taskIDCaller

	req mcp.Request
}

// errand returns a request with these parameters as the backend gets it: in a scope of
// its own, and with its own name of the task that the request is marked with. A mark
// that means nothing to it is left out.
func (b *activeBackend) newRequest(req *mcp.Request, params *mcp.Object, caller mcp.Caller, known aliases) (*backendRequest, error) {
	r := new(backendRequest)
	r.taskIDCaller = taskIDCaller{Caller: caller, backend: b, principal: req.Principal, aliases: known}
	r.req = *req
	r.req.Params = *params
	r.req.Scope = b.scopeOf(req.Scope, req.Principal)
	if !params.Has(mcp.MetaRelatedTask) {
		return r, nil
	}
	return r, r.decodeRelated()
}

// unmark is apart because it needs room on the stack that nearly no request does.
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
	return append(mcp.AppendString([]byte(`{"taskId":`), id), '}')
}

// result returns a result with the names outside. Nearly every result has none, and is
// the one that came.
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

// marked puts the names outside into an object; isTask says that the object is a
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

// Notify passes a notification on.
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

// Ask passes a question on, and the answer back.
func (c *taskIDCaller) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	wait, err := c.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return wait()
}

// Start likewise. What is about a task that the client runs has the client's own name
// of it.
func (c *taskIDCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	if isAboutTask(req.Method) {
		return mcp.Start(ctx, c.Caller, req)
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
	wait, err := mcp.Start(ctx, c.Caller, req)
	if err != nil {
		return nil, err
	}
	return func() (*mcp.Result, error) { return c.decodeAnswer(wait()) }, nil
}

// answer is the answer to a question, as the backend gets it. It may be marked with
// the task of the client's that it tells of.
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

// Pulse passes a sign of life on.
func (c *taskIDCaller) Pulse() { mcp.Pulse(c.Caller) }

// Receive passes a result on while it arrives, with the names outside. Only our own
// client is trusted to have done nothing to it since: what Handlers in this process give
// is what they return.
func (c *taskIDCaller) Receive(ctx context.Context, a *mcp.Arriving) (taken bool, err error) {
	if c.backend.client == nil || a.Head().Has(mcp.MetaRelatedTask) {
		return false, nil
	}
	a.Omit(mcp.MetaRelatedTask) // a task is had from tasks/result, whose answers are read as a whole
	return mcp.Receive(ctx, c.Caller, a)
}

// Poll has the client come back for the rest, where it can.
func (c *taskIDCaller) Poll(retry time.Duration) bool { return mcp.Poll(c.Caller, retry) }

// scopeKey is under what a client's scope keeps the one that a backend gets.
type scopeKey struct{ of *backend.Backend }

// backendScope is a client's scope as one backend gets it. It is the same for each
// request, because backends know scopes by identity.
type backendScope struct {
	scope *mcp.Scope
	tie   sync.Once
}

// scopeOf returns the scope of a client for this backend. It differs from the
// client's in who is told what belongs to no request: there too tasks have their
// names outside.
func (b *activeBackend) scopeOf(scope *mcp.Scope, principal string) *mcp.Scope {
	if scope == nil || scope.Unrelated() == nil {
		return scope
	}
	kept, ok := scope.Value(scopeKey{b.Backend}, func() any {
		unrelated := &taskIDCaller{Caller: scope.Unrelated(), backend: b, principal: principal}
		return &backendScope{scope: mcp.NewScope(scope.Key(), unrelated)}
	})
	own, isScope := kept.(*backendScope)
	if !ok || !isScope {
		return scope // it has ended, which the backend's client finds
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
