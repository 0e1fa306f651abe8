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

// missed are the tasks of a link that may have become something else while nobody
// told: the client is owed the state of each. It stays owed until it is told, by a
// look or by the backend itself, or until there is no such task, whatever becomes of
// the backend meanwhile.
type missed struct {
	turn chan struct{} // capacity 1: who has put one in tells of tasks, and no other
	wake chan struct{} // capacity 1: there is more to tell

	// Below: of who has the turn.
	owed   []debt // in the order in which they are told
	serial uint64
}

// debt is the state of one task. A gap after it makes another of it: what was seen
// before the gap does not settle that.
type debt struct {
	topic  topic
	serial uint64
}

func newMissed() *missed {
	return &missed{turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// inTurn calls f while nobody else tells of tasks. It is no lock, because the client
// may be told meanwhile, and be slow.
func (m *missed) inTurn(ctx context.Context, f func() error) error {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.turn }()
	return f()
}

// owe notes tasks whose state is to be told.
func (m *missed) owe(ctx context.Context, topics []topic) error {
	return m.inTurn(ctx, func() error {
		for _, t := range topics {
			m.forget(t)
			m.serial++
			m.owed = append(m.owed, debt{t, m.serial})
		}
		select {
		case m.wake <- struct{}{}:
		default: // it will look
		}
		return nil
	})
}

// list returns what is owed.
func (m *missed) list(ctx context.Context) (owed []debt) {
	_ = m.inTurn(ctx, func() error { // nothing is owed when ctx has ended
		owed = slices.Clone(m.owed)
		return nil
	})
	return owed
}

// tell tells of a task, whose state is owed no longer then.
func (m *missed) tell(ctx context.Context, t topic, say func() error) error {
	return m.inTurn(ctx, func() error {
		if err := say(); err != nil {
			return err
		}
		m.forget(t)
		return nil
	})
}

// settle is tell for what a look has found. Where the task was told of meanwhile, or
// is owed anew, that is older than what the client has or is to have.
func (m *missed) settle(ctx context.Context, d debt, say func() error) error {
	return m.inTurn(ctx, func() error {
		if !slices.Contains(m.owed, d) {
			return nil
		}
		if err := say(); err != nil {
			return err
		}
		m.forget(d.topic)
		return nil
	})
}

func (m *missed) forget(t topic) {
	m.owed = slices.DeleteFunc(m.owed, func(d debt) bool { return d.topic == t })
}

// tellMissed tells what is owed until ctx ends, and tries again what it could not
// tell.
func (l *link) tellMissed(ctx context.Context) {
	for wait := firstRelink; ctx.Err() == nil; wait = min(2*wait, lastRelink) {
		for _, d := range l.missed.list(ctx) {
			l.lookAt(ctx, d)
		}
		if l.missed.rest(ctx, wait) {
			wait = firstRelink
		}
	}
}

// rest waits until there is something to look at, and reports whether that is new.
func (m *missed) rest(ctx context.Context, wait time.Duration) bool {
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

// lookAt tells the state of one task, if its backend says it. What it does not say
// stays owed.
func (l *link) lookAt(ctx context.Context, d debt) {
	n, err := d.topic.look(ctx, l)
	if err != nil {
		return
	}
	_ = l.missed.settle(ctx, d, func() error { // it ends with ctx, or stays owed
		if n == nil {
			return nil
		}
		return l.pass(ctx, n)
	})
}

// passTask tells of a task by each name by which it was asked for, and nothing of one
// of which nobody has asked to hear.
func (l *link) passTask(ctx context.Context, asked []topic, n *mcp.Notification) error {
	name, _ := n.Params.Text(mcp.FieldTaskID)
	for _, t := range alike(asked, name) {
		var e mcp.Edit
		e.SetText(mcp.FieldTaskID, t.name)
		params, err := e.Apply(&n.Params)
		if err != nil {
			return err
		}
		own := &mcp.Notification{Method: n.Method, Params: params}
		if err := l.missed.tell(ctx, t, func() error { return l.pass(ctx, own) }); err != nil {
			return err
		}
	}
	return nil
}
