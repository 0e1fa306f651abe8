// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// initializeOutcome is the outcome of an initialize.
type initializeOutcome struct {
	sess   *session.Session // nil if it failed
	answer session.Message
}

// initialize opens the session of the pipe. The Handler runs on another goroutine, which
// ends when it answers; finish waits for it.
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
			err = errSessionEnded() // whatever error the Handler returns at the end of its context
		}
		if err != nil {
			answer = legacyEncoder{}.failure(m.ID, nil, err)
		}
		c.opened <- initializeOutcome{sess, answer} // does not block: there is one initialize at a time
	})
}

// isInitializing reports whether an initialize is in progress.
func (c *lineConn) isInitializing() bool { return c.initializing != nil && c.legacy == nil }

// enqueue queues the handling of a message until the session is open: a client that
// writes all its messages at once, such as a script, does not wait for the answer to its
// initialize. The queue is as long as the limit of requests in flight; more are refused.
func (c *lineConn) enqueue(ctx context.Context, id mcp.ID, again func()) {
	if len(c.queued) >= c.server.cfg.Limits.InFlightPerSession {
		c.refuse(ctx, c.server.refuseBegin(id, session.ErrTooMany))
		return
	}
	c.queued = append(c.queued, again)
}

// finishInitialize records the outcome of an initialize, answers it, and then handles the
// queued messages in order.
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

// awaitInitialize returns when no initialize is in progress. It cancels one that takes
// longer than graceCtx.
func (c *lineConn) awaitInitialize(ctx, graceCtx context.Context) {
	for c.isInitializing() {
		select {
		case o := <-c.opened:
			c.finishInitialize(ctx, o)
		case <-graceCtx.Done():
			c.initializing.stop.End(errPipeClosed)
			o := <-c.opened
			if c.inputEnded {
				c.initializing, c.queued, c.legacy = nil, nil, o.sess // it is not answered
				continue
			}
			c.finishInitialize(ctx, o)
		}
	}
}
