// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/internal/seal"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// foreignTask is the event of a request about a task by an id that is not its
// caller's: another's, one that was changed, or one that was sealed by other keys.
const foreignTask server.EventKind = "foreign_task"

// taskPurpose is what ids of tasks are sealed for.
const taskPurpose = "task id"

// maxTaskID bounds what a backend calls a task. Ids travel in headers, and ours are
// longer than its.
const maxTaskID = 1024

// taskNames gives tasks their names outside: what its backend calls a task, and
// which backend that is, sealed for the principal whose task it is. So an id leads to
// its backend without a table, in each process that has the same keys, and is
// nobody else's.
type taskIDs struct{ box *seal.Box }

// newTaskNames returns the names of the keys that a configuration has.
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

// outside returns the name of a backend's task. A task has one name, because clients
// compare them.
func (n *taskIDs) encode(backend, own, principal string) string {
	plain := binary.AppendUvarint(nil, uint64(len(backend)))
	plain = append(append(plain, backend...), own...)
	return n.box.SealStable(taskPurpose, plain, principal)
}

// inside returns whose task a name is, for the principal who says it.
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

// errUnknownTask is the answer for every id that is not the caller's, for whatever
// reason.
func errUnknownTask() error { return mcp.Errorf(mcp.CodeInvalidParams, "unknown task") }

// task serves what is about one task, at the backend that has it.
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

// noteTask has a task that was begun be listed to whoever began it.
func (g *Gateway) noteTask(req *mcp.Request, res *mcp.Result) {
	if res == nil || res.Type() != mcp.ResultTask {
		return
	}
	if t, err := tasks.Read(res.Bytes()); err == nil {
		g.taskRegistry.add(req, &t)
	}
}

// aliases are names of tasks outside, by which their client has just called them: it
// is answered with these, whatever the keys are now.
type aliases map[string]string

// Serve sends one request to the backend. It is Backend.Serve, between the names
// that tasks have outside and those of the backend: in results, in what belongs to
// the request, and in what belongs to the client's session (2025-11-25,
// basic/utilities/tasks, "Associating Task-Related Messages").
func (b *activeBackend) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	return b.serveParams(ctx, req, &req.Params, caller, nil)
}

// Listen is Backend.Listen, likewise.
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

// serveNamed is Serve with other parameters than those of the request, which belongs
// to who has sent it.
func (b *activeBackend) serveParams(ctx context.Context, req *mcp.Request, params *mcp.Object, caller mcp.Caller, known aliases) (*mcp.Result, error) {
	e, err := b.newRequest(req, params, caller, known)
	if err != nil {
		return nil, err
	}
	return b.serve(ctx, e)
}

func (b *activeBackend) serve(ctx context.Context, e *backendRequest) (*mcp.Result, error) {
	res, err := b.Backend.Serve(ctx, &e.req, &e.taskIDCaller)
	if err != nil || res == nil {
		return res, err
	}
	return e.encodeResult(e.req.Method, res)
}

// isAboutTask reports whether a method is about one task.
func isAboutTask(method string) bool { return strings.HasPrefix(method, "tasks/") }
