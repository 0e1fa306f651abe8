// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// pendingUpdates are the tasks of one backendListen that may have changed while no
// notification was received: the client must be sent the state of each. An update stays
// pending, whatever happens to the backend meanwhile, until the state was fetched and
// sent, the backend itself sent it, or the task no longer exists.
type pendingUpdates struct {
	sem chan struct{} // capacity 1; its holder alone notifies of tasks
	wake chan struct{} // capacity 1; updates were added

	// The fields below belong to the holder of sem.
	updates   []pendingUpdate // in the order in which they are sent
	serial uint64
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
func (m *pendingUpdates) exclusive(ctx context.Context, f func() error) error {
	select {
	case m.sem <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.sem }()
	return f()
}

// add adds tasks whose state must be sent.
func (m *pendingUpdates) add(ctx context.Context, topics []topic) error {
	return m.exclusive(ctx, func() error {
		for _, t := range topics {
			m.removeLocked(t)
			m.serial++
			m.updates = append(m.updates, pendingUpdate{t, m.serial})
		}
		select {
		case m.wake <- struct{}{}:
		default: // already woken
		}
		return nil
	})
}

// list returns the pending updates.
func (m *pendingUpdates) list(ctx context.Context) (owed []pendingUpdate) {
	_ = m.exclusive(ctx, func() error { // none is pending after ctx has ended
		owed = slices.Clone(m.updates)
		return nil
	})
	return owed
}

// send calls notify for a task, and removes the task's pending update.
func (m *pendingUpdates) send(ctx context.Context, t topic, say func() error) error {
	return m.exclusive(ctx, func() error {
		if err := say(); err != nil {
			return err
		}
		m.removeLocked(t)
		return nil
	})
}

// sendIfPending is send for a fetched state. If the task was notified or added again
// meanwhile, that state is outdated and is not sent.
func (m *pendingUpdates) sendIfPending(ctx context.Context, d pendingUpdate, say func() error) error {
	return m.exclusive(ctx, func() error {
		if !slices.Contains(m.updates, d) {
			return nil
		}
		if err := say(); err != nil {
			return err
		}
		m.removeLocked(d.topic)
		return nil
	})
}

func (m *pendingUpdates) removeLocked(t topic) {
	m.updates = slices.DeleteFunc(m.updates, func(d pendingUpdate) bool { return d.topic == t })
}

// sendPending sends the pending updates until ctx ends, and retries those that fail.
func (l *backendListen) sendPending(ctx context.Context) {
	for wait := minRelistenDelay; ctx.Err() == nil; wait = min(2*wait, maxRelistenDelay) {
		for _, d := range l.pending.list(ctx) {
			l.sendState(ctx, d)
		}
		if l.pending.wait(ctx, wait) {
			wait = minRelistenDelay
		}
	}
}

// wait waits for something to fetch, and reports whether it was added since.
func (m *pendingUpdates) wait(ctx context.Context, wait time.Duration) bool {
	var late <-chan time.Time
	if len(m.list(ctx)) > 0 {
		again := time.NewTimer(wait/2 + rand.N(wait/2)) //nolint:gosec // jitter, not a secret
		defer again.Stop()
		late = again.C
	}
	select {
	case <-m.wake:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// sendState fetches and sends the state of one task. If the backend does not return it,
// the update stays pending.
func (l *backendListen) sendState(ctx context.Context, d pendingUpdate) {
	n, err := d.topic.fetchState(ctx, l)
	if err != nil {
		return
	}
	_ = l.pending.sendIfPending(ctx, d, func() error { // ctx has ended, or the update stays pending
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
