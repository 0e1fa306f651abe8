// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"cmp"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// mark is the number of a message. It is part of the message, so that the model knows where
// the message belongs wherever it is received.
type mark uint32

// origin is where a message was appended.
type origin struct {
	at    *stream
	index int // in at.entries
}

// padding returns the filler of large messages.
func padding() []byte { return bytes.Repeat([]byte("."), 64<<10) }

// text returns the beginning of the message with this mark.
func (m mark) text() []byte { return strconv.AppendUint([]byte{'m'}, uint64(m), 10) }

// readMark returns the mark of a message, or 0 if package session generated the message.
func readMark(text []byte) mark {
	if len(text) < 2 || text[0] != 'm' {
		return 0
	}
	n := mark(0)
	for _, c := range text[1:] {
		n = n*10 + mark(c-'0')
	}
	return n
}

// kind is the kind of an entry in the model.
type kind uint8

const (
	plain kind = iota
	progress
	log
	change
	opening
	question   // an ask
	withdrawal // generated when an ask has ended
	terminal
	taskStatus // of a backend's task
)

// fate is the state of an entry.
type fate uint8

const (
	queued  fate = iota
	taken        // by a consumer
	dropped      // it must not be delivered any more
)

// entry is a message that a stream has accepted.
//
// deferred, front and optional are the only exceptions to the order of appending. Each is
// set in one place, and an entry without any of them must be delivered once, after those
// before it.
type entry struct {
	mark     mark
	kind     kind
	key      int // of progress and changes; the number of a question or withdrawal
	size     int
	fate     fate
	deferred bool // by the rate limit: it has no place in the order yet
	front    bool // it precedes what was accepted earlier
	optional bool // it may be missing: there is a newer one, or the receiver was slow
}

// stream is the model of one stream: everything appended to it, and what must and must not
// be delivered.
type stream struct {
	name        string
	of          *request // nil for the standalone stream of a session
	sess        *sess    // nil in the modern era
	real        *session.Stream
	entries     []entry
	firstQueued int    // entries before it are not queued
	positions   []mark // the message at each position, from position 1
	writer      *writer
	waiters     []<-chan struct{} // senders that wait for space

	cost         int      // of everything that is retained
	logged       int      // the part of it that was taken
	expired      bool     // its retention has ended
	endSeq       int      // its place among the resumable streams that have ended; 0 before that
	wasRetained  bool     // before this step: it had ended, and its client was away
	trimmable    bool     // some of it may have been dropped to stay within a limit
	resumable    bool     // a client can come back to it
	firstID      uint64   // the first position with an id that a client can have
	number       uint64   // in event ids; 0 while unknown
	requeued     []packet // of the standalone stream: not written, and not resumed from
	attached     int      // consumers that have not detached, superseded ones included
	pausing      bool
	retainedFrom time.Time // when its retention began; zero before that
	refusals     int       // clients that were informed of missing messages
	missed       int       // the last of these that was not made up for; 0 for none
	reportedGone bool      // a client was informed that it is gone
	forgotten    bool      // it ended with its session

	held          bool
	opening       bool // it has an opening that was not taken
	ended         bool
	lost          bool
	terminalTaken bool // the terminal was taken
}

// add records a message that the stream has accepted.
func (w *world) add(s *stream, e entry) *entry {
	if e.mark == 0 {
		e.mark = w.mint()
	}
	if s.lost {
		e.fate = dropped
	}
	s.cost += messageCost + cmp.Or(e.size, generatedSize)
	s.entries = append(s.entries, e)
	w.marks[e.mark] = origin{s, len(s.entries) - 1}
	return &s.entries[len(s.entries)-1]
}

// mint returns a new mark.
func (w *world) mint() mark {
	w.marks = append(w.marks, origin{})
	return mark(len(w.marks) - 1)
}

// load is how much is queued on a stream.
type load struct{ count, bytes int }

// loads returns how much may be queued at most, and how much certainly is.
//
// They differ, because optional entries may have been dropped: accepting a message is wrong
// only beyond what is certainly queued, and refusing one only below what may be queued.
func (s *stream) loads() (most, sure load) {
	for i := s.firstQueued; i < len(s.entries); i++ {
		e := &s.entries[i]
		if e.fate != queued || e.deferred {
			continue
		}
		most.count++
		most.bytes += e.size
		if !e.optional {
			sure.count++
			sure.bytes += e.size
		}
	}
	return most, sure
}

// isSlow reports whether so much is queued that messages may be dropped.
func (w *world) isSlow(l load) bool {
	return l.count >= w.set.limits.Messages/2 || l.bytes >= w.set.limits.Bytes/2
}

// find returns the entry of a message, or nil.
//
// A message is identified by its content, never by its place in the queue: the place is to
// be checked.
func (w *world) find(s *stream, m *session.Message) *entry {
	if n := readMark(m.Head); n != 0 {
		if int(n) >= len(w.marks) || w.marks[n].at != s {
			return nil
		}
		e := &s.entries[w.marks[n].index]
		for i := s.firstQueued; e.fate != queued && i < len(s.entries); i++ {
			if s.entries[i].mark == n && s.entries[i].fate == queued {
				e = &s.entries[i] // it is delivered to more than one client that begins anew
			}
		}
		return e
	}
	kind, key := parseGenerated(m.Head)
	for i := s.firstQueued; i < len(s.entries); i++ {
		e := &s.entries[i]
		if e.kind == kind && e.fate == queued && (e.key == key || kind == terminal) {
			return e
		}
	}
	return nil
}

// parseGenerated parses a message that package session generated: an ask, its withdrawal,
// or the error of a request after the end of its session.
func parseGenerated(text []byte) (kind, int) {
	switch {
	case bytes.Contains(text, []byte(`"notifications/cancelled"`)):
		return withdrawal, numberAfter(text, `"requestId":`)
	case bytes.Contains(text, []byte(`"error"`)):
		return terminal, 0
	default:
		return question, numberAfter(text, `"id":`)
	}
}

func numberAfter(text []byte, label string) int {
	_, rest, _ := bytes.Cut(text, []byte(label))
	n := 0
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// maxTaken is how much one Take returns.
const maxTaken = 64 << 10

// checkTaken checks what a consumer took against what was appended.
//
// New messages follow those that were taken before, without a gap: a consumer that resumes
// gets the same message at the same position, and then continues as the only one (M056,
// M065).
func (w *world) checkTaken(t *writer, batch []session.Message, state session.State) {
	s := t.stream
	if len(batch) > 0 && s.held {
		w.fail("I34", "%s delivers %q before it was ready", s.name, batch[0].Head)
	}
	fresh, size := false, 0
	for i := range batch {
		m := &batch[i]
		if size >= maxTaken {
			w.fail("I21", "%s returns %d messages at once, %d bytes before the last", s.name, len(batch), size)
		}
		size += m.Len()
		if m.Pos != t.pos+1 {
			w.fail("I13", "%s: %q has position %d, and position %d was before it", s.name, m.Head, m.Pos, t.pos)
			return
		}
		w.checkEvent(s, m)
		if t.pos++; t.pos <= uint64(len(s.positions)) {
			w.checkReplayed(s, m)
			continue
		}
		fresh = true
		w.checkTakenMessage(s, m)
	}
	if fresh {
		w.expectSpace(s)
	}
	w.checkTakenState(t, state)
}

// checkEvent checks that the id of a message identifies its stream and position, and
// nothing else.
func (w *world) checkEvent(s *stream, m *session.Message) {
	id := m.Event()
	switch {
	case !s.resumable:
		if !id.IsZero() {
			w.fail("I14", "%s cannot be resumed, and %q has the id %s", s.name, m.Head, id)
		}
	case id.Pos != m.Pos || id.Stream == 0:
		w.fail("I14", "%s: %q at %d has the id %s", s.name, m.Head, m.Pos, id)
	default:
		w.checkNumber(s, id.Stream)
	}
}

func (w *world) checkNumber(s *stream, number uint64) {
	if s.number == 0 {
		for _, o := range w.streams {
			if o.number == number {
				w.fail("I14", "%s and %s have the same ids", s.name, o.name)
			}
		}
		s.number = number
	}
	if s.number != number {
		w.fail("I14", "%s has ids of two streams", s.name)
	}
}

// checkReplayed checks that a client that resumes gets the same message at the same
// position.
func (w *world) checkReplayed(s *stream, m *session.Message) {
	w.replays++
	n := readMark(m.Head)
	want := s.positions[m.Pos-1]
	if n == 0 {
		kind, key := parseGenerated(m.Head)
		if e := w.entryOf(want); e.kind == kind && (e.key == key || kind == terminal) {
			return
		}
	}
	if n != want {
		w.fail("I13", "%s replays %q at %d, where m%d was", s.name, m.Head, m.Pos, want)
	}
}

func (w *world) entryOf(n mark) *entry {
	o := w.marks[n]
	return &o.at.entries[o.index]
}

func (w *world) checkTakenMessage(s *stream, m *session.Message) {
	e := w.find(s, m)
	switch {
	case e == nil:
		w.fail("I8", "%s delivers %q, which was not appended there", s.name, m.Head)
		return
	case s.terminalTaken:
		w.fail("I10", "%s has %q after its terminal", s.name, m.Head)
	case e.fate == taken:
		w.fail("I13", "%s delivers %q twice", s.name, m.Head)
	case e.fate == dropped:
		w.fail("I10", "%s delivers %q, which was dropped", s.name, m.Head)
	case e.deferred:
		w.fail("I10", "%s delivers %q before its time", s.name, m.Head)
	}
	if s.opening && e.kind != opening {
		w.fail("I34", "%s delivers m%d before its opening", s.name, e.mark)
	}
	s.opening = false
	if m.IsTerminal() != (e.kind == terminal) {
		w.fail("I10", "%s delivers m%d as its terminal: %v", s.name, e.mark, m.IsTerminal())
	}
	if !e.front {
		w.checkSkipped(s, e)
	}
	e.fate = taken
	if s.resumable {
		s.logged += messageCost + m.Len()
	}
	s.positions = append(s.positions, e.mark)
	s.terminalTaken = e.kind == terminal
	for s.firstQueued < len(s.entries) && s.entries[s.firstQueued].fate != queued {
		s.firstQueued++
	}
}

// checkSkipped checks the entries before e that were not delivered before it.
//
// They will never be delivered, or only out of order. So each is optional, or a message was
// lost here.
func (w *world) checkSkipped(s *stream, e *entry) {
	for i := s.firstQueued; &s.entries[i] != e; i++ {
		old := &s.entries[i]
		switch {
		case old.fate != queued:
		case old.deferred && e.kind != terminal:
		case old.deferred && s.hasNewer(i):
			old.fate = dropped
		case old.optional:
			old.fate = dropped
		default:
			w.fail("I10", "%s delivers m%d before m%d, or without it", s.name, e.mark, old.mark)
		}
	}
}

// hasNewer reports whether there is newer progress than entry i.
func (s *stream) hasNewer(i int) bool {
	for j := i + 1; j < len(s.entries); j++ {
		if s.entries[j].kind == progress && s.entries[j].key == s.entries[i].key {
			return true
		}
	}
	return false
}

// checkTakenState checks the State that a consumer received.
//
// Ended must not be reported early, while something is left to take, nor late, because the
// consumer would keep a connection open for a stream that has ended (M066).
func (w *world) checkTakenState(t *writer, state session.State) {
	s := t.stream
	rest, unsure := t.pos < uint64(len(s.positions)), false
	for i := s.firstQueued; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.fate == queued && !e.deferred {
			rest = rest || !e.optional
			unsure = unsure || e.optional
		}
	}
	want := session.Open
	switch {
	case s.ended && !rest:
		want = session.Ended
	case s.pausing:
		want = session.Paused
	}
	if state != want && (!unsure || want != session.Ended) {
		w.fail("I10", "%s: its consumer receives state %d, want %d", s.name, state, want)
	}
}

// expectSpace checks that all senders that wait for space are woken.
func (w *world) expectSpace(s *stream) {
	for _, c := range s.waiters {
		if !isClosed(c) {
			w.fail("I30", "%s has space, and a waiting sender is not woken", s.name)
		}
	}
	s.waiters = s.waiters[:0]
}

// drop marks queued entries as dropped.
func (s *stream) drop(which func(*entry) bool) {
	for i := s.firstQueued; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.fate == queued && which(e) {
			e.fate = dropped
		}
	}
}

func all(*entry) bool { return true }

func isQuestion(e *entry) bool { return e.kind == question }

// streamEnded records the end of a stream.
func (w *world) streamEnded(s *stream) {
	s.ended = true
	s.noteEnd()
	w.expectSpace(s)
}

// noteEnd records the order in which the resumable streams of a session end.
func (s *stream) noteEnd() {
	if s.ended && s.resumable && s.of != nil && s.endSeq == 0 {
		s.sess.lastEnded = s
		s.sess.ends++
		s.endSeq = s.sess.ends
	}
}

// hasQueued reports whether a message is certainly queued.
func (s *stream) hasQueued() bool {
	if s.held {
		return false
	}
	for i := s.firstQueued; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.fate == queued && !e.optional && !e.deferred {
			return true
		}
	}
	return false
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
