// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The cost of a retained message or stream in addition to the bytes of the message, so that
// many small ones are limited too.
const (
	streamCost  = 512 // an exchange that has ended
	messageCost = 160 // a Message
)

// history holds the newest messages that the consumers of a resumable stream have taken, in
// order and without a gap. The bytes of the messages are shared, not copied.
type history struct {
	stream  *Stream
	request mcp.ID // zero for the standalone stream

	events []Message // the last has the position stream.lastPos
	bytes  int       // of events
	cost   int       // as last added to the session's bytes
	since  uint64    // the first position with an id that a client can have
	due    time.Time // when it expires; zero while unknown

	sharedLimit bool // a message was dropped because the LogPool was full

	// unwritten holds the messages of the standalone stream that a consumer took and could
	// not write, and that no client has resumed from.
	unwritten []Message
}

// record adds a message that a consumer takes. It keeps the reference to an Ask: a consumer
// that cannot write a replayed message requeues it like any other.
func (h *history) record(m Message) {
	m.Timeline = nil // it would retain the request
	h.events = append(h.events, m)
	h.bytes += m.Len() + messageCost
}

// first returns the position after which all messages are retained.
func (h *history) first() uint64 { return h.stream.lastPos - uint64(len(h.events)) }

// after returns the messages after a position, which must not be before first.
func (h *history) after(pos uint64) []Message { return h.events[pos-h.first():] }

func (h *history) dropOldest() {
	h.bytes -= h.events[0].Len() + messageCost
	h.events[0] = Message{} // the array itself remains
	h.events = h.events[1:]
}

// hasIssuedID reports whether a client can have an id of the stream.
func (h *history) hasIssuedID() bool { return h.since <= h.stream.lastPos }

// size returns the cost of the history in bytes. It includes the queue of a stream without
// a consumer; the queue of the standalone stream has its own limit.
func (h *history) size() int {
	w, s := streamCost+h.bytes, h.stream
	if s.consumer == nil && !s.standalone {
		w += s.bytes + messageCost*len(s.queue)
	}
	return w
}

// isProtected reports whether the current consumer has yet to take all of the history.
func (h *history) isProtected() bool {
	c := h.stream.consumer
	switch {
	case len(h.events) > 0:
		return c != nil && h.first() >= c.pos
	case c != nil, h.stream.standalone:
		return true
	default:
		return len(h.stream.queue) == 0
	}
}

// trim drops the oldest message that isProtected does not protect. It never drops a
// terminal that was not taken: a stream with a queued terminal is dropped as a whole, or
// protected.
func (h *history) trim(counts *Counters) {
	counts.Purged.Add(1)
	if len(h.events) > 0 {
		h.dropOldest()
		return
	}
	s := h.stream
	if a := s.queue[0].ask; a != nil {
		s.core.endAskLocked(a, Terminal{Err: ErrNoReceiver})
	}
	s.bytes -= s.queue[0].Len()
	s.queue = slices.Delete(s.queue, 0, 1)
	s.chargePendingLocked()
	s.lastPos++ // leaves a gap that a client detects when it resumes
}

// histories are what a session retains for clients that reconnect.
type histories struct {
	owner      owner       // of the session
	active     []*history  // of streams that have not ended
	ended      []*history  // of streams that have ended, in the order of their ends
	detached   []*history  // those of ended without a consumer; their retention may not have begun
	tombstones []tombstone // of histories that were dropped, oldest first
	bytes      int
}

// tombstone is the record of a dropped history: enough to answer for its request.
type tombstone struct {
	stream, last uint64 // the last position
	gone         GoneError
}

// maxTombstones limits the tombstones of a session. Beyond it, an id is unknown.
const maxTombstones = 64

// LogPool limits what all sessions of one server retain together. Its methods may be called
// concurrently.
//
// Beyond the limit, each owner of sessions may retain an equal share, and each session of
// an owner an equal part of that share: an owner that retains little loses nothing to those
// that retain much, however many sessions they open.
type LogPool struct {
	limit int64
	used  atomic.Int64

	// mu is acquired with a session's lock held: a session's retained bytes change only
	// under that lock, and a stale total would be wrong while the session decides what to
	// drop. mu is a leaf: no other lock is acquired under it.
	mu     sync.Mutex
	owners map[owner]int // to the number of its sessions that retain something
}

// NewLogPool returns a pool with a limit in bytes.
func NewLogPool(limit int64) *LogPool {
	return &LogPool{limit: limit, owners: make(map[owner]int)}
}

// IsFull reports whether the limit is exceeded. Then the caller must call Expire on every
// session that retains something.
func (p *LogPool) IsFull() bool { return p != nil && p.used.Load() > p.limit }

// Used returns how many bytes are retained.
func (p *LogPool) Used() int64 {
	if p == nil {
		return 0
	}
	return p.used.Load()
}

// share returns how much a session of the owner may retain; alone is its own limit.
func (p *LogPool) share(own owner, alone int) int {
	if !p.IsFull() {
		return alone
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	part := p.limit / int64(max(len(p.owners), 1)) / int64(max(p.owners[own], 1))
	return int(min(int64(alone), part))
}

// update records that a session of the owner now retains after bytes instead of before.
func (p *LogPool) update(own owner, before, after int) {
	if p == nil {
		return
	}
	p.used.Add(int64(after - before))
	switch {
	case before == 0 && after != 0:
		p.count(own, 1)
	case before != 0 && after == 0:
		p.count(own, -1)
	}
}

func (p *LogPool) count(own owner, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owners[own] += n
	if p.owners[own] == 0 {
		delete(p.owners, own)
	}
}

// MakeResumable makes the stream retain the messages that the consumer takes from now on,
// so that a client can reconnect: each message gets an id, and Detach of an exchange's
// consumer does not lose the stream. It must be called before the first Take of messages
// with ids. It does nothing outside a session.
func (c *Consumer) MakeResumable() {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.consumer != c || s.log != nil || s.number == 0 || s.lost || s.core.ended {
		return
	}
	s.log = &history{stream: s, request: s.request, since: s.lastPos + 1}
	if s.core.histories == nil {
		s.core.histories = &histories{owner: ownerOf(s.core.session)}
	}
	if s.ended {
		s.core.histories.ended = append(s.core.histories.ended, s.log)
	} else {
		s.core.histories.active = append(s.core.histories.active, s.log)
	}
	s.chargeHistoryLocked()
}

// removeHistoryLocked removes the history of a stream without issued ids: no client can
// resume it.
func (s *Stream) removeHistoryLocked() {
	if s.log == nil {
		return
	}
	s.core.histories.remove(s.log)
	s.core.setCostLocked(s.log, 0)
	s.log = nil
}

// chargeHistoryLocked updates the bytes that the session retains and drops what exceeds the
// limits. It must be called after every change of what a stream retains.
func (s *Stream) chargeHistoryLocked() {
	if s.log == nil {
		return
	}
	s.core.setCostLocked(s.log, s.log.size())
	s.core.purgeLocked()
}

func (c *core) setCostLocked(h *history, weight int) {
	before := c.histories.bytes
	c.histories.bytes += weight - h.cost
	h.cost = weight
	c.rules.Logs.update(c.histories.owner, before, c.histories.bytes)
}

// retireLocked notes that the stream has ended: from now on it is retained for a limited
// time.
func (s *Stream) retireLocked() {
	if s.log == nil {
		return
	}
	p := s.core.histories
	p.active = without(p.active, s.log)
	p.ended = append(p.ended, s.log)
	if s.consumer == nil {
		p.markDetached(s.log)
	}
}

// purgeLocked drops what exceeds the limits: streams that have ended first, the oldest
// first; then the oldest message of the largest stream, so that a verbose stream costs the
// others nothing. Messages that a consumer has yet to take are protected, as is the queue.
//
// The stream that ended last is retained whatever its size, unless the pool is full:
// otherwise a result larger than the limit would be lost by a short disconnect.
func (c *core) purgeLocked() {
	for {
		// Read once per round: other sessions fill and empty the pool, and one history must
		// not be the latest for oldestLocked and not for largestLocked.
		full := c.rules.Logs.IsFull()
		latest := c.latestLocked(full)
		if !c.isOverLimitLocked(latest) {
			return
		}
		if h := c.oldestLocked(latest); h != nil {
			h.sharedLimit = h.sharedLimit || full
			c.dropHistoryLocked(h, false)
			continue
		}
		h := c.largestLocked(latest)
		if h == nil {
			return
		}
		h.sharedLimit = h.sharedLimit || full
		h.trim(c.rules.Counts)
		c.setCostLocked(h, h.size())
	}
}

func (c *core) isOverLimitLocked(latest *history) bool {
	limit := c.rules.Logs.share(c.histories.owner, c.rules.Limits.LogBytes)
	kept := c.histories.bytes
	if latest != nil && latest.cost > limit {
		kept -= latest.cost
	}
	return kept > limit
}

// latestLocked returns the history that is retained regardless of the session's limit, or
// nil if no history is, or the pool is full.
func (c *core) latestLocked(full bool) *history {
	if n := len(c.histories.ended); n > 0 && !full {
		return c.histories.ended[n-1]
	}
	return nil
}

func (c *core) oldestLocked(latest *history) *history {
	for _, h := range c.histories.ended {
		if h.stream.consumer == nil && h != latest {
			return h
		}
	}
	return nil
}

func (c *core) largestLocked(latest *history) *history {
	var largest *history
	for _, all := range [][]*history{c.histories.ended, c.histories.active} {
		for _, h := range all {
			if h != latest && !h.isProtected() && (largest == nil || h.cost > largest.cost) {
				largest = h
			}
		}
	}
	return largest
}

// dropHistoryLocked drops a history because it is too old or exceeds a limit.
func (c *core) dropHistoryLocked(h *history, expired bool) {
	p, s := c.histories, h.stream
	p.remove(h)
	c.setCostLocked(h, 0)
	if !expired {
		c.rules.Counts.Purged.Add(uint64(len(h.events)))
	}
	last := s.lastPos
	if s.ended && len(s.queue) > 0 {
		c.rules.Counts.Undelivered.Add(1)
		last += uint64(len(s.queue))
	}
	if !h.request.IsZero() && (!s.ended || s.answered) {
		if len(p.tombstones) == maxTombstones {
			p.tombstones = slices.Delete(p.tombstones, 0, 1)
		}
		p.tombstones = append(p.tombstones, tombstone{stream: s.number, last: last,
			gone: GoneError{Request: h.request, Ended: s.ended, Expired: expired, SharedLimit: h.sharedLimit}})
	}
	s.log = nil
	s.clearLocked()
}

// markDetached notes that the ended stream has no consumer, so that its retention can
// begin.
func (p *histories) markDetached(h *history) {
	h.due = time.Time{}
	if !slices.Contains(p.detached, h) {
		p.detached = append(p.detached, h)
	}
}

func (p *histories) remove(h *history) {
	p.active, p.ended, p.detached = without(p.active, h), without(p.ended, h), without(p.detached, h)
}

// without removes the history from the list. It is near the beginning.
func without(all []*history, h *history) []*history {
	if i := slices.Index(all, h); i >= 0 {
		return slices.Delete(all, i, i+1)
	}
	return all
}

// dropHistoriesLocked drops all histories, because the session has ended.
func (c *core) dropHistoriesLocked() {
	if c.histories == nil {
		return
	}
	c.rules.Logs.update(c.histories.owner, c.histories.bytes, 0)
	for _, all := range [][]*history{c.histories.ended, c.histories.active} {
		for _, h := range all {
			h.moveToQueue()
		}
	}
	c.histories = nil
}

// moveToQueue moves the messages that the consumer has yet to take to the queue. Without a
// consumer the queue is cleared, because no client can resume the stream.
func (h *history) moveToQueue() {
	s := h.stream
	if c := s.consumer; c != nil && c.pos < s.lastPos {
		rest := slices.Clone(h.after(c.pos))
		for i := range rest {
			rest[i].stream = 0
			s.bytes += rest[i].Len()
		}
		old := s.queue
		s.queue = append(rest, old...)
		clear(old)
		c.pos = s.lastPos
	}
	s.log = nil
	if s.consumer == nil {
		s.clearLocked()
	}
	s.chargePendingLocked()
}
