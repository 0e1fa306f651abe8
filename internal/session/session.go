// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Session is a legacy session with a client. The exported fields are set before the session
// is published, and never change.
type Session struct {
	ID        string
	Principal string
	Profile   string // of the Handler that serves it, or ""
	Address   string // of an anonymous client; the caller defines its meaning
	Client    *mcp.Peer
	Scope     *mcp.Scope // ended by the caller that ends the session
	Began     time.Time  // for the caller

	core  core
	first uint64 // the number of the standalone stream; those of exchanges follow

	// Below: guarded by core.mu.
	standalone  Stream
	exchanges   []*Exchange // in flight, oldest first
	begun       uint64
	initialized bool
	level       mcp.LogLevel
}

// New returns a session that is not published. Its standalone stream is held until the
// client has sent the initialized notification (2025-11-25, basic/lifecycle,
// "Initialization").
func New(id, principal string, client *mcp.Peer, rules *Rules) *Session {
	s := &Session{ID: id, Principal: principal, Client: client, level: mcp.LogUnset}
	s.core.rules, s.core.session, s.core.principal = rules, s, principal
	s.first = firstStream(id)
	s.standalone = Stream{core: &s.core, number: s.first, standalone: true, held: true}
	return s
}

// Standalone returns the stream of messages that belong to no exchange.
func (s *Session) Standalone() *Stream { return &s.standalone }

// Initialized notes that the client is ready, and reports whether it was not ready before.
func (s *Session) Initialized() bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.initialized || s.core.ended {
		return false
	}
	s.initialized = true
	s.standalone.held = false
	s.standalone.wakeLocked()
	return true
}

// SetLevel sets the minimum level of log messages for the client.
func (s *Session) SetLevel(l mcp.LogLevel) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	s.level = l
}

// Level returns the last argument of SetLevel, initially [mcp.LogUnset].
func (s *Session) Level() mcp.LogLevel {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.level
}

// Begin opens the exchange of a request. stop is called at most once, when the exchange is
// cancelled. The error is ErrEnded, ErrDuplicate or ErrTooMany.
//
// The zero id is for a notification that is served like a request: it counts as in flight,
// is never a duplicate, and messages appended to it are discarded.
func (s *Session) Begin(id mcp.ID, stop func(why error)) (*Exchange, error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	switch {
	case s.core.ended:
		return nil, ErrEnded
	case s.findLocked(id) != nil:
		return nil, ErrDuplicate
	case len(s.exchanges) >= s.core.rules.Limits.Exchanges:
		return nil, ErrTooMany
	}
	s.begun++
	x := new(Exchange)
	x.begin(id, &s.core, stop)
	x.stream.number, x.stream.request = s.first+s.begun, id
	x.stream.lost = id.IsZero()
	s.exchanges = append(s.exchanges, x)
	return x, nil
}

// Cancel ends the exchange of that id without a terminal, and reports whether there is one.
func (s *Session) Cancel(id mcp.ID, why error) bool {
	x := s.find(id)
	return x != nil && x.Cancel(why)
}

// InFlight reports whether a request of that id is in flight.
func (s *Session) InFlight(id mcp.ID) bool { return s.find(id) != nil }

func (s *Session) find(id mcp.ID) *Exchange {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.findLocked(id)
}

// findLocked searches the few exchanges one by one. Notifications, which have no id, are
// never found.
func (s *Session) findLocked(id mcp.ID) *Exchange {
	if id.IsZero() {
		return nil
	}
	if i := slices.IndexFunc(s.exchanges, func(x *Exchange) bool { return x.id == id }); i >= 0 {
		return s.exchanges[i]
	}
	return nil
}

func (s *Session) removeLocked(x *Exchange) {
	i := slices.Index(s.exchanges, x)
	s.exchanges = slices.Delete(s.exchanges, i, i+1)
}

// Answer completes the ask of that id, and reports whether there is one that the client has
// received. Other answers are counted as strays: an answer to a request that was not sent
// is a guess.
func (s *Session) Answer(id mcp.ID, end Terminal) bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	a, ok := s.core.asks[id]
	if !ok || !a.taken {
		s.core.rules.Counts.Strays.Add(1)
		return false
	}
	s.core.endAskLocked(a, end)
	return true
}

// End ends the session: requests in flight end with the error, asks fail, and all streams
// end; consumers still get what is queued. A nil terminal means that the client has ended
// the session; requests in flight then end as if cancelled. Only the first call has an
// effect and reports true. The caller must end the scope.
func (s *Session) End(terminal *mcp.Error) bool {
	return s.end(terminal, false)
}

// EndIdle ends the session unless a request is in flight or a stream has a consumer.
func (s *Session) EndIdle() bool { return s.end(nil, true) }

// IsIdle reports whether no request is in flight and no stream has a consumer.
func (s *Session) IsIdle() bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.idleLocked()
}

func (s *Session) idleLocked() bool {
	return len(s.exchanges) == 0 && s.core.consumers == 0
}

func (s *Session) end(terminal *mcp.Error, ifIdle bool) bool {
	stops, ended := s.tryEnd(terminal, ifIdle)
	for _, stop := range stops {
		stop(ErrEnded)
	}
	return ended
}

// tryEnd returns the functions that stop the requests in flight, oldest first.
func (s *Session) tryEnd(terminal *mcp.Error, ifIdle bool) (stops []func(why error), ended bool) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.core.ended || ifIdle && !s.idleLocked() {
		return nil, false
	}
	s.core.ended = true
	for _, x := range slices.Clone(s.exchanges) {
		stops = append(stops, x.stop)
		if terminal == nil {
			x.stream.clearLocked()
			x.endLocked(ErrEnded)
		} else {
			x.endLocked(ErrEnded, Message{Head: jsonrpc.AppendError(nil, x.id, terminal)})
		}
	}
	s.core.endAsksLocked(&s.standalone, ErrEnded)
	s.standalone.discardUnreadLocked()
	s.standalone.endLocked()
	s.core.dropHistoriesLocked()
	return stops, true
}
