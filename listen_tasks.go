// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// pendingUpdates are the tasks of one backendListen that may have changed while no
// notification was received: the client must be sent the state of each. An update stays
// pending, whatever happens to the backend meanwhile, until the state was fetched and
// sent, the backend itself sent it, or the task no longer exists.
type pendingUpdates struct {
	sem  chan struct{} // capacity 1; its holder alone notifies of tasks
	wake chan struct{} // capacity 1; updates were added

	// The fields below belong to the holder of sem.
	updates []pendingUpdate // in the order in which they are sent
	serial  uint64
}

// pendingUpdate is the state of one task. A later gap adds another update with a new
// serial: a state fetched before the gap does not satisfy that one.
type pendingUpdate struct {
	topic  topic
	serial uint64
}

func newPendingUpdates() *pendingUpdates {
	return &pendingUpdates{sem: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// exclusive calls f while no other goroutine notifies of tasks. It is not a mutex,
// because f may block on a slow client.
func (p *pendingUpdates) exclusive(ctx context.Context, f func() error) error {
	select {
	case p.sem <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.sem }()
	return f()
}

// add adds an update for each task.
func (p *pendingUpdates) add(ctx context.Context, topics []topic) error {
	return p.exclusive(ctx, func() error {
		for _, t := range topics {
			p.removeLocked(t)
			p.serial++
			p.updates = append(p.updates, pendingUpdate{t, p.serial})
		}
		select {
		case p.wake <- struct{}{}:
		default: // already woken
		}
		return nil
	})
}

// list returns the pending updates.
func (p *pendingUpdates) list(ctx context.Context) (updates []pendingUpdate) {
	_ = p.exclusive(ctx, func() error { // none is pending after ctx has ended
		updates = slices.Clone(p.updates)
		return nil
	})
	return updates
}

// send calls notify for a task, and removes the task's pending update.
func (p *pendingUpdates) send(ctx context.Context, t topic, notify func() error) error {
	return p.exclusive(ctx, func() error {
		if err := notify(); err != nil {
			return err
		}
		p.removeLocked(t)
		return nil
	})
}

// sendIfPending is send for a fetched state. If the task was notified or added again
// meanwhile, that state is outdated and is not sent.
func (p *pendingUpdates) sendIfPending(ctx context.Context, u pendingUpdate, notify func() error) error {
	return p.exclusive(ctx, func() error {
		if !slices.Contains(p.updates, u) {
			return nil
		}
		if err := notify(); err != nil {
			return err
		}
		p.removeLocked(u.topic)
		return nil
	})
}

func (p *pendingUpdates) removeLocked(t topic) {
	p.updates = slices.DeleteFunc(p.updates, func(u pendingUpdate) bool { return u.topic == t })
}

// sendPending sends the pending updates until ctx ends, and retries those that fail.
func (l *backendListen) sendPending(ctx context.Context) {
	again := backoff.Backoff{Min: minRelistenDelay, Max: maxRelistenDelay}
	for ctx.Err() == nil {
		for _, u := range l.pending.list(ctx) {
			l.sendState(ctx, u)
		}
		if l.pending.wait(ctx, again.Next()) {
			again.Reset()
		}
	}
}

// wait waits for something to fetch, and reports whether it was added since.
func (p *pendingUpdates) wait(ctx context.Context, wait time.Duration) bool {
	var late <-chan time.Time
	if len(p.list(ctx)) > 0 {
		again := time.NewTimer(wait)
		defer again.Stop()
		late = again.C
	}
	select {
	case <-p.wake:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// sendState fetches and sends the state of one task. If the backend does not return it,
// the update stays pending.
func (l *backendListen) sendState(ctx context.Context, u pendingUpdate) {
	n, err := u.topic.fetchState(ctx, l)
	if err != nil {
		return
	}
	_ = l.pending.sendIfPending(ctx, u, func() error { // ctx has ended, or the update stays pending
		if n == nil {
			return nil
		}
		return l.forward(ctx, n)
	})
}

// forwardTask forwards the notification of a task under each name in the filter. It
// drops the notification of a task that is not in the filter.
func (l *backendListen) forwardTask(ctx context.Context, asked []topic, n *mcp.Notification) error {
	name, _ := n.Params.Text(mcp.FieldTaskID)
	for _, t := range sameTask(asked, name) {
		var e mcp.Edit
		e.SetText(mcp.FieldTaskID, t.name)
		params, err := e.Apply(&n.Params)
		if err != nil {
			return err
		}
		own := &mcp.Notification{Method: n.Method, Params: params}
		if err := l.pending.send(ctx, t, func() error { return l.forward(ctx, own) }); err != nil {
			return err
		}
	}
	return nil
}

// fetchState fetches the state of a task from the backend and returns the notification
// of it. It returns nil without an error for a task that no longer exists or cannot be
// fetched: an error response to that effect is an answer, and all other errors may be
// temporary.
func (t topic) fetchState(ctx context.Context, l *backendListen) (*mcp.Notification, error) {
	req, err := mcp.NewRequest("tasks/get", relatedTask(t.own))
	if err != nil {
		return nil, err
	}
	from := l.sub.req
	req.Client, req.Principal, req.Scope = from.Client, from.Principal, from.Scope
	res, err := l.backend.serveParams(ctx, req, &req.Params, noCaller{}, aliases{t.own: t.name})
	switch {
	case errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidParams}), errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}):
		return nil, nil //nolint:nilnil // as documented
	case err != nil:
		return nil, err
	case res == nil:
		return nil, errNoState
	}
	params, err := tasks.Notice(res.Bytes())
	if err != nil {
		return nil, err
	}
	return mcp.NewNotification(taskNotice, params)
}

var errNoState = errors.New("the backend did not return the state of the task")
