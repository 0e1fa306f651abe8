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
	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

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

func (t *watchedTask) status() taskform.Status { return taskform.StatusOf(t.last.Params.Bytes()) }

// begin polls each task once. A task that the server does not know is not acknowledged.
// If the server cannot be asked, the listen fails.
func (w *taskListen) begin(ctx context.Context, ids []string) error {
	all := make([]*watchedTask, len(ids))
	failed := make([]error, len(ids))
	var looking sync.WaitGroup
	for i, id := range ids {
		// Registered before the poll, so that no later change is missed.
		all[i] = &watchedTask{id: id, changed: w.l.watchedTasks.add(id)}
		// Ends with the poll, which ctx bounds; waited for here.
		looking.Go(func() { _, failed[i] = w.look(ctx, all[i]) })
	}
	looking.Wait()
	for i, one := range all {
		if failed[i] != nil {
			w.l.watchedTasks.remove(one.id, one.changed)
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
	defer w.l.watchedTasks.remove(one.id, one.changed)
	select {
	case <-w.open:
	case <-ctx.Done():
		return
	}
	fresh := one.status() != taskform.Working
	for {
		if fresh && w.Caller.Notify(ctx, one.last) != nil {
			return
		}
		if one.status().IsTerminal() || !w.waitForLook(ctx, one) {
			return
		}
		var err error
		if fresh, err = w.look(ctx, one); err != nil && call.Answered(err) {
			return
		}
	}
}

// waitForLook waits until it is time for the next poll.
func (w *taskListen) waitForLook(ctx context.Context, one *watchedTask) bool {
	var wait time.Duration
	if t, err := taskform.Read(one.last.Params.Bytes()); err == nil {
		wait = t.Poll
	}
	late := time.NewTimer(taskform.Interval(wait))
	defer late.Stop()
	select {
	case <-one.changed:
		return true
	case <-late.C:
		return true
	case <-ctx.Done():
		return false
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
