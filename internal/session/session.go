// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Session is a legacy session of a client with us. What its fields say is set
// before anybody else can see it, and never changes.
type Session struct {
	ID        string
	Principal string
	Address   string // where the anonymous principal connects from; what it says is the edge's affair
	Client    *mcp.Peer
	Scope     *mcp.Scope // ended by whoever ends the session

	core  core
	first uint64 // the number of the standalone stream; those of exchanges follow

	// Below: guarded by core.mu.
	standalone  Stream
	exchanges   flying
	begun       uint64
	initialized bool
	level       mcp.LogLevel
}

// New returns a session that nobody knows of yet. Its standalone stream exists;
// it gives nothing out before the client has said that it is initialized
// (2025-11-25, basic/lifecycle, "Initialization").
func New(id, principal string, client *mcp.Peer, rules *Rules) *Session {
	s := &Session{ID: id, Principal: principal, Client: client, level: mcp.LogUnset}
	s.core.rules, s.core.owner, s.core.principal = rules, func() owner { return ownerOf(s) }, principal
	s.first = firstStream(id)
	s.standalone = Stream{core: &s.core, number: s.first, standing: true, held: true}
	return s
}

// Standalone returns the stream of what belongs to no exchange.
func (s *Session) Standalone() *Stream { return &s.standalone }

// Initialized notes that the client is ready, and reports whether that is news.
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

// SetLevel sets the least severe log message that the client wants.
func (s *Session) SetLevel(l mcp.LogLevel) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	s.level = l
}

// Level returns what SetLevel was given last, at first [mcp.LogUnset].
func (s *Session) Level() mcp.LogLevel {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.level
}

// Begin opens the exchange of a request. stop is called at most once, when the
// exchange is cancelled. The error is ErrEnded, ErrDuplicate or ErrTooMany.
//
// The zero id is a notification that is served like a request: it is in flight
// like one, is never a duplicate, and what it appends goes nowhere.
func (s *Session) Begin(id mcp.ID, stop Stopper) (*Exchange, error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	switch {
	case s.core.ended:
		return nil, ErrEnded
	case s.exchanges.find(id) != nil:
		return nil, ErrDuplicate
	case s.exchanges.count >= s.core.rules.Limits.Exchanges:
		return nil, ErrTooMany
	}
	s.begun++
	x := new(Exchange)
	x.begin(id, &s.core, stop)
	x.owner = s
	x.stream.number, x.stream.request = s.first+s.begun, id
	x.stream.lost = id.IsZero()
	s.exchanges.add(x)
	return x, nil
}

// Cancel ends the exchange of that id without a terminal, and reports whether
// there is one.
func (s *Session) Cancel(id mcp.ID, why error) bool {
	x := s.find(id)
	return x != nil && x.Cancel(why)
}

// InFlight reports whether a request of that id is being served.
func (s *Session) InFlight(id mcp.ID) bool { return s.find(id) != nil }

// find returns the exchange of a request that is in flight, or nil.
func (s *Session) find(id mcp.ID) *Exchange {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.exchanges.find(id)
}

// Answer completes the ask of that id, if it was asked in this session and the
// client has it. It reports whether that is so; if not, the answer is counted.
func (s *Session) Answer(id mcp.ID, end Terminal) bool {
	return s.core.answer(id, end)
}

// End ends the session: requests in flight end with the error, asks fail, all
// streams end, but who carries one still gets what waits on it. Without an error the
// client has ended it, and requests in flight end as cancelled ones do. Only the first
// call does anything, and reports true. The scope is the caller's to end.
func (s *Session) End(terminal *mcp.Error) bool {
	return s.endIf(terminal, func() bool { return true })
}

// EndIdle ends the session unless a request is in flight or a stream is carried.
func (s *Session) EndIdle() bool {
	return s.endIf(nil, s.idleLocked)
}

// Idle reports whether no request is in flight and no stream carried.
func (s *Session) Idle() bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.idleLocked()
}

func (s *Session) idleLocked() bool {
	return s.exchanges.count == 0 && s.core.carriers == 0
}

func (s *Session) endIf(terminal *mcp.Error, ok func() bool) bool {
	stops, ended := s.end(terminal, ok)
	for _, stop := range stops {
		stop.End(ErrEnded)
	}
	return ended
}

// end returns how to stop what was cut, in the order in which it began.
func (s *Session) end(terminal *mcp.Error, ok func() bool) ([]Stopper, bool) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.core.ended || !ok() {
		return nil, false
	}
	s.core.ended = true
	var stops []Stopper
	for x := s.exchanges.first; x != nil; {
		next := x.next // before its end takes it out
		stops = append(stops, x.stop)
		if terminal == nil {
			x.stream.clearLocked()
			x.endLocked(ErrEnded)
		} else {
			x.endLocked(ErrEnded, Message{Head: mcp.AppendError(nil, x.id, terminal)})
		}
		x = next
	}
	s.core.endAsksLocked(&s.standalone, ErrEnded)
	s.standalone.abandonLocked()
	s.standalone.endLocked()
	s.core.forgetPastLocked()
	return stops, true
}
