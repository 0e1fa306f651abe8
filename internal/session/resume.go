// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// GoneError is returned for an event id that was issued, if the messages after it are no
// longer retained.
type GoneError struct {
	Request     mcp.ID // that the stream answers; zero for the standalone stream
	Ended       bool   // the request has ended
	Expired     bool   // its retention expired; it was not dropped early
	SharedLimit bool   // it was dropped because of the limit for all sessions
}

// Error describes what is missing.
func (e *GoneError) Error() string { return "the messages after this event are no longer retained" }

// PrimingID returns the id of the last message that was taken, so that the client can reconnect
// before it has received a message. It is zero if the stream cannot be resumed.
func (c *Consumer) PrimingID() EventID {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.consumer != c || s.log == nil {
		return EventID{}
	}
	s.log.since = min(s.log.since, c.pos)
	return EventID{Stream: s.number, Pos: c.pos}
}

// IsSpent reports whether the stream has ended and all of it was taken.
func (c *Consumer) IsSpent() bool {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.consumer == c && s.ended && len(s.queue) == 0 && c.pos == s.lastPos
}

// Pause makes the stream's consumer end; the client reconnects for the rest after retry. It
// reports false if the stream has no consumer, has ended, or belongs to no session. The
// caller must know that the client can reconnect.
func (s *Stream) Pause(retry time.Duration) bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.consumer == nil || s.ended || s.number == 0 {
		return false
	}
	s.pausing, s.retry = true, retry
	s.consumer.wakeUp() // even if the stream is held
	return true
}

// Missed reports whether the client of the standalone stream may have missed changes,
// because Resume refused messages that were no longer retained. It is true for each consumer
// that does not resume, until one of them has announced everything that may have changed and
// calls ClearMissed.
func (c *Consumer) Missed() bool { return c.missed != 0 }

// ClearMissed notes that everything that may have changed was appended to the stream
// because of Missed. It does not clear a refusal since the consumer was created: that
// client may not receive what this one was sent.
func (c *Consumer) ClearMissed() {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.missed == c.missed {
		s.missed = 0
	}
}

// Retry returns the last argument of Pause for the consumer's stream.
func (c *Consumer) Retry() time.Duration { return c.stream.Retry() }

// Retry returns the last argument of Pause, or zero.
func (s *Stream) Retry() time.Duration {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.retry
}

// IsLost reports whether messages appended to the stream are discarded.
func (s *Stream) IsLost() bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.lost
}

// IsAway reports whether the stream has no consumer and a client may resume it.
func (s *Stream) IsAway() bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.isAwayLocked()
}

func (s *Stream) isAwayLocked() bool { return s.log != nil && s.consumer == nil && !s.standalone }

// IsStandalone reports whether the id belongs to the standalone stream.
func (s *Session) IsStandalone(id EventID) bool { return id.Stream == s.first }

// Resume creates a consumer that takes exactly the messages after the event, in order, and
// then new ones. An older consumer is revoked.
//
// The error is ErrUnknownEvent, ErrEnded, ErrTooMany, or a *GoneError. After a GoneError
// the stream of a request is lost: if the request is still in flight, its terminal is
// discarded.
func (s *Session) Resume(id EventID, wake chan struct{}, now time.Time) (*Consumer, error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	h, err := s.lookupLocked(id, now)
	switch {
	case err != nil && h != nil:
		s.endIncompleteLocked(h)
		return nil, err
	case err != nil:
		return nil, err
	}
	h.unwritten = nil // resumed from, or seen
	c := h.stream.attachAtLocked(wake, id.Pos)
	c.resumed = true
	return c, nil
}

// lookupLocked returns the history of the event's stream. It returns a history and an error
// if part of the history is missing.
func (s *Session) lookupLocked(id EventID, now time.Time) (*history, error) {
	if s.core.ended {
		return nil, ErrEnded
	}
	if s.core.histories == nil {
		return nil, ErrUnknownEvent
	}
	s.core.expireLocked(now)
	h := s.core.histories.find(id.Stream)
	switch {
	case h == nil:
		return nil, s.core.histories.goneError(id)
	case id.Pos < h.since || id.Pos > h.stream.lastPos:
		return nil, ErrUnknownEvent
	case id.Pos < h.first():
		return h, &GoneError{Request: h.request, Ended: h.stream.ended, SharedLimit: h.sharedLimit}
	case h.stream.attached >= s.core.rules.Limits.Streams:
		return nil, ErrTooMany
	default:
		return h, nil
	}
}

func (p *histories) find(number uint64) *history {
	is := func(h *history) bool { return h.stream.number == number }
	for _, all := range [][]*history{p.active, p.ended} {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return all[i]
		}
	}
	return nil
}

// goneError returns the error for a stream that is not retained.
func (p *histories) goneError(id EventID) error {
	for _, g := range p.tombstones {
		if g.stream == id.Stream && id.Pos < g.last {
			return &g.gone
		}
	}
	return ErrUnknownEvent
}

// endIncompleteLocked ends a stream with missing messages: a client that continued would
// not know of the gap. The standalone stream continues for clients that do not resume; for
// these Missed is true.
func (s *Session) endIncompleteLocked(h *history) {
	if h.stream.standalone {
		h.stream.refusals++
		h.stream.missed = h.stream.refusals
		return
	}
	if h.stream.ended {
		return
	}
	h.stream.revokeLocked()
	h.stream.loseLocked()
	s.core.dropHistoryLocked(h, false)
}

// Retire begins the retention of streams that have ended and have no consumer. It returns
// when the retention ends of those for which it began now, and zero if it began for none;
// Expire must be called then. Its cost does not depend on how many streams are retained.
func (s *Session) Retire(now time.Time) (until time.Time) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	p := s.core.histories
	if p == nil {
		return time.Time{}
	}
	for _, h := range p.detached {
		if h.stream.consumer == nil {
			until = now.Add(s.core.rules.Limits.LogKeep)
			h.due = until
		}
	}
	clear(p.detached)
	p.detached = p.detached[:0]
	return until
}

// Expire drops streams at the end of their retention, and what exceeds the limits. The retention
// of a stream begins with the first call after its end, unless Retire has begun it. next is
// when to call Expire again, and zero if nothing expires.
func (s *Session) Expire(now time.Time) (next time.Time) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.core.histories == nil {
		return time.Time{}
	}
	s.core.purgeLocked()
	return s.core.expireLocked(now)
}

func (c *core) expireLocked(now time.Time) (next time.Time) {
	keep := c.rules.Limits.LogKeep
	clear(c.histories.detached)
	c.histories.detached = c.histories.detached[:0]
	for _, h := range slices.Clone(c.histories.ended) {
		if h.due.IsZero() || h.stream.consumer != nil {
			h.due = now.Add(keep)
		}
		if !h.due.After(now) {
			c.dropHistoryLocked(h, true)
			continue
		}
		if next.IsZero() || h.due.Before(next) {
			next = h.due
		}
	}
	return next
}

// Retained returns how many bytes the session retains for clients that reconnect.
func (s *Session) Retained() int {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.core.histories == nil {
		return 0
	}
	return s.core.histories.bytes
}
