// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// GoneError is for an event id that was given out, and what followed it is kept
// no more.
type GoneError struct {
	Request mcp.ID // that the stream answered; zero for the standalone stream
	Over    bool   // the request has ended
	Aged    bool   // it was kept for its time, and not given up for want of room
	Shared  bool   // the room that it was given up for is that of all sessions
}

// Error says what the client cannot have.
func (e *GoneError) Error() string { return "what followed the event is no longer kept" }

// MakeResumable makes what the carrier takes from now on stay with the stream, so that a
// client which loses it can come back: each message gets an id, and Detach of an
// exchange's carrier does not lose the stream. It must be called before the first
// Take whose messages are to have ids. It does nothing outside a session.
func (c *Consumer) MakeResumable() {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.carrier == c {
		s.keepLocked()
	}
}

// Prime returns the id of what was taken last, for the client to come back with
// before it has seen any message. It is zero where the stream cannot be resumed.
func (c *Consumer) Prime() EventID {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.carrier != c || s.log == nil {
		return EventID{}
	}
	s.log.since = min(s.log.since, c.at)
	return EventID{Stream: s.number, Pos: c.at}
}

// IsSpent reports whether there is nothing to take and never will be.
func (c *Consumer) IsSpent() bool {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.carrier == c && s.ended && len(s.queue) == 0 && c.at == s.taken
}

// Pause has the stream's carrier end, after which the client comes back for the
// rest, in so long. It reports false where nobody carries the stream, where it is
// over, or where it belongs to no session. Whether the client can come back is for
// the caller to know.
func (s *Stream) Pause(retry time.Duration) bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.carrier == nil || s.ended || s.number == 0 {
		return false
	}
	s.pausing, s.retry = true, retry
	s.carrier.wakeUp() // also where nothing is given out yet
	return true
}

// Missed reports whether the client that begins the standalone stream anew was
// refused what had followed an event of it, which was given up: there may have been
// changes in it that nobody knows of any more. It is so for each that begins anew,
// until one of them is told of all that may have changed: see ClearMissed.
func (c *Consumer) Missed() bool { return c.missed != 0 }

// ClearMissed notes that all which may have changed was appended to the stream, on
// account of what Missed said. It does not say so of what another client was refused
// since the carrier was made: that one may not get what this one was told.
func (c *Consumer) ClearMissed() {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.missed == c.missed {
		s.missed = 0
	}
}

// Retry returns what Pause was given last for the carrier's stream.
func (c *Consumer) Retry() time.Duration { return c.stream.Retry() }

// Retry returns what Pause was given last, and zero where it never was.
func (s *Stream) Retry() time.Duration {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.retry
}

// IsLost reports whether what is appended to the stream goes nowhere.
func (s *Stream) IsLost() bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.lost
}

// IsAway reports whether nobody carries the stream and somebody may come back to
// it.
func (s *Stream) IsAway() bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.isAwayLocked()
}

func (s *Stream) isAwayLocked() bool { return s.log != nil && s.carrier == nil && !s.standing }

// IsStandalone reports whether the id is one of the standalone stream.
func (s *Session) IsStandalone(id EventID) bool { return id.Stream == s.first }

// Resume makes a carrier that takes exactly what follows the event on its stream,
// in order, and then what comes. An older carrier is revoked.
//
// The error is ErrUnknownEvent, ErrEnded, ErrTooMany, or a *GoneError. After that
// one the request has had its last word: where it still runs, what it ends with
// goes nowhere.
func (s *Session) Resume(id EventID, wake chan struct{}, now time.Time) (*Consumer, error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	h, err := s.lookLocked(id, now)
	switch {
	case err != nil && h != nil:
		s.giveUpLocked(h)
		return nil, err
	case err != nil:
		return nil, err
	}
	h.unwritten = nil // it is asked for, or was seen
	c := new(Consumer)
	h.stream.attachAtLocked(c, wake, id.Pos)
	c.resumed = true
	return c, nil
}

// CanResume returns the error that Resume would return, and changes nothing.
func (s *Session) CanResume(id EventID, now time.Time) error {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	_, err := s.lookLocked(id, now)
	return err
}

// lookLocked returns the history that follows an event. There is one besides an
// error where something of it is missing.
func (s *Session) lookLocked(id EventID, now time.Time) (*history, error) {
	if s.core.ended {
		return nil, ErrEnded
	}
	if s.core.past == nil {
		return nil, ErrUnknownEvent
	}
	s.core.expireLocked(now)
	h := s.core.past.find(id.Stream)
	switch {
	case h == nil:
		return nil, s.core.past.missing(id)
	case id.Pos < h.since || id.Pos > h.stream.taken:
		return nil, ErrUnknownEvent
	case id.Pos < h.first():
		return h, &GoneError{Request: h.request, Over: h.stream.ended, Shared: h.shared}
	case h.stream.open >= s.core.rules.Limits.Streams:
		return nil, ErrTooMany
	default:
		return h, nil
	}
}

// find returns the history of a stream, or nil.
func (p *past) find(number uint64) *history {
	is := func(h *history) bool { return h.stream.number == number }
	for _, all := range [][]*history{p.open, p.over} {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return all[i]
		}
	}
	return nil
}

// missing says what is known of a stream that is not kept.
func (p *past) missing(id EventID) error {
	for _, g := range p.graves {
		if g.stream == id.Stream && id.Pos < g.last {
			return &GoneError{Request: g.request, Over: g.over, Aged: g.aged, Shared: g.shared}
		}
	}
	return ErrUnknownEvent
}

// giveUpLocked ends a stream of which something is missing: a client that went on
// without it would not know. The standalone stream goes on for those who begin
// anew, and those have missed something until that is made good.
func (s *Session) giveUpLocked(h *history) {
	if h.stream.standing {
		h.stream.refused++
		h.stream.missed = h.stream.refused
		return
	}
	if h.stream.ended {
		return
	}
	h.stream.revokeLocked()
	h.stream.loseLocked()
	s.core.buryLocked(h, false)
}

// Retire begins the time for which streams are kept that have ended and that nobody
// carries, and returns when it is over for those of them whose time had not begun: then
// it is worth calling Expire. It is zero where there are none. What it costs has nothing
// to do with how many are kept.
func (s *Session) Retire(now time.Time) (until time.Time) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	p := s.core.past
	if p == nil {
		return time.Time{}
	}
	for _, h := range p.resting {
		if h.stream.carrier == nil {
			until = now.Add(s.core.rules.Limits.LogKeep)
			h.due = until
		}
	}
	clear(p.resting)
	p.resting = p.resting[:0]
	return until
}

// Expire gives up what was kept for its time, and what does not fit any more. The
// time of a stream begins with the first call after its end, unless Retire has begun
// it. next is when it is worth calling again, and zero where nothing waits for that.
func (s *Session) Expire(now time.Time) (next time.Time) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.core.past == nil {
		return time.Time{}
	}
	s.core.purgeLocked()
	return s.core.expireLocked(now)
}

func (c *core) expireLocked(now time.Time) (next time.Time) {
	keep := c.rules.Limits.LogKeep
	clear(c.past.resting)
	c.past.resting = c.past.resting[:0]
	for _, h := range slices.Clone(c.past.over) {
		if h.due.IsZero() || h.stream.carrier != nil {
			h.due = now.Add(keep)
		}
		if !h.due.After(now) {
			c.buryLocked(h, true)
			continue
		}
		if next.IsZero() || h.due.Before(next) {
			next = h.due
		}
	}
	return next
}

// Kept returns how many bytes the session keeps for clients that come back.
func (s *Session) Kept() int {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.core.past == nil {
		return 0
	}
	return s.core.past.bytes
}
