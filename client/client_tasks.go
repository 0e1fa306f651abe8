// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"slices"
	"strings"
	"sync"

	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The bounds of what is remembered of the tasks that a client runs for one server. The
// oldest goes first, and is unknown then.
const (
	maxTheirs   = 256
	maxTheirID  = 1024 // bytes
	maxTooEarly = 16   // states of tasks that the server has not heard of
)

// clientTasks are the tasks that a client of 2025-11-25 runs for the server of one
// session: questions which that has asked as tasks (basic/utilities/tasks,
// "Task-Augmented Sampling Request"). The client may run others for other servers, so
// that a server reaches those alone that it has begun here. The zero value has none.
type clientTasks struct {
	offer taskform.ClientOffer // that the server was told of; does not change afterwards

	mu     sync.Mutex
	begun  []clientTask        // oldest first
	asking int                 // questions that may become a task and are not answered yet
	early  []*mcp.Notification // states of what may be the answer of one of them
	out    notificationQueue   // to the server
}

// clientTask is one of them.
type clientTask struct {
	id    string
	known bool // the server has the answer that names it
}

// capabilitiesOf returns what the server is told that its client can do. Tasks of the
// client's own are only for a session that is that client's alone: anywhere else
// nobody could be asked about one later.
func (s *legacySession) capabilitiesOf(client *mcp.Peer, v mcp.Version) []byte {
	caps := capabilitiesOf(client, v)
	if s.addr.scope == nil || client == nil || client.Version.Era() != mcp.EraLegacy {
		return taskform.WithoutOwn(caps)
	}
	return caps
}

// agree notes what the server was told of its client's tasks.
func (c *clientTasks) agree(capabilities []byte) { c.offer = taskform.ClientOfferOf(capabilities) }

// isAtHome reports whether a request is that of the client whose session it is: the
// requests about a task go to the session in which it was begun, whoever asks.
func (s *legacySession) isAtHome(req *mcp.Request) bool {
	return s.addr.scope != nil && s.addr.scope == req.Scope
}

// isAboutTheirs reports whether the server asks about a task of its client's.
func isAboutTheirs(m *mcp.Message) bool { return strings.HasPrefix(m.Method, methodTasks) }

// mayBecomeTheirs reports whether the client may answer with a task.
func mayBecomeTheirs(m *mcp.Message) bool { return !isAboutTheirs(m) && m.Params.Has(mcp.FieldTask) }

// admit returns a question as it may be put, or says why it is not. Where the client
// was not said to run such a thing as a task, a wish for one is ignored, as the client
// would do ("Task Support and Handling").
func (c *clientTasks) admit(m *mcp.Message, atHome bool) (*mcp.Message, *mcp.Error) {
	switch {
	case isAboutTheirs(m):
		return m, c.check(m)
	case !mayBecomeTheirs(m), atHome && c.offer.Runs(m.Method):
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

// check refuses what is about no task that the server has begun.
func (c *clientTasks) check(m *mcp.Message) *mcp.Error {
	if !c.offer.Serves(m.Method) {
		return mcp.Errorf(mcp.CodeMethodNotFound, "the client did not declare %.60q", m.Method)
	}
	if m.Method == methodTaskList {
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
	return slices.IndexFunc(c.begun, func(t clientTask) bool { return t.id == id })
}

// ask notes a question that is put. settle must follow.
func (c *clientTasks) ask(m *mcp.Message) {
	if !mayBecomeTheirs(m) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking++
}

// read returns an answer as the server may have it, and takes note of the task that it
// tells of: before it leaves, because the server may ask about the task at once.
func (c *clientTasks) read(m *mcp.Message, res *mcp.Result) (*mcp.Result, error) {
	switch {
	case mayBecomeTheirs(m):
		id := taskform.CreatedID(res.Bytes())
		if len(id) > maxTheirID {
			return nil, mcp.Errorf(mcp.CodeInternalError, "the id of the client's task is too long")
		}
		c.add(id)
	case m.Method == methodTaskList:
		raw, err := taskform.Keep(res.Bytes(), c.has)
		if err != nil {
			return nil, mcp.Errorf(mcp.CodeInternalError, "the client's list of tasks is none")
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
	c.begun = append(c.begun, clientTask{id: id})
	c.begun = c.begun[max(0, len(c.begun)-maxTheirs):]
}

// settle notes that the answer to a question has been sent, nil where there was none,
// and sends what has become of the task meanwhile.
func (s *legacySession) settle(m *mcp.Message, res *mcp.Result) {
	if !mayBecomeTheirs(m) {
		return
	}
	id := ""
	if res != nil {
		id = taskform.CreatedID(res.Bytes())
	}
	c := &s.theirs
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking--
	if i := c.indexLocked(id); i >= 0 {
		c.begun[i].known = true
	}
	early := c.early
	c.early = nil
	for _, n := range early {
		s.tellLocked(n)
	}
}

// tellState tells the server what has become of a task that its client runs for it:
// in the order in which the client has said it, and not before the answer which names
// the task. Of a task that is not its own it hears nothing.
func (s *legacySession) tellState(n *mcp.Notification) {
	s.theirs.mu.Lock()
	defer s.theirs.mu.Unlock()
	s.tellLocked(n)
}

func (s *legacySession) tellLocked(n *mcp.Notification) {
	c := &s.theirs
	id, _ := n.Params.Text(mcp.FieldTaskID)
	switch i := c.indexLocked(id); {
	case i >= 0 && c.begun[i].known:
		c.out.put(&s.tasks, toServer{s}, n)
	case c.asking > 0 && len(c.early) < maxTooEarly:
		c.early = append(c.early, n)
	}
}

// toServer is the server of a session as one who is told something.
type toServer struct{ s *legacySession }

// Notify returns when the server has it, or does not take it.
func (t toServer) Notify(ctx context.Context, n *mcp.Notification) error {
	t.s.deliver(ctx, n.AppendTo(nil, nil))
	return nil
}

// Ask fails: this is the way in which nothing is asked.
func (toServer) Ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "%s is no notification", req.Method)
}
