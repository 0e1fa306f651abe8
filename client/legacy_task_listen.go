// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxTaskLooks bounds how many tasks of one listen are looked at side by side.
const maxTaskLooks = 4

// listenTasks serves a listen that names tasks. A server of 2025-11-25 may say when a
// task changes, and need not (basic/utilities/tasks, "Task Status Notification"); who
// listens is promised to hear of it. So each task is looked at as often as its server
// suggests, and at once when the server says something; what the client is told is
// what it would have been told by asking.
//
// A client of that revision, for whom the other edge translates, asks and is told in
// the words of its own era: for it no task is agreed to.
func (l *legacy) listenTasks(ctx context.Context, want filter, req *mcp.Request, sink mcp.Caller) error {
	w := &taskListen{Caller: sink, l: l, req: req, looks: make(chan struct{}, maxTaskLooks), open: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	defer w.running.Wait()
	defer cancel()
	if !isLegacyClient(req.Client) {
		if err := w.begin(ctx, want.TaskIDs); err != nil {
			return err
		}
	}
	want.TaskIDs = nil
	if want.lists() != 0 || len(want.URIs) > 0 {
		return l.listenLists(ctx, want, req, w)
	}
	if err := acknowledge(ctx, want, w); err != nil {
		return err
	}
	<-ctx.Done()
	return l.givenUp(ctx, mcp.Completed)
}

// taskListen are the tasks of one listen. It is the Caller of what else the listen
// wants to hear of.
type taskListen struct {
	mcp.Caller
	l   *legacy
	req *mcp.Request

	agreed  []string
	looks   chan struct{} // capacity maxTaskLooks: who looks has put one in
	open    chan struct{} // closed when the listen is acknowledged: nothing is said before
	running sync.WaitGroup
}

// Notify passes on what is told, and puts the tasks into the acknowledgement. One
// after the first is that of another session.
func (w *taskListen) Notify(ctx context.Context, n *mcp.Notification) error {
	if n.Method != methodAcknowledged {
		return w.Caller.Notify(ctx, n)
	}
	rest, err := parseFilter(&n.Params)
	if err != nil {
		return err
	}
	rest.TaskIDs = w.agreed
	if err := acknowledge(ctx, rest, w.Caller); err != nil {
		return err
	}
	if !isClosed(w.open) { // one goroutine listens
		close(w.open)
	}
	return nil
}

// taskWatch is one task.
type taskWatch struct {
	id  string
	ear chan struct{}
	now *mcp.Notification // as it was when it was looked at last
}

func (t *taskWatch) status() taskform.Status { return taskform.StatusOf(t.now.Params.Bytes()) }

// begin looks at each task. One that the server does not know is not agreed to; a
// server that cannot be asked is the error of the listen.
func (w *taskListen) begin(ctx context.Context, ids []string) error {
	all := make([]*taskWatch, len(ids))
	failed := make([]error, len(ids))
	var looking sync.WaitGroup
	for i, id := range ids {
		// Before the look: what changes after it is heard.
		all[i] = &taskWatch{id: id, ear: w.l.watched.add(id)}
		// Ends with the look, which ctx bounds; waited for here.
		looking.Go(func() { _, failed[i] = w.look(ctx, all[i]) })
	}
	looking.Wait()
	for i, one := range all {
		if failed[i] != nil {
			w.l.watched.remove(one.id, one.ear)
			continue
		}
		w.agreed = append(w.agreed, one.id)
		// Ends with the task or the listen, which waits for it.
		w.running.Go(func() { w.run(ctx, one) })
	}
	for _, err := range failed {
		if !answered(err) {
			return err
		}
	}
	return nil
}

// run tells of one task until it has ended, or is no more. That it was at work when
// the listen began is no news to who has begun it; that it had ended by then, or asks
// for something, nobody else would tell.
func (w *taskListen) run(ctx context.Context, one *taskWatch) {
	defer w.l.watched.remove(one.id, one.ear)
	select {
	case <-w.open:
	case <-ctx.Done():
		return
	}
	fresh := one.status() != taskform.Working
	for {
		if fresh && w.Caller.Notify(ctx, one.now) != nil {
			return
		}
		if one.status().IsTerminal() || !w.rest(ctx, one) {
			return
		}
		var err error
		if fresh, err = w.look(ctx, one); err != nil && answered(err) {
			return
		}
	}
}

// rest waits until it is time for the next look.
func (w *taskListen) rest(ctx context.Context, one *taskWatch) bool {
	var wait time.Duration
	if t, err := taskform.Read(one.now.Params.Bytes()); err == nil {
		wait = t.Poll
	}
	late := time.NewTimer(taskform.Interval(wait))
	defer late.Stop()
	select {
	case <-one.ear:
		return true
	case <-late.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// look asks the server for the state of a task, and reports whether it is another one
// than before.
func (w *taskListen) look(ctx context.Context, one *taskWatch) (fresh bool, err error) {
	select {
	case w.looks <- struct{}{}:
	case <-ctx.Done():
		return false, w.l.givenUp(ctx, mcp.NotDispatched)
	}
	defer func() { <-w.looks }()
	res, err := w.l.serve(ctx, aboutTask(w.req, methodTaskGet, one.id), noCaller{})
	if err != nil {
		return false, err
	}
	now := taskNoticeOf(res)
	if now == nil {
		return false, w.l.malformed(errNoTask)
	}
	fresh = one.now == nil || !bytes.Equal(one.now.Params.Bytes(), now.Params.Bytes())
	one.now = now
	return fresh, nil
}

var errNoTask = errors.New("its description of a task is none")
