// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/seal"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// foreignTask is the event of a request with a task id that is not valid for its
// caller: of another principal, modified, or sealed with other keys.
const foreignTask server.EventKind = "foreign_task"

// taskPurpose is the purpose that task ids are sealed for.
const taskPurpose = "task id"

// maxTaskID bounds a backend's task ids. Ids travel in headers, and ours are longer
// than the backend's.
const maxTaskID = 1024

// taskIDs makes the task ids that clients see: the backend's own id and the name of the
// backend, sealed for the principal that owns the task. Such an id leads to its backend
// without a table, in each process that has the same keys, and is valid for no other
// principal.
type taskIDs struct{ box *seal.Box }

// newTaskIDs returns a taskIDs with the keys of a configuration.
func newTaskIDs(cfg *config.Config) (*taskIDs, error) {
	keys := make([][]byte, 0, len(cfg.State.Keys))
	for _, key := range cfg.State.Keys {
		keys = append(keys, []byte(key.Reveal()))
	}
	box, err := seal.New(keys...)
	if err != nil {
		return nil, err
	}
	return &taskIDs{box: box}, nil
}

// encode returns the client's id of a backend's task. A task always has the same id,
// because clients compare ids.
func (n *taskIDs) encode(backend, own, principal string) string {
	plain := binary.AppendUvarint(nil, uint64(len(backend)))
	plain = append(append(plain, backend...), own...)
	return n.box.SealStable(taskPurpose, plain, principal)
}

// decode returns the backend and its own id of a task, for the principal that sends
// name.
func (n *taskIDs) decode(name, principal string) (backend, own string, ok bool) {
	plain, err := n.box.Open(taskPurpose, name, principal)
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

// errUnknownTask is the answer for every id that is not valid for the caller, whatever
// the reason.
func errUnknownTask() error { return mcp.Errorf(mcp.CodeInvalidParams, "unknown task") }

// task serves a request about one task at the backend of that task.
func (g *Gateway) task(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	name, err := textOf(req, mcp.FieldTaskID)
	if err != nil {
		return nil, err
	}
	backend, own, ok := g.taskIDs.decode(name, req.Principal)
	if !ok {
		g.noteForeignTask(ctx, req)
		return nil, errUnknownTask()
	}
	b, ok := g.view.Load().backend(backend)
	if !ok {
		return nil, errUnknownTask()
	}
	var e mcp.Edit
	e.SetText(mcp.FieldTaskID, own)
	params, err := e.Apply(&req.Params)
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	return b.serveParams(ctx, req, &params, caller, aliases{own: name})
}

func (g *Gateway) noteForeignTask(ctx context.Context, req *mcp.Request) {
	e := server.Event{Kind: foreignTask, Principal: req.Principal, Detail: req.Method}
	if req.Scope != nil {
		e.Session = req.Scope.Key()
	}
	g.metrics.Event(ctx, string(e.Kind))
	g.audit.Record(ctx, entryOf(&e))
}

// noteTask records a task that a call started, so that it is listed to its owner.
func (g *Gateway) noteTask(req *mcp.Request, res *mcp.Result) {
	if res == nil || res.Type() != mcp.ResultTask {
		return
	}
	if t, err := tasks.Read(res.Bytes()); err == nil {
		g.taskRegistry.add(req, &t)
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

// Listen is Backend.Listen with translated task ids.
func (b *activeBackend) Listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	return b.listenWithAliases(ctx, req, caller, nil)
}

func (b *activeBackend) listenWithAliases(ctx context.Context, req *mcp.Request, caller mcp.Caller, known aliases) (*mcp.Result, error) {
	e, err := b.newRequest(req, &req.Params, caller, known)
	if err != nil {
		return nil, err
	}
	return b.Backend.Listen(ctx, &e.req, &e.taskIDCaller)
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

// encode returns the answer of the backend for the client.
func (e *backendRequest) encode(res *mcp.Result, err error) (*mcp.Result, error) {
	if err != nil || res == nil {
		return res, err
	}
	return e.encodeResult(e.req.Method, res)
}

// isAboutTask reports whether a method is about one task.
func isAboutTask(method string) bool { return strings.HasPrefix(method, "tasks/") }
