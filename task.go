// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/seal"
	"github.com/signalbox-mcp/signalbox/internal/serial"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// foreignTask is the event of a request with a task id that is not valid for its
// caller: of another principal, modified, or sealed with other keys.
const foreignTask server.EventKind = "foreign_task"

// taskPurpose is the purpose that task ids are sealed for.
const taskPurpose = "task id"

// taskStatus notifies of the state of a task of 2025-11-25, in both directions. That of
// the extension io.modelcontextprotocol/tasks is listen.MethodTask.
const taskStatus = "notifications/tasks/status"

// maxTaskID bounds a backend's task ids. Ids travel in headers, and ours are longer
// than the backend's.
const maxTaskID = 1024

// taskIDs makes the task ids that clients see: the backend's own id and the name of the
// backend, sealed for the owner of the task, a principal at a profile. Such an id leads to
// its backend without a table, in each process that has the same keys, and is valid for no
// other owner.
type taskIDs struct{ box *seal.Box }

// newTaskIDs returns a taskIDs with the keys of a configuration.
func newTaskIDs(cfg *config.Config) (*taskIDs, error) {
	box, err := seal.New(stateKeys(cfg)...)
	if err != nil {
		return nil, err
	}
	return &taskIDs{box: box}, nil
}

// encode returns the client's id of a backend's task. A task always has the same id,
// because clients compare ids.
func (n *taskIDs) encode(backend, own, owner string) string {
	plain := binary.AppendUvarint(nil, uint64(len(backend)))
	plain = append(append(plain, backend...), own...)
	return n.box.SealStable(taskPurpose, plain, owner)
}

// decode returns the backend and its own id of a task, for the owner that sends name.
func (n *taskIDs) decode(name, owner string) (backend, own string, ok bool) {
	plain, err := n.box.Open(taskPurpose, name, owner)
	if err != nil {
		return "", "", false
	}
	size, width := binary.Uvarint(plain)
	if width <= 0 || size > uint64(len(plain)-width) {
		return "", "", false
	}
	rest := string(plain[width:])
	return rest[:size], rest[size:], true
}

// errUnknownTask is the error for a task id that is not valid for the owner. The client
// cannot distinguish an id of another owner from one that never existed.
func errUnknownTask() error { return mcp.Errorf(mcp.CodeInvalidParams, "unknown task") }

// task serves a request about one task at the backend of that task.
func (g *Gateway) task(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	name, err := textOf(req, mcp.FieldTaskID)
	if err != nil {
		return nil, err
	}
	b, own, ok := g.findTask(ctx, req, name)
	if !ok {
		return nil, errUnknownTask()
	}
	return g.serveTask(ctx, req, caller, b, own, name)
}

// findTask returns the backend of a task and its own id of the task, unless the sender of a request
// has no such task, or may not use it now.
func (g *Gateway) findTask(ctx context.Context, req *mcp.Request, name string) (b *activeBackend, own string, ok bool) {
	backend, own, ok := g.taskIDs.decode(name, req.Owner())
	if !ok {
		g.noteForeignTask(ctx, req)
		return nil, "", false
	}
	b, ok = g.view.Load().at(req.Profile).backend(backend)
	return b, own, ok && g.admitsTask(req, backend, name)
}

// serveTask serves a request about a task that findTask has found.
func (g *Gateway) serveTask(ctx context.Context, req *mcp.Request, caller mcp.Caller, b *activeBackend, own, name string) (*mcp.Result, error) {
	var e mcp.Edit
	e.SetText(mcp.FieldTaskID, own)
	params, err := e.Apply(&req.Params)
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	known := aliases{own: name}
	cut := g.taskCut(req, b, name) // before the filter, which is then at least as new
	filter := g.taskFilter(req, b, name)
	if cut != nil {
		caller = readWhole(caller, cut.notice)
	}
	if filter != nil {
		caller = readWhole(caller, filter.notice)
	}
	res, err := b.serveParams(ctx, req, &params, caller, known)
	if err == nil && filter != nil {
		_, res, err = g.filterResult(filter, req.Method, verdict{}, res)
	}
	if err == nil && cut != nil {
		return cut.apply(res)
	}
	return res, err
}

func (g *Gateway) noteForeignTask(ctx context.Context, req *mcp.Request) {
	g.noteEvent(ctx, server.Event{Kind: foreignTask, Principal: req.Principal, Session: sessionOf(req), Detail: req.Method})
}

// noteTask records a task that a call started, so that it is listed to its owner.
func (g *Gateway) noteTask(req *mcp.Request, tool *catalog.Entry, res *mcp.Result) {
	if res == nil || res.Type() != mcp.ResultTask {
		return
	}
	if t, err := task.Read(res.Bytes()); err == nil {
		g.taskRegistry.add(req, tool, &t)
	}
}

// aliases map a backend's task ids to the ids that the client has just sent. The answer
// uses these, even if the keys have changed since.
type aliases map[string]string

// Serve sends one request to the backend. It is Backend.Serve with translated task ids:
// in results, in the messages of the request, and in those of the client's session
// (2025-11-25, basic/utilities/tasks, "Associating Task-Related Messages").
func (b *activeBackend) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	return b.serveParams(ctx, req, &req.Params, caller, nil)
}

// listen is Backend.Listen with translated task ids.
func (b *activeBackend) listen(ctx context.Context, req *mcp.Request, caller mcp.Caller, known aliases) (*mcp.Result, error) {
	e, err := b.newRequest(req, &req.Params, caller, known)
	if err != nil {
		return nil, err
	}
	return b.Listen(ctx, &e.req, &e.taskIDCaller)
}

// serveParams is Serve with other parameters than those of the request, which belongs
// to its sender.
func (b *activeBackend) serveParams(ctx context.Context, req *mcp.Request, params *mcp.Object, caller mcp.Caller, known aliases) (*mcp.Result, error) {
	e, err := b.newRequest(req, params, caller, known)
	if err != nil {
		return nil, err
	}
	return e.encode(b.Backend.Serve(ctx, &e.req, &e.taskIDCaller))
}

// encode returns the answer of the backend with the client's task ids and URIs. Nearly every
// result has none, and is returned unmodified.
func (r *backendRequest) encode(res *mcp.Result, err error) (*mcp.Result, error) {
	if err != nil || res == nil {
		return res, err
	}
	if res, err = outerResult(r.label(), r.req.Method, res); err != nil {
		return nil, err
	}
	isTask := isAboutTask(r.req.Method) || res.Type() == mcp.ResultTask
	if isTask {
		r.backend.tasks.note(res.Bytes(), time.Now())
	}
	if !isTask && !res.Has(mcp.MetaRelatedTask) {
		return res, nil
	}
	obj, err := r.encodeObject(&res.Object, isTask)
	if err != nil {
		return nil, err
	}
	return &mcp.Result{Object: obj}, nil
}

// isAboutTask reports whether a method is about one task.
func isAboutTask(method string) bool { return strings.HasPrefix(method, "tasks/") }

// taskIDCaller is the Caller of a request at one backend. It translates between the
// task ids of the backend and those that clients see. All other bytes pass unmodified.
type taskIDCaller struct {
	mcp.Caller
	mcp.CallerExtension // of Caller
	backend             *activeBackend
	owner               string // of the client's tasks
	aliases             aliases
	bareURIs            bool // see label
	readsName           bool
}

// encode returns the client's id of a task of the backend.
func (c *taskIDCaller) encode(own string) string {
	if name, ok := c.aliases[own]; ok {
		return name
	}
	return c.backend.taskIDs.encode(c.backend.Name(), own, c.owner)
}

// decode returns the backend's own id of a task of the caller.
func (c *taskIDCaller) decode(name string) (own string, ok bool) {
	of, own, ok := c.backend.taskIDs.decode(name, c.owner)
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
	r.taskIDCaller = taskIDCaller{Caller: caller, CallerExtension: caller.Extension(), backend: b, owner: req.Owner(), aliases: known}
	r.req = *req
	r.req.Params = *params
	r.req.Profile = "" // the backend may be a gateway with profiles of its own
	r.req.Scope = b.scopeOf(req.Scope, req.Owner())
	r.readsName = b.readsName(&r.req)
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
	if own, ok := c.decode(task.RelatedID(o.Raw(mcp.MetaRelatedTask))); ok {
		e.Set(mcp.MetaRelatedTask, relatedTask(own))
	} else {
		e.Delete(mcp.MetaRelatedTask)
	}
	return e.Apply(o)
}

func relatedTask(id string) []byte {
	return append(jsonscan.AppendString([]byte(`{"taskId":`), id), '}')
}

// encodeObject replaces the task ids in an object; isTask reports that the object is a
// task itself.
func (c *taskIDCaller) encodeObject(o *mcp.Object, isTask bool) (mcp.Object, error) {
	var e mcp.Edit
	if own, ok := o.Text(mcp.FieldTaskID); ok && isTask {
		if len(own) > maxTaskID {
			return mcp.Object{}, &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Completed, Backend: c.backend.Name(), Message: "its task id is too long"}
		}
		e.SetText(mcp.FieldTaskID, c.encode(own))
	}
	if o.Has(mcp.MetaRelatedTask) {
		if own := task.RelatedID(o.Raw(mcp.MetaRelatedTask)); len(own) <= maxTaskID {
			e.Set(mcp.MetaRelatedTask, relatedTask(c.encode(own)))
		}
	}
	return e.Apply(o)
}

// Notify forwards a notification with the client's task ids.
func (c *taskIDCaller) Notify(ctx context.Context, msg *mcp.Notification) error {
	isTask := msg.Method == listen.MethodTask || msg.Method == taskStatus
	if !isTask && !msg.Params.Has(mcp.MetaRelatedTask) {
		return c.Caller.Notify(ctx, msg)
	}
	params, err := c.encodeObject(&msg.Params, isTask)
	if err != nil {
		return err
	}
	if label := c.label(); label != "" && msg.Method == listen.MethodTask {
		if params, err = params.WithBytes(extension.OuterTask(label, params.Bytes())); err != nil {
			return err
		}
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
	if id := task.CreatedID(res.Bytes()); id != "" && id == task.RelatedID(res.Raw(mcp.MetaRelatedTask)) {
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
	if c.backend.client == nil || c.readsName && c.label() != "" || res.Has(mcp.MetaRelatedTask) {
		return false, nil
	}
	res.Omit(taskMembers...) // a task is returned by tasks/result, which is read as a whole
	return c.CallerExtension.Receive(ctx, res)
}

// taskMembers are omitted from a result that streams. A call of an interface would allocate
// the slice each time.
//
//nolint:gochecknoglobals // constant
var taskMembers = []mcp.Field{mcp.MetaRelatedTask}

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
func (b *activeBackend) scopeOf(scope *mcp.Scope, owner string) *mcp.Scope {
	if scope == nil || scope.Unrelated() == nil {
		return scope
	}
	kept, ok := scope.Value(scopeKey{b.Backend}, func() any {
		client := scope.Unrelated()
		unrelated := &taskIDCaller{Caller: client, CallerExtension: client.Extension(), backend: b, owner: owner}
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
		end := func() {
			if scope.IsAbandoned() {
				own.scope.Abandon()
			}
			own.scope.End()
		}
		if !scope.OnEnd(end) {
			end()
		}
	})
	return own.scope
}

// forwardTaskStatus forwards the state of a task that a client of 2025-11-25 runs for a
// backend (basic/utilities/tasks, "Task Status Notification"). It is sent to all backends
// of the profile, because only the one that created the task recognizes it: to each in the
// background, so that a slow one does not delay the others, and one after the other, so
// that their order is kept.
func (g *Gateway) forwardTaskStatus(req *mcp.Request) (*mcp.Result, error) {
	if req.Scope != nil {
		for _, b := range g.view.Load().at(req.Profile).backends {
			g.notifyInOrder(b, req, true) // the newest state replaces older ones
		}
	}
	return mcp.NewResult([]byte("{}"))
}

// maxQueued bounds the notifications of a session that wait for one backend.
const maxQueued = 64

// queueKey is the key, in the client's scope, of a queue of its notifications for a backend.
type queueKey struct {
	of         *backend.Backend
	dropOldest bool // if it is full, and not the newest
}

// notifyInOrder notifies a backend in the background, after it was notified of what the session has
// sent before. If one was dropped, it returns how many have been.
func (g *Gateway) notifyInOrder(b *activeBackend, req *mcp.Request, dropOldest bool) (dropped uint64) {
	kept, _ := req.Scope.Value(queueKey{b.Backend, dropOldest}, func() any {
		return &serial.Queue[*mcp.Request]{Max: maxQueued, DropOldest: dropOldest}
	})
	queue, ok := kept.(*serial.Queue[*mcp.Request])
	if !ok {
		return 0 // the session has ended
	}
	return queue.Put(req, func(next func(context.Context) (*mcp.Request, bool)) bool {
		// Ends when the queue is empty, or with the Gateway, which waits for it in stop.
		return g.begin(func() {
			for req, ok := next(g.ctx); ok; req, ok = next(g.ctx) {
				g.notifyBackend(b, req)
			}
		})
	})
}
