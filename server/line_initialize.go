// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// opening is the outcome of an initialize.
type initializeOutcome struct {
	sess   *session.Session // nil where it failed
	answer session.Message
}

// initialize opens the session of the pipe. The Handler is asked in a goroutine
// of its own, which ends when that answers; finish waits for it.
func (c *lineConn) initialize(ctx context.Context, m *mcp.Message) {
	ctx, cancel := context.WithCancelCause(ctx)
	entry := &inflight{stop: session.StopFunc(cancel)}
	if c.server.quiet.Load() || !c.server.inflight.add(entry) {
		cancel(errDraining)
		c.sendError(ctx, m.ID, errShuttingDown())
		return
	}
	c.initializing = entry
	c.wg.Go(func() { // ends when the Handler answers; finish waits for it
		defer c.server.inflight.remove(entry)
		defer cancel(nil)
		sess, answer, err := c.server.initialize(ctx, m, c.principal)
		if err != nil && ctx.Err() != nil {
			err = errSessionEnded() // whatever the Handler makes of the end of its context
		}
		if err != nil {
			answer = legacyEncoder{}.failure(m.ID, nil, err)
		}
		c.opened <- initializeOutcome{sess, answer} // has room: there is one initialize at a time
	})
}

// isOpening reports whether an initialize is under way.
func (c *lineConn) isInitializing() bool { return c.initializing != nil && c.legacy == nil }

// hold keeps what came for the session until that is open: a client that writes
// all it has to say in one go, such as a script, does not wait for the answer of
// its initialize. As many are held as requests may be in flight; what is beyond
// is refused.
func (c *lineConn) enqueue(ctx context.Context, id mcp.ID, again func()) {
	if len(c.queued) >= c.server.cfg.Limits.InFlightPerSession {
		c.refuse(ctx, c.server.refuseBegin(id, session.ErrTooMany))
		return
	}
	c.queued = append(c.queued, again)
}

// open makes the outcome of an initialize known, and then handles what has
// waited for it, in its order.
func (c *lineConn) finishInitialize(ctx context.Context, o initializeOutcome) {
	if o.sess == nil {
		c.initializing = nil
	} else {
		c.legacy = o.sess
		if !c.inputEnded {
			c.writer.addPermanent(o.sess.Standalone())
		}
	}
	c.send(ctx, o.answer)
	held := c.queued
	c.queued = nil
	for _, again := range held {
		again()
	}
}

// awaitOpen returns when no initialize is under way. One that takes longer than
// patience is ended.
func (c *lineConn) awaitInitialize(ctx, patience context.Context) {
	for c.isInitializing() {
		select {
		case o := <-c.opened:
			c.finishInitialize(ctx, o)
		case <-patience.Done():
			c.initializing.stop.End(errPipeClosed)
			o := <-c.opened
			if c.inputEnded {
				c.initializing, c.queued, c.legacy = nil, nil, o.sess // nothing of it is answered
				continue
			}
			c.finishInitialize(ctx, o)
		}
	}
}
