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

// retention knows the sessions that keep something for clients that come back, and
// has it given up in time. There is one timer for all of them, and none while
// there are none.
type retention struct {
	expirer, shedder timer

	mu       sync.Mutex
	sessions map[*session.Session]struct{} // nil while there are none
}

// note adds a session that begins to keep something. It stays until it ends.
func (k *retention) track(sess *session.Session) {
	if !k.insert(sess) {
		return
	}
	if !sess.Scope.OnEnd(func() { k.drop(sess) }) {
		k.drop(sess)
	}
}

// add reports whether the session is new.
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

// stop returns after the last call of the timers.
func (k *retention) stop() {
	k.expirer.stop()
	k.shedder.stop()
}

// settle looks after the stream of a request that has ended while nobody carried
// it.
func (s *Server) settleStream(ctx context.Context, ir *inflightRequest) {
	switch stream := ir.x.Stream(); {
	case stream.IsAway():
		s.retain(ir.sess)
	case stream.IsLost():
		s.log.DebugContext(ctx, "answer not delivered: the client is gone and had no event to come back to",
			slog.String("session", ir.sess.Scope.Key()), slog.String("method", ir.req.Method), slog.String("outcome", string(mcp.Completed)))
	}
}

// retain begins the time for which streams of the session are kept that have just ended.
func (s *Server) retain(sess *session.Session) {
	if until := sess.Retire(time.Now()); !until.IsZero() {
		s.expireAfter(time.Until(until))
	}
	s.shedIfFull()
}

// expireAfter has what is kept looked through in d, unless that is to happen
// anyway, and no more often than it has to: a tenth of the time more is not worth
// a look of its own.
func (s *Server) expireAfter(d time.Duration) {
	s.kept.expirer.after(max(d, s.cfg.Limits.EventRetention/10), s.expire)
}

// expire gives up what has had its time.
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

// shedIfFull has all sessions keep less where all together keep too much. The
// sessions are looked through by a goroutine of the timer's: who finds out holds a
// response that somebody waits for.
func (s *Server) shedIfFull() {
	if s.rules.Logs.IsFull() {
		s.kept.shedder.after(0, s.expire)
	}
}
