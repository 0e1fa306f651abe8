// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"sync/atomic"
)

// State is the state of a stream as Take reports it.
type State uint8

// The states of a stream.
const (
	Open    State = iota // more messages may follow
	Ended                // no message follows those that were taken
	Revoked              // the stream has another consumer, or this one has detached
	Paused               // the consumer must end; the client reconnects for the rest
)

// Consumer is the right to take the messages of a stream, which has one consumer at a time.
// It belongs to one goroutine, which writes the messages it takes and detaches when it
// returns.
type Consumer struct {
	stream *Stream
	wake   chan struct{}
	woken  atomic.Bool // since the last call to Woken

	// Below: guarded by the core's lock.
	pos                 uint64 // of the message that was taken last
	resumed             bool   // created by Resume; it takes what an older consumer could not write
	missed              uint64 // the refusal that its client may not know of; see Missed
	writing             int    // bytes of the last Take: they are written by the next
	detached            bool
	acceptsResultStream bool            // see AcceptResultStreams
	gone                <-chan struct{} // see AcceptResultStreams
}

// Wake returns the channel that receives when Take should be called.
func (c *Consumer) Wake() <-chan struct{} { return c.wake }

// Woken reports whether the consumer was woken since the last call. It is true for a new
// consumer. A goroutine with one channel for many consumers need call Take only for those
// that were woken. Woken does not block.
func (c *Consumer) Woken() bool { return c.woken.Load() && c.woken.Swap(false) }

// wakeUp wakes the goroutine that takes. It sets woken first, so that the goroutine finds
// it set.
func (c *Consumer) wakeUp() {
	c.woken.Store(true)
	signal(c.wake)
}

// takeBytes limits how much one Take returns: messages still queued can be merged, and are
// not held twice.
const takeBytes = 64 << 10

// Take appends queued messages to dst, about 64 KiB at most and at least one. It also marks
// the messages of the previous Take as written.
//
// If Take returns Open and no messages, the consumer waits for Wake; if it returns
// messages, it calls Take again. Messages returned with Ended or Paused must be written
// too; then the consumer ends.
func (c *Consumer) Take(dst []Message) ([]Message, State) {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	c.markWrittenLocked()
	defer s.chargePendingLocked()
	if s.consumer != c {
		return dst, Revoked
	}
	if !s.held {
		dst = c.takeLocked(dst)
	}
	switch {
	case s.ended && len(s.queue) == 0 && c.pos == s.lastPos:
		return dst, Ended
	case s.pausing:
		return dst, Paused
	default:
		return dst, Open
	}
}

// markWrittenLocked notes that the taken messages are written, or never will be.
func (c *Consumer) markWrittenLocked() {
	c.stream.writing -= c.writing
	c.writing = 0
}

func (c *Consumer) addWritingLocked(n int) {
	c.stream.writing += n
	c.writing += n
}

// takeLocked takes retained messages first, then queued ones.
func (c *Consumer) takeLocked(dst []Message) []Message {
	s, size := c.stream, 0
	if c.pos < s.lastPos {
		for _, m := range s.log.after(c.pos) {
			if size >= takeBytes {
				return dst
			}
			size += m.Len()
			c.addWritingLocked(m.Len())
			c.pos++
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
		dst = append(dst, c.assignPosLocked(&s.queue[i]))
	}
	s.queue = slices.Delete(s.queue, 0, n)
	s.bytes -= bytes
	c.addWritingLocked(bytes)
	if len(s.queue) == 0 {
		s.queue = nil
	}
	s.signalSpaceLocked()
	s.chargeHistoryLocked()
	return dst
}

func (c *Consumer) assignPosLocked(m *Message) Message {
	s := c.stream
	s.lastPos++
	c.pos = s.lastPos
	m.Pos = s.lastPos
	if m.ask != nil {
		m.ask.taken = true
	}
	if s.log != nil {
		m.stream = s.number
		s.log.record(*m)
	}
	return *m
}

// Requeue returns messages that were taken and could not be written. A Change is queued for
// the next consumer, because it is still true, before everything queued and unless a newer
// one of its key is there. Other messages are lost: the client may have seen them, and must
// not see them twice. An Ask among them ends.
//
// On a resumable stream nothing is lost and nothing ends: a client that resumes gets the
// messages that were taken, and only a client that does not resume gets those that were
// requeued.
//
// A consumer that was superseded may still call Requeue.
func (c *Consumer) Requeue(unwritten []Message) {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	switch {
	case s.log == nil:
		s.requeueLocked(unwritten)
	case !s.standalone, s.consumer != nil && s.consumer.resumed:
		// They are retained, and the client resumes from them.
	case s.consumer == nil || s.consumer == c:
		s.log.unwritten = append(s.log.unwritten, unwritten...)
	default:
		s.requeueLocked(unwritten)
	}
}

// requeueUnwrittenLocked queues the messages that Requeue kept. The new consumer did not
// resume from them.
func (s *Stream) requeueUnwrittenLocked() {
	if s.log == nil || len(s.log.unwritten) == 0 {
		return
	}
	back := s.log.unwritten
	s.log.unwritten = nil
	s.requeueLocked(back)
}

func (s *Stream) requeueLocked(unwritten []Message) {
	var again []Message
	for _, m := range unwritten {
		switch {
		case m.ask != nil:
			s.core.endAskLocked(m.ask, Terminal{Err: ErrNoReceiver})
		case m.last:
			s.core.rules.Counts.Undelivered.Add(1)
		case m.Class != Change || !s.standalone || s.ended:
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
		s.chargePendingLocked()
		s.wakeLocked()
	}
}

// Detach ends the consumer. A resumable stream waits for its client to reconnect, and the
// standalone stream for its next consumer; any other stream is lost. Detach of a superseded
// consumer only decrements the count.
func (c *Consumer) Detach() {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if !c.detached {
		c.detached = true
		s.attached--
	}
	c.markWrittenLocked()
	defer s.chargePendingLocked()
	if s.consumer != c {
		return
	}
	s.consumer = nil
	s.pausing = false
	s.core.consumers--
	switch {
	case s.standalone && s.ended:
		s.discardUnreadLocked() // no consumer follows
	case s.standalone:
	case s.log != nil && s.log.hasIssuedID():
		if s.ended {
			s.core.histories.markDetached(s.log) // retention begins while the client is away
		}
		s.signalSpaceLocked() // senders do not wait for a client that is away
	default:
		s.loseLocked()
		s.removeHistoryLocked()
	}
	s.chargeHistoryLocked()
}
