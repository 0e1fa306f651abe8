// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Stream is one logical sequence of messages to one client: the answer of an
// exchange, or what a session sends unasked. It exists whether or not something
// carries it.
//
// The machine that it belongs to guards it: methods with the suffix Locked need
// its lock.
type Stream struct {
	core     *core
	number   uint64 // in its session; 0 where there is none, and nothing to come back to
	request  mcp.ID // that it answers; zero for the standalone stream
	standing bool   // outlives its carriers
	held     bool   // nothing is given out yet
	ended    bool   // nothing is appended any more
	answered bool   // it ended with a terminal
	lost     bool   // its carrier is gone and none will follow
	pausing  bool   // its carrier is to end
	refused  uint64 // how often a client was refused what it had missed
	missed   uint64 // the refusal that nobody has made good yet; 0 where there is none
	retry    time.Duration

	queue   []Message
	bytes   int
	writing int      // bytes that carriers have taken and not written
	beside  int      // bytes that its memory keeps besides, once it has ended
	counted int      // bytes that are counted in the account
	account *account // of the principal; nil while nothing is counted
	taken   uint64   // how many messages carriers have taken: the last position
	log     *history // of what they took; nil where nobody can come back
	carrier *Consumer
	flow    *ResultStream // that the receiver gets instead of messages, or nil
	open    int           // carriers that have not detached, superseded ones included
	room    chan struct{} // closed when there is room again; nil while nobody waits
}

// Attach makes the stream's carrier, which is woken by the channel: it must have
// capacity 1, and may be shared by the carriers of one goroutine. An older carrier
// is revoked by this and is woken to see it.
func (s *Stream) Attach(wake chan struct{}) *Consumer {
	c := new(Consumer)
	s.AttachConsumer(c, wake)
	return c
}

// AttachConsumer is Attach with a Consumer of the caller's, which is a new one or one that has
// detached. It may be used again when it has detached from this stream: nobody
// knows of it then.
func (s *Stream) AttachConsumer(c *Consumer, wake chan struct{}) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	s.attachLocked(c, wake)
}

// TryAttach is Attach for carriers that others may make as they like. One that
// was superseded counts until it detaches, because it may be stuck in a write.
// The error is ErrTooMany, and then the older carrier goes on.
func (s *Stream) TryAttach(wake chan struct{}) (*Consumer, error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.open >= s.core.rules.Limits.Streams {
		return nil, ErrTooMany
	}
	c := new(Consumer)
	s.attachLocked(c, wake)
	return c, nil
}

// attachLocked makes a carrier that begins anew: nothing that was delivered comes
// again.
func (s *Stream) attachLocked(c *Consumer, wake chan struct{}) {
	s.settleLocked()
	s.attachAtLocked(c, wake, s.taken)
	c.missed = s.missed
}

// attachAtLocked makes a carrier that takes what follows a position.
func (s *Stream) attachAtLocked(c *Consumer, wake chan struct{}, pos uint64) {
	*c = Consumer{stream: s, wake: wake, at: pos}
	s.revokeLocked()
	s.carrier = c
	s.open++
	s.core.carriers++
	s.pausing = false
	s.weighLocked()
	s.countLocked()
	s.wakeLocked()
}

func (s *Stream) revokeLocked() {
	if s.carrier != nil {
		s.carrier.wakeUp()
		s.carrier = nil
		s.core.carriers--
		s.dropFlowLocked()
	}
}

// Append adds a message. Where the stream is full it adds nothing and returns a
// channel that is closed when it is worth trying again. The error is
// [mcp.ErrRequestEnded] or [ErrEnded].
func (s *Stream) Append(m Message) (full <-chan struct{}, err error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.appendLocked(m)
}

func (s *Stream) appendLocked(m Message) (<-chan struct{}, error) {
	if s.ended {
		return nil, s.endedErrLocked()
	}
	if s.isDeafLocked() {
		s.core.rules.Counts.Dropped.Add(1)
		return nil, nil
	}
	switch m.Class {
	case Opening:
		s.openLocked(m)
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
		return s.waitLocked(), nil
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

// pushLocked adds a message, whatever the limits are.
func (s *Stream) pushLocked(m Message) {
	s.growLocked()
	s.queue = append(s.queue, m)
	s.bytes += m.Len()
	s.weighLocked()
	s.countLocked()
	s.wakeLocked()
}

// growLocked makes room for one message more. What moves leaves nothing behind: the
// first array is a part of the exchange, which may be kept for longer.
func (s *Stream) growLocked() {
	if old := s.queue; len(old) == cap(old) {
		s.queue = append(make([]Message, 0, max(1, 2*len(old))), old...)
		clear(old)
	}
}

// openLocked puts the message before all others and gives out what was held.
func (s *Stream) openLocked(m Message) {
	s.held = false
	s.growLocked()
	s.queue = slices.Insert(s.queue, 0, m)
	s.bytes += m.Len()
	s.countLocked()
	s.wakeLocked()
}

// endLocked is the end: the last message, if any, and nothing after it. What
// was held for an opening that never came is dropped.
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
	s.weighLocked()
	s.countLocked()
	if s.lost {
		s.clearLocked()
		s.core.rules.Counts.Undelivered.Add(uint64(len(last)))
	}
	s.roomLocked()
	s.wakeLocked()
}

// loseLocked is the end of the receiver: what waits is dropped, asks that were
// not delivered fail, and what is appended later goes nowhere.
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
	s.dropFlowLocked()
	s.roomLocked()
}

func (s *Stream) clearLocked() {
	clear(s.queue)
	s.queue, s.bytes = nil, 0
	s.countLocked()
}

// abandonLocked drops what nobody will take, and what nobody waits for.
func (s *Stream) abandonLocked() {
	if s.carrier == nil {
		s.clearLocked()
	}
	s.dropAsksLocked()
}

// dropAsksLocked drops asks that nobody waits for any more.
func (s *Stream) dropAsksLocked() {
	for s.dropLocked(func(m *Message) bool { return m.ask != nil }) {
		// There may be another.
	}
}

func (s *Stream) wakeLocked() {
	if s.carrier != nil && !s.held {
		s.carrier.wakeUp()
	}
}

func (s *Stream) hasLocked(m *Message) bool {
	return slices.ContainsFunc(s.queue, func(q Message) bool { return q.same(m) })
}

// dropLocked removes the first message that f chooses.
func (s *Stream) dropLocked(f func(*Message) bool) bool {
	for i := range s.queue {
		if f(&s.queue[i]) {
			s.bytes -= s.queue[i].Len()
			s.queue = slices.Delete(s.queue, i, i+1)
			s.weighLocked()
			s.countLocked()
			s.roomLocked() // no Take may come that would say so
			return true
		}
	}
	return false
}

// slowLocked reports whether so much waits that the receiver cannot be keeping
// up: half of what fits.
func (s *Stream) slowLocked() bool {
	l := &s.core.rules.Limits
	return len(s.queue) >= l.Messages/2 || s.bytes >= s.mostLocked()/2
}

// fullLocked reports whether m must wait. A message that is larger than the
// limit fits where nothing else is. Nobody waits for a client that is away: what
// is too much then is given up from the other end.
func (s *Stream) fullLocked(m *Message) bool {
	if s.isAwayLocked() {
		return false
	}
	l := &s.core.rules.Limits
	return len(s.queue) > 0 && (len(s.queue) >= l.Messages || s.bytes+m.Len() > s.mostLocked())
}

// scarceBytes is what may wait on a stream whose principal has reached a limit of
// Pending.
const scarceBytes = 4 * pendingGrain

// mostLocked returns how many bytes may wait on the stream.
func (s *Stream) mostLocked() int {
	r := s.core.rules
	if s.account != nil && r.Pending.isFull(s.account) {
		return min(r.Limits.Bytes, scarceBytes)
	}
	return r.Limits.Bytes
}

// countLocked brings what Pending counts of the stream up to date. It comes after every
// change of what waits on it or is being written. What waits for a client that is away is
// in the LogPool.
func (s *Stream) countLocked() {
	p := s.core.rules.Pending
	if p == nil {
		return
	}
	n := s.writing
	if !s.isAwayLocked() {
		n += s.bytes
	}
	if n > 0 && s.ended {
		n += s.beside
	}
	n -= n % p.limits.Grain
	if n == s.counted {
		return
	}
	if s.account == nil {
		s.account = p.open(s.core.principal)
	}
	p.hold(s.account, int64(n-s.counted))
	if s.counted = n; n == 0 {
		p.close(s.account)
		s.account = nil
	}
}

func (s *Stream) waitLocked() <-chan struct{} {
	if s.room == nil {
		s.room = make(chan struct{})
	}
	return s.room
}

func (s *Stream) roomLocked() {
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}
