// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Stream is a logical sequence of messages to one client: the answer of an exchange, or the
// messages of a session that belong to no request. It exists with or without a consumer.
//
// It is guarded by the lock of its session, or of its exchange if there is no session.
// Methods with the suffix Locked require that lock.
type Stream struct {
	core       *core
	number     uint64 // in its session; 0 if the stream cannot be resumed
	request    mcp.ID // that the stream answers; zero for the standalone stream
	standalone bool   // outlives its consumers
	held       bool   // no message is delivered yet
	ended      bool   // no message is appended any more
	answered   bool   // it ended with a terminal
	lost       bool   // its consumer is gone and none will follow
	pausing    bool   // its consumer must end
	refusals   uint64 // how often Resume refused a client messages that are no longer retained
	missed     uint64 // the number of the last refusal not yet made up for; 0 if none
	retry      time.Duration

	queue        []Message
	bytes        int
	writing      int      // bytes that consumers have taken and not yet written
	overhead     int      // bytes that are charged in addition once the stream has ended
	charged      int      // bytes charged to the account
	account      *account // of the principal; nil while nothing is charged
	lastPos      uint64   // position of the last message that a consumer took
	log          *history // of the messages that consumers took; nil if the stream is not resumable
	consumer     *Consumer
	first        Consumer      // is sufficient for most requests
	resultStream *ResultStream // that the receiver gets instead of messages, or nil
	attached     int           // consumers that have not detached, superseded ones included
	space        chan struct{} // closed when there is space again; nil while none is waiting
}

// Attach creates the consumer of the stream. A send on wake notifies it; wake must have
// capacity 1 and may be shared by the consumers of one goroutine. An older consumer is
// revoked, and notified of that.
func (s *Stream) Attach(wake chan struct{}) *Consumer {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.attachLocked(wake)
}

// TryAttach is Attach for consumers that a client can open. It returns ErrTooMany at the
// limit, and the older consumer continues. A superseded consumer counts until it detaches,
// because it may be blocked in a write.
func (s *Stream) TryAttach(wake chan struct{}) (*Consumer, error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.attached >= s.core.rules.Limits.Streams {
		return nil, ErrTooMany
	}
	return s.attachLocked(wake), nil
}

// attachLocked attaches a consumer that begins after everything that was taken before:
// nothing is replayed.
func (s *Stream) attachLocked(wake chan struct{}) *Consumer {
	s.requeueUnwrittenLocked()
	c := s.attachAtLocked(wake, s.lastPos)
	c.missed = s.missed
	return c
}

// attachAtLocked attaches a consumer that takes the messages after a position.
func (s *Stream) attachAtLocked(wake chan struct{}, pos uint64) *Consumer {
	c := &s.first
	if c.stream != nil {
		c = new(Consumer)
	}
	c.stream, c.wake, c.pos = s, wake, pos
	s.revokeLocked()
	s.consumer = c
	s.attached++
	s.core.consumers++
	s.pausing = false
	s.chargeHistoryLocked()
	s.chargePendingLocked()
	s.wakeLocked()
	return c
}

func (s *Stream) revokeLocked() {
	if s.consumer != nil {
		s.consumer.wakeUp()
		s.consumer = nil
		s.core.consumers--
		s.dropResultStreamLocked()
	}
}

// Append queues m. If the stream is full it queues nothing and returns a channel that is
// closed when the caller should retry. The error is [mcp.ErrRequestEnded] or [ErrEnded].
func (s *Stream) Append(m Message) (full <-chan struct{}, err error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.appendLocked(m)
}

func (s *Stream) appendLocked(m Message) (<-chan struct{}, error) {
	if s.ended {
		return nil, s.endedErrLocked()
	}
	if s.isDiscardingLocked() {
		s.core.rules.Counts.Dropped.Add(1)
		return nil, nil
	}
	switch m.Class {
	case Opening:
		s.prependOpeningLocked(m)
		return nil, nil
	case Change:
		if s.hasLocked(&m) {
			s.core.rules.Counts.Merged.Add(1)
			return nil, nil
		}
	case Log:
		if s.slowLocked() {
			s.core.rules.Counts.Dropped.Add(1)
			return nil, nil
		}
	case Progress:
		if s.slowLocked() && s.dropLocked(func(q *Message) bool { return q.same(&m) }) {
			s.core.rules.Counts.Merged.Add(1)
		}
	case Plain:
	}
	if s.fullLocked(&m) {
		return s.spaceLocked(), nil
	}
	s.pushLocked(m)
	return nil, nil
}

func (s *Stream) endedErrLocked() error {
	if s.core.ended {
		return ErrEnded
	}
	return mcp.ErrRequestEnded
}

// pushLocked queues a message regardless of the limits.
func (s *Stream) pushLocked(m Message) {
	s.growLocked()
	s.queue = append(s.queue, m)
	s.bytes += m.Len()
	s.chargeHistoryLocked()
	s.chargePendingLocked()
	s.wakeLocked()
}

// growLocked makes space for one more message. It clears the old array: the first one is
// part of the exchange, which may be retained for longer.
func (s *Stream) growLocked() {
	if old := s.queue; len(old) == cap(old) {
		s.queue = append(make([]Message, 0, max(1, 2*len(old))), old...)
		clear(old)
	}
}

// prependOpeningLocked queues the message before all others and releases the held stream.
func (s *Stream) prependOpeningLocked(m Message) {
	s.held = false
	s.growLocked()
	s.queue = slices.Insert(s.queue, 0, m)
	s.bytes += m.Len()
	s.chargePendingLocked()
	s.wakeLocked()
}

// endLocked ends the stream with the last message, if any. On a stream that is still held,
// the other messages are dropped.
func (s *Stream) endLocked(last ...Message) {
	if s.ended {
		return
	}
	if s.held {
		s.clearLocked()
		s.held = false
	}
	s.ended = true
	s.answered = len(last) > 0
	s.retireLocked()
	for _, m := range last {
		m.last = true
		s.pushLocked(m)
	}
	s.chargeHistoryLocked()
	s.chargePendingLocked()
	if s.lost {
		s.clearLocked()
		s.core.rules.Counts.Undelivered.Add(uint64(len(last)))
	}
	s.signalSpaceLocked()
	s.wakeLocked()
}

// loseLocked marks the receiver as gone: queued messages are dropped, asks that were not
// delivered fail, and messages appended later are discarded.
func (s *Stream) loseLocked() {
	s.lost = true
	for i := range s.queue {
		if a := s.queue[i].ask; a != nil {
			s.core.endAskLocked(a, Terminal{Err: ErrNoReceiver})
		}
	}
	if s.ended && len(s.queue) > 0 {
		s.core.rules.Counts.Undelivered.Add(1)
	} else {
		s.core.rules.Counts.Dropped.Add(uint64(len(s.queue)))
	}
	s.clearLocked()
	s.dropResultStreamLocked()
	s.signalSpaceLocked()
}

func (s *Stream) clearLocked() {
	clear(s.queue)
	s.queue, s.bytes = nil, 0
	s.chargePendingLocked()
}

// discardUnreadLocked drops the queue if there is no consumer, and all queued asks.
func (s *Stream) discardUnreadLocked() {
	if s.consumer == nil {
		s.clearLocked()
	}
	s.dropAsksLocked()
}

// dropAsksLocked drops the queued asks, which have ended.
func (s *Stream) dropAsksLocked() {
	for s.dropLocked(func(m *Message) bool { return m.ask != nil }) {
		// There may be another.
	}
}

// Retract removes the queued changes with keys that begin with the prefix, because their
// receiver no longer wants them. It reports whether there were any. Changes that a consumer
// has taken are delivered. Changes that were requeued are removed only for a client that does
// not resume: a client that resumes gets the messages that were taken.
func (s *Stream) Retract(prefix string) (found bool) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	unwanted := func(m *Message) bool { return m.Class == Change && strings.HasPrefix(m.Key, prefix) }
	for s.dropLocked(unwanted) {
		found = true // and there may be more
	}
	if s.log == nil {
		return found
	}
	given := len(s.log.unwritten)
	s.log.unwritten = slices.DeleteFunc(s.log.unwritten, func(m Message) bool { return unwanted(&m) })
	return found || len(s.log.unwritten) < given
}

func (s *Stream) wakeLocked() {
	if s.consumer != nil && !s.held {
		s.consumer.wakeUp()
	}
}

func (s *Stream) hasLocked(m *Message) bool {
	return slices.ContainsFunc(s.queue, func(q Message) bool { return q.same(m) })
}

// dropLocked removes the first message for which f returns true.
func (s *Stream) dropLocked(f func(*Message) bool) bool {
	for i := range s.queue {
		if f(&s.queue[i]) {
			s.bytes -= s.queue[i].Len()
			s.queue = slices.Delete(s.queue, i, i+1)
			s.chargeHistoryLocked()
			s.chargePendingLocked()
			s.signalSpaceLocked() // perhaps no Take follows that would signal it
			return true
		}
	}
	return false
}

// slowLocked reports whether the receiver is slow: half of the limits is queued.
func (s *Stream) slowLocked() bool {
	l := &s.core.rules.Limits
	return len(s.queue) >= l.Messages/2 || s.bytes >= s.maxBytesLocked()/2
}

// fullLocked reports whether m must wait. A message larger than the limit fits if nothing
// else is queued. Senders do not wait for a disconnected client: retained messages are
// trimmed from the other end.
func (s *Stream) fullLocked(m *Message) bool {
	if s.isAwayLocked() {
		return false
	}
	l := &s.core.rules.Limits
	return len(s.queue) > 0 && (len(s.queue) >= l.Messages || s.bytes+m.Len() > s.maxBytesLocked())
}

// reducedBytes is the limit of a stream if its principal has reached a limit of Pending.
const reducedBytes = 4 * pendingGrain

// maxBytesLocked returns how many bytes may be queued.
func (s *Stream) maxBytesLocked() int {
	r := s.core.rules
	if s.account != nil && r.Pending.isFull(s.account) {
		return min(r.Limits.Bytes, reducedBytes)
	}
	return r.Limits.Bytes
}

// chargePendingLocked updates the bytes that Pending counts for the stream. It must be
// called after every change of the queue or of the bytes being written. The queue of a
// disconnected client counts in the LogPool instead.
func (s *Stream) chargePendingLocked() {
	p := s.core.rules.Pending
	if p == nil {
		return
	}
	n := s.writing
	if !s.isAwayLocked() {
		n += s.bytes
	}
	if n > 0 && s.ended {
		n += s.overhead
	}
	n -= n % p.limits.Grain
	if n == s.charged {
		return
	}
	if s.account == nil {
		s.account = p.open(s.core.principal)
	}
	p.add(s.account, int64(n-s.charged))
	if s.charged = n; n == 0 {
		p.close(s.account)
		s.account = nil
	}
}

func (s *Stream) spaceLocked() <-chan struct{} {
	if s.space == nil {
		s.space = make(chan struct{})
	}
	return s.space
}

func (s *Stream) signalSpaceLocked() {
	if s.space != nil {
		close(s.space)
		s.space = nil
	}
}
