// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"sync/atomic"
)

// State is what a carrier learns when it takes.
type State uint8

// The states of a stream, as its carrier sees them.
const (
	Open    State = iota // there may be more later
	Ended                // what was taken is all there will ever be
	Revoked              // the stream has another carrier, or this one has detached
	Paused               // the client is to come back for the rest
)

// Consumer is the right to take the messages of a stream. A stream has one at a
// time. It belongs to one goroutine, which writes what it takes and detaches
// when it returns.
type Consumer struct {
	stream *Stream
	wake   chan struct{}
	woken  atomic.Bool // since it was last asked

	// Below: guarded by the core's lock.
	at       uint64 // the position that was taken last
	resumed  bool   // what an older carrier could not write is among what it takes
	missed   uint64 // the refusal that its client may not know of; see Missed
	writing  int    // bytes that it took last: they are written when it takes again
	detached bool
	flows    bool // it takes a ResultStream
}

// Wake returns the channel that receives when Take is worth calling again.
func (c *Consumer) Wake() <-chan struct{} { return c.wake }

// Woken reports whether the carrier was woken, by whatever is to be taken or learned,
// since it was last asked; a new one was. Whoever has one channel for many carriers
// need not call Take of the others. It waits for nobody.
func (c *Consumer) Woken() bool { return c.woken.Load() && c.woken.Swap(false) }

// wakeUp wakes whoever takes. That it was this carrier is said first, so that who
// wakes finds it.
func (c *Consumer) wakeUp() {
	c.woken.Store(true)
	signal(c.wake)
}

// takeBytes bounds how much a carrier takes at once: what it has not taken can
// still be merged, and need not be kept twice.
const takeBytes = 64 << 10

// Take appends to dst what waits on the stream, up to about 64 KiB and at least
// one message, and says that what was taken before is written. When it returns Open the carrier waits for Wake, unless it got
// something: then it takes again. What was taken with Ended is to be written
// too, and is the rest; what was taken with Paused as well, and the carrier ends
// after it.
func (c *Consumer) Take(dst []Message) ([]Message, State) {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	c.writtenLocked()
	defer s.countLocked()
	if s.carrier != c {
		return dst, Revoked
	}
	if !s.held {
		dst = c.takeLocked(dst)
	}
	switch {
	case s.ended && len(s.queue) == 0 && c.at == s.taken:
		return dst, Ended
	case s.pausing:
		return dst, Paused
	default:
		return dst, Open
	}
}

// writtenLocked notes that what the carrier took is written, or never will be.
func (c *Consumer) writtenLocked() {
	c.stream.writing -= c.writing
	c.writing = 0
}

// writesLocked notes that the carrier is to write n bytes more.
func (c *Consumer) writesLocked(n int) {
	c.stream.writing += n
	c.writing += n
}

// takeLocked takes from what was kept, and then from what waits.
func (c *Consumer) takeLocked(dst []Message) []Message {
	s, size := c.stream, 0
	if c.at < s.taken {
		for _, m := range s.log.after(c.at) {
			if size >= takeBytes {
				return dst
			}
			size += m.Len()
			c.writesLocked(m.Len())
			c.at++
			dst = append(dst, m)
			s.core.rules.Counts.Replayed.Add(1)
		}
	}
	n, bytes := 0, 0
	for ; n < len(s.queue) && (n == 0 && size == 0 || size+bytes < takeBytes); n++ {
		bytes += s.queue[n].Len()
	}
	if n == 0 {
		return dst
	}
	dst = slices.Grow(dst, n)
	for i := range s.queue[:n] {
		dst = append(dst, c.claimLocked(&s.queue[i]))
	}
	s.queue = slices.Delete(s.queue, 0, n)
	s.bytes -= bytes
	c.writesLocked(bytes)
	if len(s.queue) == 0 {
		s.queue = nil
	}
	s.roomLocked()
	s.weighLocked()
	return dst
}

// claimLocked gives a message its position.
func (c *Consumer) claimLocked(m *Message) Message {
	s := c.stream
	s.taken++
	c.at = s.taken
	m.Pos = s.taken
	if m.ask != nil {
		m.ask.taken = true
	}
	if s.log != nil {
		m.stream = s.number
		s.log.record(*m)
	}
	return *m
}

// Requeue gives back what was taken and could not be written. A change is told
// to the next carrier then, because what it says is true still: it goes before
// all that waits, unless a newer one of its key is there. All else is lost: the
// client may have seen it, and must not see it twice. An ask among it ends.
//
// Where the stream can be resumed, nothing is lost and nothing ends: who resumes
// it gets what was taken, and only who begins anew gets what was given back.
//
// A carrier that was superseded meanwhile may still return what it took.
func (c *Consumer) Requeue(unwritten []Message) {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	switch {
	case s.log == nil:
		s.takeBackLocked(unwritten)
	case !s.standing, s.carrier != nil && s.carrier.resumed:
		// It is kept, and asked for.
	case s.carrier == nil || s.carrier == c:
		s.log.unwritten = append(s.log.unwritten, unwritten...)
	default:
		s.takeBackLocked(unwritten)
	}
}

// settleLocked decides about what was given back: whoever carries the stream now
// has not asked for it.
func (s *Stream) settleLocked() {
	if s.log == nil || len(s.log.unwritten) == 0 {
		return
	}
	back := s.log.unwritten
	s.log.unwritten = nil
	s.takeBackLocked(back)
}

func (s *Stream) takeBackLocked(unwritten []Message) {
	var again []Message
	for _, m := range unwritten {
		switch {
		case m.ask != nil:
			s.core.endAskLocked(m.ask, Terminal{Err: ErrNoReceiver})
		case m.last:
			s.core.rules.Counts.Undelivered.Add(1)
		case m.Class != Change || !s.standing || s.ended:
			s.core.rules.Counts.Dropped.Add(1)
		case s.hasLocked(&m), slices.ContainsFunc(again, func(n Message) bool { return n.same(&m) }):
			s.core.rules.Counts.Merged.Add(1)
		default:
			m.Pos, m.stream = 0, 0
			again = append(again, m)
			s.bytes += m.Len()
		}
	}
	if len(again) > 0 {
		s.queue = append(again, s.queue...)
		s.countLocked()
		s.wakeLocked()
	}
}

// Detach gives the right back. A stream that can be resumed waits for a client
// that comes back, and the standalone stream for its next carrier; any other is
// lost by it. A carrier that was superseded only no longer counts.
func (c *Consumer) Detach() {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if !c.detached {
		c.detached = true
		s.open--
	}
	c.writtenLocked()
	defer s.countLocked()
	if s.carrier != c {
		return
	}
	s.carrier = nil
	s.pausing = false
	s.core.carriers--
	switch {
	case s.standing && s.ended:
		s.abandonLocked() // no carrier comes after it
	case s.standing:
	case s.log != nil && s.log.wasHanded():
		if s.ended {
			s.core.past.rest(s.log) // its time begins when the client is away
		}
		s.roomLocked() // nobody waits for that
	default:
		s.loseLocked()
		s.forgetLogLocked()
	}
	s.weighLocked()
}
