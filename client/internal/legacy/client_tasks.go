// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/serial"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The bounds of what is stored of the tasks that a client runs for one server. The
// oldest task is dropped first, and is unknown from then on.
const (
	maxClientTasks  = 256
	maxClientTaskID = 1024 // bytes
	maxEarlyStates  = 16   // states of tasks that the server does not know yet
)

// clientTasks are the tasks that a client of 2025-11-25 runs for the server of one
// session: requests of the server that ask for a task (basic/utilities/tasks,
// "Task-Augmented Sampling Request"). The client may run tasks for other servers as
// well, so a server has access only to those that it began in this session. The zero
// value has none.
type clientTasks struct {
	offer task.ClientOffer // sent to the server; does not change afterwards

	mu      sync.Mutex
	tasks   []clientTask                    // oldest first
	pending int                             // requests that may become a task and are not answered yet
	early   []*mcp.Notification             // states of tasks that may be named by a pending answer
	out     serial.Queue[*mcp.Notification] // to the server
}

// clientTask is one of them.
type clientTask struct {
	id    string
	known bool // the server has the answer that names it
}

// isEmpty reports whether the client runs no task for the server.
func (c *clientTasks) isEmpty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tasks) == 0 && c.pending == 0
}

// capabilitiesOf returns the client capabilities that are sent to the server. They
// include the client's tasks only if the session belongs to that client alone: in any
// other session a later request on a task would have no client to ask.
func (s *clientSession) capabilitiesOf(client *mcp.Peer, v mcp.Version) []byte {
	caps := call.CapabilitiesOf(client, v)
	if s.routing.scope == nil || client == nil || client.Version.Era() != mcp.EraLegacy {
		return task.WithoutOwn(caps)
	}
	return caps
}

// isOwnClient reports whether a request is from the client that owns the session.
// Requests on a task go to the session in which the task began, whatever client sends
// them.
func (s *clientSession) isOwnClient(req *mcp.Request) bool {
	return s.routing.scope != nil && s.routing.scope == req.Scope
}

// isClientTaskRequest reports whether the server's request is about a task of its
// client.
func isClientTaskRequest(m *mcp.Message) bool { return strings.HasPrefix(m.Method, call.MethodTasks) }

// mayBecomeClientTask reports whether the client may answer with a task.
func mayBecomeClientTask(m *mcp.Message) bool {
	return !isClientTaskRequest(m) && m.Params.Has(mcp.FieldTask)
}

// admit returns the request to forward, or an error if it must be refused. If the
// client did not declare such tasks, params.task is removed, because the client would
// ignore it ("Task Support and Handling").
func (c *clientTasks) admit(m *mcp.Message, toOwner bool) (*mcp.Message, *mcp.Error) {
	switch {
	case isClientTaskRequest(m):
		return m, c.check(m)
	case !mayBecomeClientTask(m), toOwner && c.offer.Runs(m.Method):
		return m, nil
	}
	var e mcp.Edit
	e.Delete(mcp.FieldTask)
	params, err := e.Apply(&m.Params)
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	own := *m
	own.Params = params
	return &own, nil
}

// check refuses requests on tasks that the server has not begun.
func (c *clientTasks) check(m *mcp.Message) *mcp.Error {
	if !c.offer.Serves(m.Method) {
		return mcp.Errorf(mcp.CodeMethodNotFound, "the client did not declare %.60q", m.Method)
	}
	if m.Method == call.MethodTaskList {
		return nil
	}
	id, ok := m.Params.Text(mcp.FieldTaskID)
	if !ok || !c.has(id) {
		return mcp.Errorf(mcp.CodeInvalidParams, "unknown task")
	}
	return nil
}

func (c *clientTasks) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.indexLocked(id) >= 0
}

func (c *clientTasks) indexLocked(id string) int {
	return slices.IndexFunc(c.tasks, func(t clientTask) bool { return t.id == id })
}

// begin counts a request that is being forwarded. settleClientTask must follow.
func (c *clientTasks) begin(m *mcp.Message) {
	if !mayBecomeClientTask(m) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending++
}

// readAnswer returns the answer for the server and registers the task that it names. It
// does so before the answer is sent, because the server may send a request on the task
// at once.
func (c *clientTasks) readAnswer(m *mcp.Message, res *mcp.Result) (*mcp.Result, error) {
	switch {
	case mayBecomeClientTask(m):
		id := task.CreatedID(res.Bytes())
		if len(id) > maxClientTaskID {
			return nil, mcp.Errorf(mcp.CodeInternalError, "the id of the client's task is too long")
		}
		c.add(id)
	case m.Method == call.MethodTaskList:
		raw, err := task.Keep(res.Bytes(), c.has)
		if err != nil {
			return nil, mcp.Errorf(mcp.CodeInternalError, "the client's task list is invalid")
		}
		return mcp.NewResult(raw)
	}
	return res, nil
}

func (c *clientTasks) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == "" || c.indexLocked(id) >= 0 {
		return
	}
	c.tasks = append(c.tasks, clientTask{id: id})
	c.tasks = c.tasks[max(0, len(c.tasks)-maxClientTasks):]
}

// settleClientTask records that the answer to a request has been sent; res is nil if
// the request got no answer. It sends the task states that have waited for the answer.
func (s *clientSession) settleClientTask(m *mcp.Message, res *mcp.Result) {
	if !mayBecomeClientTask(m) {
		return
	}
	id := ""
	if res != nil {
		id = task.CreatedID(res.Bytes())
	}
	c := &s.clientTasks
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending--
	if i := c.indexLocked(id); i >= 0 {
		c.tasks[i].known = true
	}
	early := c.early
	c.early = nil
	for _, n := range early {
		s.sendTaskStateLocked(n)
	}
}

// sendTaskState sends the server the state of a task that its client runs for it: in
// the client's order, and not before the answer that names the task. It drops the state
// of any other task.
func (s *clientSession) sendTaskState(n *mcp.Notification) {
	s.clientTasks.mu.Lock()
	defer s.clientTasks.mu.Unlock()
	s.sendTaskStateLocked(n)
}

func (s *clientSession) sendTaskStateLocked(n *mcp.Notification) {
	c := &s.clientTasks
	id, _ := n.Params.Text(mcp.FieldTaskID)
	switch i := c.indexLocked(id); {
	case i >= 0 && c.tasks[i].known:
		s.notifyLater(&c.out, n, func(ctx context.Context, n *mcp.Notification) error {
			s.sendWithRetry(ctx, n.AppendTo(nil, nil))
			return nil
		})
	case c.pending > 0 && len(c.early) < maxEarlyStates:
		c.early = append(c.early, n)
	}
}
