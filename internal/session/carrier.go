// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "slices"

// State is what a carrier learns when it takes.
type State uint8

// The states of a stream, as its carrier sees them.
const (
	Open    State = iota // there may be more later
	Ended                // what was taken is all there will ever be
	Revoked              // the stream has another carrier, or this one has detached
)

// Carrier is the right to take the messages of a stream. A stream has one at a
// time. It belongs to one goroutine, which writes what it takes and detaches
// when it returns.
type Carrier struct {
	stream *Stream
	wake   chan struct{}

	detached bool // guarded by the core's lock
}

// Wake returns the channel that receives when Take is worth calling again.
func (c *Carrier) Wake() <-chan struct{} { return c.wake }

// takeBytes bounds how much a carrier takes at once: what it has not taken can
// still be merged, and need not be kept twice.
const takeBytes = 64 << 10

// Take appends to dst what waits on the stream, up to about 64 KiB and at least
// one message. When it returns Open the carrier waits for Wake, unless it got
// something: then it takes again. What was taken with Ended is to be written
// too, and is the rest.
func (c *Carrier) Take(dst []Message) ([]Message, State) {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.carrier != c {
		return dst, Revoked
	}
	if s.held {
		return dst, Open
	}
	n, size := 0, 0
	for n < len(s.queue) && (n == 0 || size < takeBytes) {
		m := &s.queue[n]
		size += m.Len()
		s.taken++
		m.Pos = s.taken
		if m.ask != nil {
			m.ask.taken = true
		}
		dst = append(dst, *m)
		n++
	}
	s.queue = slices.Delete(s.queue, 0, n)
	s.bytes -= size
	if n > 0 {
		s.roomLocked()
	}
	if len(s.queue) > 0 {
		return dst, Open
	}
	s.queue = nil
	if s.ended {
		return dst, Ended
	}
	return dst, Open
}

// Return gives back what was taken and could not be written. A change is told
// to the next carrier then, because what it says is true still: it goes before
// all that waits, unless a newer one of its key is there. All else is lost: the
// client may have seen it, and must not see it twice. An ask among it ends.
//
// A carrier that was superseded meanwhile may still return what it took.
func (c *Carrier) Return(unwritten []Message) {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	var again []Message
	for _, m := range unwritten {
		switch {
		case m.ask != nil:
			s.core.endAskLocked(m.ask, Terminal{Err: ErrNoReceiver})
		case m.last:
			s.core.rules.Counts.Undelivered.Add(1)
		case m.Class != Change || !s.standing || s.ended:
			s.core.rules.Counts.Dropped.Add(1)
		case s.hasLocked(&m):
			s.core.rules.Counts.Merged.Add(1)
		default:
			m.Pos = 0
			again = append(again, m)
			s.bytes += m.Len()
		}
	}
	if len(again) > 0 {
		s.queue = append(again, s.queue...)
		s.wakeLocked()
	}
}

// Detach gives the right back. The stream of an exchange is lost by it: there is
// no way yet to come back for the rest. The standalone stream waits for its next
// carrier. A carrier that was superseded only no longer counts.
func (c *Carrier) Detach() {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if !c.detached {
		c.detached = true
		s.open--
	}
	if s.carrier != c {
		return
	}
	s.carrier = nil
	s.core.carriers--
	if !s.standing {
		s.loseLocked()
	}
}
