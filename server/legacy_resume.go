// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// canResume reports whether a revision has event ids (2025-03-26, basic/transports,
// "Resumability and Redelivery").
func canResume(v mcp.Version) bool { return v.Era() == mcp.EraLegacy && v >= mcp.V20250326 }

// canPoll reports whether a client of the revision reconnects when a stream ends before
// its answer. Only 2025-11-25 specifies this, and only its streams begin with an event of
// empty data: a client of an older revision parses that as a message, and fails
// (2025-11-25, basic/transports, "Sending Messages to the Server").
func canPoll(v mcp.Version) bool { return v.Era() == mcp.EraLegacy && v >= mcp.V20251125 }

// streamOptions configure how a stream is written to a response.
type streamOptions struct {
	keepAlive time.Duration
	gone      <-chan struct{} // closed when the client disconnects, or the stream must end
	maxLife   time.Duration   // of the response; zero is no limit
	onWrite   func()          // called after messages were written, unless nil
}

// writeStream writes a stream to a response, so that the client can resume it if it has a
// session and its revision allows that, and returns how it ended. It does not detach.
func (s *Server) writeStream(p *response, sess *session.Session, c *session.Consumer, gone <-chan struct{}) session.State {
	opts := streamOptions{keepAlive: s.cfg.KeepAlive, gone: gone}
	if sess == nil || !canResume(sess.Client.Version) {
		return p.writeStream(c, opts)
	}
	c.MakeResumable()
	s.kept.track(sess)
	opts.onWrite = s.shedIfFull
	if canPoll(sess.Client.Version) && !c.IsSpent() {
		p.writePriming(c.PrimingID())
		opts.maxLife = s.cfg.StreamLife
	}
	state := p.writeStream(c, opts)
	if state == session.Paused {
		// As the Handler has requested, or soon.
		p.write(frame.AppendRetry(nil, cmp.Or(c.Retry(), reconnectSoon())))
	}
	return state
}

// Poll implements [mcp.CallerExtension]: over HTTP, for a revision with clients that
// reconnect. While the server ends, a client that reconnects may reach another process,
// and is not asked to.
func (c *requestCaller) Poll(retry time.Duration) bool {
	sess, s := c.request.sess, c.server
	return sess != nil && canPoll(sess.Client.Version) && !s.quiet.Load() && !s.inflight.isDraining() && c.stream.Pause(retry)
}

// isInOrder reports whether a response ended in the intended way: with the last message,
// or with a time to reconnect.
func isInOrder(state session.State) bool { return state == session.Ended || state == session.Paused }

// reconnectAfter is the shortest time after which a client should reopen a stream that we
// have ended. The longest is twice that.
const reconnectAfter = time.Second

// reconnectSoon returns a random such time, so that clients do not reconnect all at once.
func reconnectSoon() time.Duration { return reconnectAfter + jitter(reconnectAfter) }

// retention tracks the sessions that retain messages for clients that resume, and expires
// the messages. One timer serves all sessions; without sessions it is not running.
type retention struct {
	expirer, shedder timer
	sessions         sync.Map // the keys are of type *session.Session
}

// track adds a session that begins to retain messages. It stays until it ends.
func (k *retention) track(sess *session.Session) {
	if _, known := k.sessions.LoadOrStore(sess, nil); known {
		return
	}
	if !sess.Scope.OnEnd(func() { k.sessions.Delete(sess) }) {
		k.sessions.Delete(sess)
	}
}

// settleStream handles the stream of a request that has ended while no consumer was
// attached.
func (s *Server) settleStream(ctx context.Context, ir *inflightRequest) {
	switch stream := ir.x.Stream(); {
	case stream.IsAway():
		s.retain(ir.sess)
	case stream.IsLost():
		s.log.DebugContext(ctx, "answer not delivered: the client disconnected without an event id to resume from",
			slog.String("session", ir.sess.Scope.Key()), slog.String("method", ir.req.Method), slog.String("outcome", string(mcp.Completed)))
	}
}

// retain starts the retention time of the streams of the session that have just ended.
func (s *Server) retain(sess *session.Session) {
	if until := sess.Retire(time.Now()); !until.IsZero() {
		s.expireAfter(time.Until(until))
	}
	s.shedIfFull()
}

// expireAfter schedules expire in d, unless it is scheduled. It runs at most ten times in
// the retention time: a more precise expiry is not needed.
func (s *Server) expireAfter(d time.Duration) {
	s.kept.expirer.after(max(d, s.cfg.Limits.EventRetention/10), s.expire)
}

// expire drops the messages that are past their retention time.
func (s *Server) expire() {
	now, soonest := time.Now(), time.Time{}
	for key := range s.kept.sessions.Range {
		if sess, ok := key.(*session.Session); ok {
			next := sess.Expire(now)
			if !next.IsZero() && (soonest.IsZero() || next.Before(soonest)) {
				soonest = next
			}
		}
	}
	if !soonest.IsZero() {
		s.expireAfter(time.Until(soonest))
	}
}

// shedIfFull makes all sessions retain less if the total limit is reached. The timer's
// goroutine does it, because the caller is writing a response.
func (s *Server) shedIfFull() {
	if s.rules.Logs.IsFull() {
		s.kept.shedder.after(0, s.expire)
	}
}
