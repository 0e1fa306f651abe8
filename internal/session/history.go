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

// What keeping costs besides the bytes of the messages, so that a great many
// small ones are bounded too.
const (
	streamCost  = 512 // an exchange that has ended
	messageCost = 160 // a Message
)

// history is what the carriers of a resumable stream have taken: the last of it,
// in order and without a gap. The messages are those that were appended; nobody
// copies their bytes.
type history struct {
	stream  *Stream
	request mcp.ID // zero for the standalone stream

	events []Message // the last has the position stream.taken
	bytes  int       // of events
	cost   int       // as it was last added to the session's
	since  uint64    // the first position whose id a client can have
	due    time.Time // when it is given up; zero while that is not known

	shared bool // something was given up for want of room for all sessions

	// unwritten is what a carrier of the standalone stream took and could not
	// write, and what nobody has come back for.
	unwritten []Message
}

// record adds a message that a carrier takes. It keeps the question in it: who
// takes that from here and cannot write it gives it back like any other.
func (h *history) record(m Message) {
	h.events = append(h.events, m)
	h.bytes += m.Len() + messageCost
}

// first is the position after which everything is there.
func (h *history) first() uint64 { return h.stream.taken - uint64(len(h.events)) }

// after returns what follows a position that is not before first.
func (h *history) after(pos uint64) []Message { return h.events[pos-h.first():] }

// forget drops the oldest message.
func (h *history) forget() {
	h.bytes -= h.events[0].Len() + messageCost
	h.events[0] = Message{} // the array keeps its room
	h.events = h.events[1:]
}

// wasHanded reports whether a client can have an id of the stream.
func (h *history) wasHanded() bool { return h.since <= h.stream.taken }

// weight is what the history is worth in bytes. What waits on a stream that
// nobody carries is kept for its client as well; the standalone stream has a
// bound of its own for that.
func (h *history) weight() int {
	w, s := streamCost+h.bytes, h.stream
	if s.carrier == nil && !s.standing {
		w += s.bytes + messageCost*len(s.queue)
	}
	return w
}

// isSpared reports whether all that is left of the history is still to be taken
// by who carries it.
func (h *history) isSpared() bool {
	c := h.stream.carrier
	switch {
	case len(h.events) > 0:
		return c != nil && h.first() >= c.at
	case c != nil, h.stream.standing:
		return true
	default:
		return len(h.stream.queue) == 0
	}
}

// trim gives up the oldest message that isSpared does not protect. It is never a
// terminal that nobody has taken: a stream that has one is given up as a whole, or
// spared.
func (h *history) trim(counts *Counters) {
	counts.Purged.Add(1)
	if len(h.events) > 0 {
		h.forget()
		return
	}
	s := h.stream
	if a := s.queue[0].ask; a != nil {
		s.core.endAskLocked(a, Terminal{Err: ErrNoReceiver})
	}
	s.bytes -= s.queue[0].Len()
	s.queue = slices.Delete(s.queue, 0, 1)
	s.countLocked()
	s.taken++ // its place is empty, and whoever comes back sees that
}

// past is what a session keeps for clients that come back.
type past struct {
	owner   owner      // of the session
	open    []*history // of streams that have not ended
	over    []*history // of those that have, in the order in which they did
	resting []*history // of these, those that nobody carries and whose time may not have begun
	graves  []grave    // of histories that were given up, oldest first
	bytes   int
}

// grave is what is left of a history: enough to answer for its request.
type grave struct {
	stream, last uint64 // the last position there was
	request      mcp.ID
	over, aged   bool
	shared       bool
}

// maxGraves bounds what is known of what was given up. Beyond, an id is unknown.
const maxGraves = 64

// LogPool bounds what the sessions of one server keep, all together. Its methods
// may be called concurrently.
//
// Where it is exceeded, each owner of sessions may keep an equal part, and each of an
// owner's sessions an equal part of that: so that who keeps little loses nothing by
// those who keep much, however many sessions they open for it.
type LogPool struct {
	most int64
	used atomic.Int64

	// mu is taken while a session's lock is held: what a session keeps changes only
	// there, and an account that were kept behind its back would be wrong while it
	// decides what to give up. It is a leaf: nothing is called under it, neither a
	// session nor anybody else's, so that no order of locks can be got wrong.
	mu     sync.Mutex
	owners map[owner]int // how many sessions of each keep something
}

// NewLogPool returns a pool of so many bytes.
func NewLogPool(most int64) *LogPool {
	return &LogPool{most: most, owners: make(map[owner]int)}
}

// IsFull reports whether more is kept than fits: then it is time to call Expire
// of every session that keeps something.
func (p *LogPool) IsFull() bool { return p != nil && p.used.Load() > p.most }

// Used returns how many bytes are kept.
func (p *LogPool) Used() int64 {
	if p == nil {
		return 0
	}
	return p.used.Load()
}

// share returns how much one session of the owner may keep which alone may keep so
// much.
func (p *LogPool) share(own owner, alone int) int {
	if !p.IsFull() {
		return alone
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	part := p.most / int64(max(len(p.owners), 1)) / int64(max(p.owners[own], 1))
	return int(min(int64(alone), part))
}

// add notes how much a session of the owner keeps now, and kept before.
func (p *LogPool) add(own owner, before, after int) {
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

// keepLocked makes the stream resumable.
func (s *Stream) keepLocked() {
	if s.log != nil || s.number == 0 || s.lost || s.core.ended {
		return
	}
	s.log = &history{stream: s, request: s.request, since: s.taken + 1}
	if s.core.past == nil {
		s.core.past = &past{owner: s.core.owner()}
	}
	if s.ended {
		s.core.past.over = append(s.core.past.over, s.log)
	} else {
		s.core.past.open = append(s.core.past.open, s.log)
	}
	s.weighLocked()
}

// forgetLogLocked is for a stream of which no client was ever given a place: there
// is nothing to come back to, and nobody to be told that it is gone.
func (s *Stream) forgetLogLocked() {
	h := s.log
	if h == nil {
		return
	}
	p := s.core.past
	p.remove(h)
	s.core.chargeLocked(h, 0)
	s.log = nil
}

// weighLocked brings the session's account up to date, and has it give up what
// is too much. It comes after every change of what a stream keeps.
func (s *Stream) weighLocked() {
	if s.log == nil {
		return
	}
	s.core.chargeLocked(s.log, s.log.weight())
	s.core.purgeLocked()
}

func (c *core) chargeLocked(h *history, weight int) {
	before := c.past.bytes
	c.past.bytes += weight - h.cost
	h.cost = weight
	c.rules.Logs.add(c.past.owner, before, c.past.bytes)
}

// retireLocked notes that the stream has ended: from now on it is kept for a
// time only.
func (s *Stream) retireLocked() {
	if s.log == nil {
		return
	}
	p := s.core.past
	p.open = without(p.open, s.log)
	p.over = append(p.over, s.log)
	if s.carrier == nil {
		p.rest(s.log)
	}
}

// purgeLocked gives up what is more than fits: streams that have ended first, and
// of these the oldest; then the oldest message of the stream that keeps most, so
// that one that says much costs the others nothing. What somebody carries and has
// yet to take stays, as what waits on a stream does.
//
// The stream that ended last stays, whatever its size, as long as there is room in
// the pool: the one result that is larger than the bound would be lost to whoever
// blinks.
func (c *core) purgeLocked() {
	for {
		// Looked at once for each round: other sessions fill the pool and empty it, and what
		// is the latest to one half of a round must not be the largest to the other.
		full := c.rules.Logs.IsFull()
		latest := c.latestLocked(full)
		if !c.isOverfullLocked(latest) {
			return
		}
		if h := c.oldestLocked(latest); h != nil {
			h.shared = h.shared || full
			c.buryLocked(h, false)
			continue
		}
		h := c.largestLocked(latest)
		if h == nil {
			return
		}
		h.shared = h.shared || full
		h.trim(c.rules.Counts)
		c.chargeLocked(h, h.weight())
	}
}

func (c *core) isOverfullLocked(latest *history) bool {
	most := c.rules.Logs.share(c.past.owner, c.rules.Limits.LogBytes)
	kept := c.past.bytes
	if latest != nil && latest.cost > most {
		kept -= latest.cost
	}
	return kept > most
}

// latestLocked returns the history that is kept besides all others, if there is
// one: none where the pool is full.
func (c *core) latestLocked(full bool) *history {
	if n := len(c.past.over); n > 0 && !full {
		return c.past.over[n-1]
	}
	return nil
}

func (c *core) oldestLocked(latest *history) *history {
	for _, h := range c.past.over {
		if h.stream.carrier == nil && h != latest {
			return h
		}
	}
	return nil
}

func (c *core) largestLocked(latest *history) *history {
	var largest *history
	for _, all := range [][]*history{c.past.over, c.past.open} {
		for _, h := range all {
			if h != latest && !h.isSpared() && (largest == nil || h.cost > largest.cost) {
				largest = h
			}
		}
	}
	return largest
}

// buryLocked gives up a history, because of its age or for want of room.
func (c *core) buryLocked(h *history, aged bool) {
	p, s := c.past, h.stream
	p.remove(h)
	c.chargeLocked(h, 0)
	if !aged {
		c.rules.Counts.Purged.Add(uint64(len(h.events)))
	}
	last := s.taken
	if s.ended && len(s.queue) > 0 {
		c.rules.Counts.Undelivered.Add(1)
		last += uint64(len(s.queue))
	}
	if !h.request.IsZero() && (!s.ended || s.answered) {
		if len(p.graves) == maxGraves {
			p.graves = slices.Delete(p.graves, 0, 1)
		}
		p.graves = append(p.graves, grave{stream: s.number, last: last, request: h.request, over: s.ended, aged: aged, shared: h.shared})
	}
	s.log = nil
	s.clearLocked()
}

// rest notes that nobody carries the stream, which has ended: its time is to begin.
func (p *past) rest(h *history) {
	h.due = time.Time{}
	if !slices.Contains(p.resting, h) {
		p.resting = append(p.resting, h)
	}
}

func (p *past) remove(h *history) {
	p.open, p.over, p.resting = without(p.open, h), without(p.over, h), without(p.resting, h)
}

// without returns the list without the history, which is near its beginning.
func without(all []*history, h *history) []*history {
	if i := slices.Index(all, h); i >= 0 {
		return slices.Delete(all, i, i+1)
	}
	return all
}

// forgetPastLocked gives up everything, because the session has ended.
func (c *core) forgetPastLocked() {
	if c.past == nil {
		return
	}
	c.rules.Logs.add(c.past.owner, c.past.bytes, 0)
	for _, all := range [][]*history{c.past.over, c.past.open} {
		for _, h := range all {
			h.leave()
		}
	}
	c.past = nil
}

// leave has who carries the stream take the rest from the queue. Where there is none, no
// client can come back for it.
func (h *history) leave() {
	s := h.stream
	if c := s.carrier; c != nil && c.at < s.taken {
		rest := slices.Clone(h.after(c.at))
		for i := range rest {
			rest[i].stream = 0
			s.bytes += rest[i].Len()
		}
		old := s.queue
		s.queue = append(rest, old...)
		clear(old)
		c.at = s.taken
	}
	s.log = nil
	if s.carrier == nil {
		s.clearLocked()
	}
	s.countLocked()
}
