// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Listen serves subscriptions/listen from the changes of a session, until the session
// or ctx ends. The legacy era has no such request: its servers send changes unasked, on
// any stream of the session (2025-11-25, basic/transports, "Listening for Messages from
// the Server").
func (l *Protocol) Listen(ctx context.Context, req *mcp.Request, sink mcp.Caller) error {
	want, err := listen.ParseFilter(&req.Params)
	if err != nil {
		return err
	}
	if len(want.TaskIDs) > 0 {
		return l.listenTasks(ctx, want, req, sink)
	}
	return l.listenLists(ctx, want, req, sink)
}

// listenLists is listen without tasks.
func (l *Protocol) listenLists(ctx context.Context, want listen.Filter, req *mcp.Request, sink mcp.Caller) error {
	err := l.listenOnce(ctx, want, req, sink)
	if call.IsRejected(err, call.SessionGone) {
		// The session was lost before the listen was acknowledged, so it is tried in a
		// new one, like a call that the server has not looked at.
		err = l.listenOnce(ctx, want, req, sink)
	}
	return err
}

func (l *Protocol) listenOnce(ctx context.Context, want listen.Filter, req *mcp.Request, sink mcp.Caller) error {
	s, done, err := l.sessionForListen(ctx, want, req)
	if err != nil {
		return err
	}
	defer done()
	if err := l.checkSender(s, req); err != nil {
		return err
	}
	return s.listen(ctx, want, sink)
}

// sessionForListen returns the session that serves a listen, and a function to release
// it.
//
// It is the session of the request's scope, because a server may send each session
// other changes. Listens of one client without a scope share one session, which lives
// as long as they do and is lent to the client's calls: some servers send a session
// only the changes of what was used in it. The sole client's session exists anyway.
func (l *Protocol) sessionForListen(ctx context.Context, want listen.Filter, req *mcp.Request) (*clientSession, func(), error) {
	if l.sharesSession() || req.Scope != nil {
		use, err := l.acquire(ctx, req)
		if err == nil {
			// A listen does not count as a use of the session, so that the session can
			// be closed when the scope yields.
			l.release(&use, true)
		}
		return use.clientSession, func() {}, err
	}
	if l.isSoleClient(req) {
		s, err := l.soleSession(ctx, req, len(want.URIs) == 0)
		return s, func() {}, err
	}
	key := call.KeyOf(req)
	ls := l.joinListenSession(key)
	if ls == nil {
		return nil, nil, l.Closed()
	}
	leave := func() { l.leaveListenSession(key, ls) }
	// Lists are the same for all clients and need no client to ask; resources are
	// watched for one client.
	open := l.opener(req.Client, req, routing{onlyCall: true}, len(want.URIs) == 0)
	s, err := ls.get(ctx, l, func(ctx context.Context) (*clientSession, error) {
		if s := l.pool.adopt(key); s != nil {
			return s, nil
		}
		return open(ctx)
	})
	if err != nil {
		leave()
		return nil, nil, err
	}
	l.pool.addResident(&ls.scopedSession, key, s, false)
	return s, leave, nil
}

// listenSession is the session of the listens without a scope of one ClientKey: a server
// may send a session data of its principal. users is guarded by Protocol.mu.
type listenSession struct {
	scopedSession
	users int
}

// joinListenSession returns the session of the key, adding it if necessary. It returns
// nil if the Protocol is closing. The caller must call leaveListenSession.
func (l *Protocol) joinListenSession(key call.ClientKey) *listenSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return nil
	}
	ls := l.listens[key]
	if ls == nil {
		ls = new(listenSession)
		l.listens[key] = ls
	}
	ls.users++
	return ls
}

// leaveListenSession ends one use. With the last one it retires the session, or has it
// closed when it is returned, if it is lent.
func (l *Protocol) leaveListenSession(key call.ClientKey, ls *listenSession) {
	l.mu.Lock()
	ls.users--
	last := ls.users == 0
	if last {
		delete(l.listens, key) // under the same lock, so that it gets no new user
	}
	l.mu.Unlock()
	switch {
	case !last:
	case l.pool.removeResident(&ls.scopedSession):
		ls.clear()
	default:
		ls.end(l)
	}
}

// listen sends sink the changes that want names: of lists for which the server has
// declared listChanged, and of resources to which it accepts a subscription. It returns
// when the session, its stream, or ctx ends.
//
// The end of a session also ends its stream, and the two may be observed in any order.
// The end of the session takes precedence: the next session may have a stream, while a
// server without a stream is not listened to again. The session's end is recorded
// before its stream is closed, so it is found after the stream.
func (s *clientSession) listen(ctx context.Context, want listen.Filter, sink mcp.Caller) error {
	offered, noStream := want.With(want.Lists()&s.declaredLists()), s.conn.noListenStream()
	closed := call.IsClosed(noStream) // before endCause, so that the cause is found below
	if err := s.endCause(); err != nil {
		return &call.Rejected{Why: call.SessionGone, Err: err}
	}
	if closed {
		offered = listen.Filter{}
	}
	// Registered before subscribing: the server may send a change before its answer.
	listener := s.feed.Add(offered)
	defer s.feed.Remove(listener)
	agreed, undo, err := s.subscribe(ctx, offered.URIs)
	if err != nil {
		return err
	}
	defer undo()
	offered.URIs = agreed
	s.feed.Narrow(listener, offered)
	if offered.Lists() == 0 && len(agreed) == 0 {
		noStream = nil // there is nothing to miss
	}
	if err := offered.Acknowledge(ctx, sink); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return s.GivenUp(ctx, mcp.Completed)
		case <-s.ended:
			return s.endCause()
		case <-noStream:
			if err := s.endCause(); err != nil {
				return err
			}
			return s.NoListen()
		case <-listener.Wake():
			if err := s.feed.Take(listener).Notify(ctx, sink); err != nil {
				return err
			}
		}
	}
}

// declaredLists returns the lists for which the server has declared listChanged.
func (s *clientSession) declaredLists() listen.Lists {
	return listen.Filter{
		Tools: s.offers.Tools.ListChanged, Prompts: s.offers.Prompts.ListChanged, Resources: s.offers.Resources.ListChanged,
	}.Lists()
}

// maxTaskLooks bounds the concurrent tasks/get requests of one listen.
const maxTaskLooks = 4

// listenTasks serves a listen that names tasks. A server of 2025-11-25 may send status
// notifications, but need not (basic/utilities/tasks, "Task Status Notification"),
// while a listen promises them. So each task is polled at the interval that its server
// suggests, and at once after a notification. The client receives the polled state.
//
// For a client of that revision, for which the server edge translates, no task is
// acknowledged: it polls and receives notifications by its own revision's rules.
func (l *Protocol) listenTasks(ctx context.Context, want listen.Filter, req *mcp.Request, sink mcp.Caller) error {
	w := &taskListen{Caller: sink, l: l, req: req, looks: make(chan struct{}, maxTaskLooks), open: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	defer w.group.Wait()
	defer cancel()
	if !isLegacyClient(req.Client) {
		if err := w.begin(ctx, want.TaskIDs); err != nil {
			return err
		}
	}
	want.TaskIDs = nil
	if want.Lists() != 0 || len(want.URIs) > 0 {
		return l.listenLists(ctx, want, req, w)
	}
	if err := want.Acknowledge(ctx, w); err != nil {
		return err
	}
	<-ctx.Done()
	return l.GivenUp(ctx, mcp.Completed)
}

// taskListen are the tasks of one listen. It is also the Caller of the listen for lists
// and resources.
type taskListen struct {
	mcp.Caller
	l   *Protocol
	req *mcp.Request

	agreed []string
	looks  chan struct{} // semaphore of capacity maxTaskLooks
	open   chan struct{} // closed when the listen is acknowledged: nothing is sent before
	group  sync.WaitGroup
}

// Notify passes notifications on and adds the tasks to the acknowledgement.
// Acknowledgements after the first are those of another session.
func (w *taskListen) Notify(ctx context.Context, n *mcp.Notification) error {
	if n.Method != listen.MethodAcknowledged {
		return w.Caller.Notify(ctx, n)
	}
	rest, err := listen.ParseFilter(&n.Params)
	if err != nil {
		return err
	}
	rest.TaskIDs = w.agreed
	if err := rest.Acknowledge(ctx, w.Caller); err != nil {
		return err
	}
	if !call.IsClosed(w.open) { // called by one goroutine
		close(w.open)
	}
	return nil
}

// watchedTask is one task.
type watchedTask struct {
	id      string
	changed chan struct{}
	last    *mcp.Notification // the last state received
}

func (t *watchedTask) status() task.Status { return task.StatusOf(t.last.Params.Bytes()) }

// begin polls each task once. A task that the server does not know is not acknowledged.
// If the server cannot be asked, the listen fails.
func (w *taskListen) begin(ctx context.Context, ids []string) error {
	all := make([]*watchedTask, len(ids))
	failed := make([]error, len(ids))
	var looking sync.WaitGroup
	for i, id := range ids {
		// Registered before the poll, so that no later change is missed.
		all[i] = &watchedTask{id: id, changed: w.l.tasks.watch(id)}
		// Ends with the poll, which ctx bounds; waited for here.
		looking.Go(func() { _, failed[i] = w.look(ctx, all[i]) })
	}
	looking.Wait()
	for i, one := range all {
		if failed[i] != nil {
			w.l.tasks.unwatch(one.id, one.changed)
			continue
		}
		w.agreed = append(w.agreed, one.id)
		// Ends with the task or the listen, which waits for it.
		w.group.Go(func() { w.run(ctx, one) })
	}
	for _, err := range failed {
		if !call.Answered(err) {
			return err
		}
	}
	return nil
}

// run sends the states of one task until the task has ended or is unknown. The first
// state is sent unless it is working: that is no news to the client, while an end or an
// input request would not be reported in any other way.
func (w *taskListen) run(ctx context.Context, one *watchedTask) {
	defer w.l.tasks.unwatch(one.id, one.changed)
	select {
	case <-w.open:
	case <-ctx.Done():
		return
	}
	fresh := one.status() != task.Working
	for {
		if fresh && w.Caller.Notify(ctx, one.last) != nil {
			return
		}
		if one.status().IsTerminal() {
			return
		}
		t, _ := task.Read(one.last.Params.Bytes()) // an invalid one suggests no interval
		select {
		case <-one.changed:
		case <-time.After(task.Interval(t.Poll)):
		case <-ctx.Done():
			return
		}
		var err error
		if fresh, err = w.look(ctx, one); err != nil && call.Answered(err) {
			return
		}
	}
}

// look polls a task and reports whether its state has changed.
func (w *taskListen) look(ctx context.Context, one *watchedTask) (fresh bool, err error) {
	select {
	case w.looks <- struct{}{}:
	case <-ctx.Done():
		return false, w.l.GivenUp(ctx, mcp.NotDispatched)
	}
	defer func() { <-w.looks }()
	res, err := w.l.Serve(ctx, call.AboutTask(w.req, call.MethodTaskGet, one.id), call.NoCaller{})
	if err != nil {
		return false, err
	}
	now := call.TaskNoticeOf(res)
	if now == nil {
		return false, w.l.Malformed(errNoTask)
	}
	fresh = one.last == nil || !bytes.Equal(one.last.Params.Bytes(), now.Params.Bytes())
	one.last = now
	return fresh, nil
}

var errNoTask = errors.New("its description of a task is invalid")
