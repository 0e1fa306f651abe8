// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// opening is the outcome of an initialize.
type opening struct {
	sess   *session.Session // nil where it failed
	answer session.Message
}

// initialize opens the session of the pipe. The Handler is asked in a goroutine
// of its own, which ends when that answers; finish waits for it.
func (c *stdio) initialize(ctx context.Context, m *mcp.Message) {
	ctx, cancel := context.WithCancelCause(ctx)
	fl := &flight{stop: session.StopFunc(cancel)}
	if c.server.quiet.Load() || !c.server.flights.enter(fl) {
		cancel(errDraining)
		c.fail(ctx, m.ID, shuttingDown())
		return
	}
	c.begun = fl
	c.tasks.Go(func() { // ends when the Handler answers; finish waits for it
		defer c.server.flights.leave(fl)
		defer cancel(nil)
		sess, answer, err := c.server.initialize(ctx, m, c.principal)
		if err != nil && ctx.Err() != nil {
			err = sessionEnded() // whatever the Handler makes of the end of its context
		}
		if err != nil {
			answer = legacy{}.failure(m.ID, nil, err)
		}
		c.opened <- opening{sess, answer} // has room: there is one initialize at a time
	})
}

// isOpening reports whether an initialize is under way.
func (c *stdio) isOpening() bool { return c.begun != nil && c.legacy == nil }

// hold keeps what came for the session until that is open: a client that writes
// all it has to say in one go, such as a script, does not wait for the answer of
// its initialize. As many are held as requests may be in flight; what is beyond
// is refused.
func (c *stdio) hold(ctx context.Context, id mcp.ID, again func()) {
	if len(c.held) >= c.server.cfg.Limits.InFlightPerSession {
		c.refuse(ctx, c.server.refuseBegin(id, session.ErrTooMany))
		return
	}
	c.held = append(c.held, again)
}

// open makes the outcome of an initialize known, and then handles what has
// waited for it, in its order.
func (c *stdio) open(ctx context.Context, o opening) {
	if o.sess == nil {
		c.begun = nil
	} else {
		c.legacy = o.sess
		if !c.parted {
			c.mux.stand(o.sess.Standalone())
		}
	}
	c.say(ctx, o.answer)
	held := c.held
	c.held = nil
	for _, again := range held {
		again()
	}
}

// awaitOpen returns when no initialize is under way. One that takes longer than
// patience is ended.
func (c *stdio) awaitOpen(ctx, patience context.Context) {
	for c.isOpening() {
		select {
		case o := <-c.opened:
			c.open(ctx, o)
		case <-patience.Done():
			c.begun.stop.End(errPipeClosed)
			o := <-c.opened
			if c.parted {
				c.begun, c.held, c.legacy = nil, nil, o.sess // nothing of it is answered
				continue
			}
			c.open(ctx, o)
		}
	}
}
