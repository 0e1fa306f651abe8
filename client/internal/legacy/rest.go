// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// sessionUse records when clients have used a session, and for what. The zero value is
// ready.
type sessionUse struct {
	last    atomic.Int64 // the start, or the last request of a client, as Unix nanoseconds
	changed atomic.Bool  // a client may have left state in the session
	calls   atomic.Int64 // between begin and end: a call is answered before it ends
}

// begin is called before the call can be answered, and end after it.
func (u *sessionUse) begin(req *mcp.Request) {
	u.calls.Add(1)
	if !slices.Contains(listMethods(), req.Method) {
		u.changed.Store(true)
	}
	u.note(req)
}

func (u *sessionUse) end(req *mcp.Request) {
	u.note(req)
	u.calls.Add(-1)
}

func (u *sessionUse) note(req *mcp.Request) {
	if !call.IsInternal(req) {
		u.last.Store(time.Now().UnixNano())
	}
}

// isIdle reports whether no call is in progress, and the last use is not after the time.
func (u *sessionUse) isIdle(since time.Time) bool {
	return u.calls.Load() == 0 && u.last.Load() <= since.UnixNano() // in this order: a call that has ended is in last
}

// Rest ends the sessions that no client has opened or used since the time, and that are
// not needed: without a request, a listen or a task, and, unless RestSessions is set,
// without state that a client may have left by its calls. The next request opens a
// session, also one that comes meanwhile.
func (l *Protocol) Rest(since time.Time) {
	for _, s := range l.sessions() {
		// Not as at the end of the client: what comes meanwhile is served in another session.
		err := s.Unavailable(nil, "its session was idle and has ended")
		// Before what is needed, and again when no call can begin: a call may leave something.
		idle := func() bool { return s.use.isIdle(since) }
		if idle() && !s.isNeeded() && s.calls.CloseIdle(err, idle) {
			s.end(err)
			l.retire(s)
		}
	}
}

// isNeeded reports whether Rest must not end the session, except for a call in progress.
func (s *clientSession) isNeeded() bool {
	return s.keepsState() || !s.feed.IsEmpty() || !s.requests.isEmpty()
}

// keepsState reports whether the end of the session would lose what a client has begun.
func (s *clientSession) keepsState() bool {
	return s.isKeptForTask() || !s.clientTasks.isEmpty() || s.routing.private && s.use.changed.Load() && !s.RestSessions
}

// KeepsState reports whether a session is open whose end would lose what a client has
// begun.
func (l *Protocol) KeepsState() bool {
	return slices.ContainsFunc(l.sessions(), (*clientSession).keepsState)
}

// InSession reports whether a session of a single client is open.
func (l *Protocol) InSession() bool {
	return slices.ContainsFunc(l.sessions(), func(s *clientSession) bool { return s.routing.private && s.isAlive() })
}
