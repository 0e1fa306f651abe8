// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// retention tracks the sessions that retain messages for clients that resume, and expires
// the messages. One timer serves all sessions; without sessions it is not running.
type retention struct {
	expirer, shedder timer

	mu       sync.Mutex
	sessions map[*session.Session]struct{} // nil if empty
}

// track adds a session that begins to retain messages. It stays until it ends.
func (k *retention) track(sess *session.Session) {
	if !k.insert(sess) {
		return
	}
	if !sess.Scope.OnEnd(func() { k.drop(sess) }) {
		k.drop(sess)
	}
}

// insert reports whether the session is new.
func (k *retention) insert(sess *session.Session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.sessions[sess]; known {
		return false
	}
	if k.sessions == nil {
		k.sessions = make(map[*session.Session]struct{})
	}
	k.sessions[sess] = struct{}{}
	return true
}

func (k *retention) all() []*session.Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*session.Session, 0, len(k.sessions))
	for sess := range k.sessions {
		all = append(all, sess)
	}
	return all
}

func (k *retention) drop(sess *session.Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.sessions, sess)
	if len(k.sessions) == 0 {
		k.sessions = nil
	}
}

// stop cancels the timers and waits for a running call.
func (k *retention) stop() {
	k.expirer.stop()
	k.shedder.stop()
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
	for _, sess := range s.kept.all() {
		next := sess.Expire(now)
		if !next.IsZero() && (soonest.IsZero() || next.Before(soonest)) {
			soonest = next
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
