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

// mark is the number of a message. It stands in the message, so that wherever one
// turns up it is known where it belongs.
type mark uint32

// origin is where a message was put.
type origin struct {
	at    *stream
	index int // in at.entries
}

// padding is what makes a message as large as it is to be.
func padding() []byte { return bytes.Repeat([]byte("."), 64<<10) }

// text is the message of a mark, as its bytes begin.
func (m mark) text() []byte { return strconv.AppendUint([]byte{'m'}, uint64(m), 10) }

// readMark reads the mark of a message. It is 0 for one that a machine has made.
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

// sort is what kind of message an entry is, to the model.
type sort uint8

const (
	plain sort = iota
	progress
	log
	change
	opening
	question   // an ask
	withdrawal // the notice that an ask is over, which the machine makes
	terminal
	news // of a task, from a backend
)

// fate is what became of an entry.
type fate uint8

const (
	waits fate = iota
	taken      // a carrier has had it
	gone       // it must not be seen any more
)

// entry is a message that a stream has accepted.
//
// late, front and may are the only ways in which the order of a stream differs from
// that in which it was given things. Each is set at the one place where the rule
// for it is, and an entry without any of them must come out, once, behind those
// before it.
type entry struct {
	mark  mark
	sort  sort
	key   int // of progress and changes; the ask's number of questions and withdrawals
	size  int
	fate  fate
	late  bool // kept back for its time: it has no place in the order yet
	front bool // it goes before what was accepted earlier
	may   bool // it may be missing: there is a newer one, or the receiver was slow
}

// stream is what is known of one logical stream: all that it was given, and what
// must and must not come out of it.
type stream struct {
	name    string
	of      *request // nil for the standalone stream of a session
	sess    *sess    // nil in the modern era
	real    *session.Stream
	entries []entry
	first   int    // entries before it do not wait
	seen    []mark // what stands at each position, from position 1 on
	live    *writer
	fulls   []<-chan struct{} // who waits for room

	cost      int      // that keeping all of it would have
	logged    int      // of that, what was taken and is kept
	aged      bool     // it was kept for its time
	endNo     int      // its place among the streams that are kept and have ended; 0 while it has not
	wasThere  bool     // before this step: it had ended, and waited for its client
	tight     bool     // some of it may have been given up for want of room
	kept      bool     // a client can come back to it
	since     uint64   // the first position whose id a client can have
	number    uint64   // in event ids; 0 while none was seen
	back      []packet // of the standalone stream: written to nobody, and nobody has come back for it
	open      int      // carriers that have not detached, superseded ones included
	pausing   bool
	clock     time.Time // when its retention began; zero while it has not
	refused   int       // how often a client was told that something is gone
	missed    int       // which of these times nobody has made good; 0 for none
	buried    bool      // a client was told that it is gone
	forgotten bool      // it went with its session

	held    bool
	opening bool // it has one that was not taken
	ended   bool
	lost    bool
	over    bool // the terminal was taken
}

// add notes a message that the stream has accepted.
func (w *world) add(s *stream, e entry) *entry {
	if e.mark == 0 {
		e.mark = w.mint()
	}
	if s.lost {
		e.fate = gone
	}
	s.cost += messageCost + cmp.Or(e.size, machineMade)
	s.entries = append(s.entries, e)
	w.marks[e.mark] = origin{s, len(s.entries) - 1}
	return &s.entries[len(s.entries)-1]
}

// mint returns a mark that is nobody's yet.
func (w *world) mint() mark {
	w.marks = append(w.marks, origin{})
	return mark(len(w.marks) - 1)
}

// load is how much waits on a stream.
type load struct{ count, bytes int }

// most is how much can be waiting at most, sure is what waits for certain.
//
// There are two, because some entries may have been given up: to take a message is
// wrong only beyond what waits for certain, and to refuse one only below what may
// wait.
func (s *stream) loads() (most, sure load) {
	for i := s.first; i < len(s.entries); i++ {
		e := &s.entries[i]
		if e.fate != waits || e.late {
			continue
		}
		most.count++
		most.bytes += e.size
		if !e.may {
			sure.count++
			sure.bytes += e.size
		}
	}
	return most, sure
}

// isSlow reports whether so much waits that messages may be dropped.
func (w *world) isSlow(l load) bool {
	return l.count >= w.set.limits.Messages/2 || l.bytes >= w.set.limits.Bytes/2
}

// find returns the entry that a message is, or nil.
//
// A message is known by what stands in it, never by its place in the queue: the
// place is what is to be checked.
func (w *world) find(s *stream, m *session.Message) *entry {
	if n := readMark(m.Head); n != 0 {
		if int(n) >= len(w.marks) || w.marks[n].at != s {
			return nil
		}
		e := &s.entries[w.marks[n].index]
		for i := s.first; e.fate != waits && i < len(s.entries); i++ {
			if s.entries[i].mark == n && s.entries[i].fate == waits {
				e = &s.entries[i] // it is told to more than one who began anew
			}
		}
		return e
	}
	sort, key := madeByMachine(m.Head)
	for i := s.first; i < len(s.entries); i++ {
		e := &s.entries[i]
		if e.sort == sort && e.fate == waits && (e.key == key || sort == terminal) {
			return e
		}
	}
	return nil
}

// madeByMachine reads a message that a machine has put together: an ask, the notice
// that one is over, or the error that a request ends with whose session has ended.
func madeByMachine(text []byte) (sort, int) {
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

// mostTaken is how much a carrier takes before it writes.
const mostTaken = 64 << 10

// took holds what a carrier took against what the stream was given.
//
// Behind what was taken before comes what is new, without a gap: a carrier that
// comes back gets the same at the same position, and then goes on as the only one
// (M056, M065).
func (w *world) took(t *writer, batch []session.Message, state session.State) {
	s := t.at
	if len(batch) > 0 && s.held {
		w.fail("I34", "%s gave out %q before it was ready", s.name, batch[0].Head)
	}
	fresh, size := false, 0
	for i := range batch {
		m := &batch[i]
		if size >= mostTaken {
			w.fail("I21", "%s gives out %d messages at once, %d bytes before the last", s.name, len(batch), size)
		}
		size += m.Len()
		if m.Pos != t.pos+1 {
			w.fail("I13", "%s: %q has position %d, and position %d was before it", s.name, m.Head, m.Pos, t.pos)
			return
		}
		w.checkEvent(s, m)
		if t.pos++; t.pos <= uint64(len(s.seen)) {
			w.replayed(s, m)
			continue
		}
		fresh = true
		w.tookOne(s, m)
	}
	if fresh {
		w.expectRoom(s)
	}
	w.tookState(t, state)
}

// checkEvent: the id of a message names its stream, its place, and nothing else.
func (w *world) checkEvent(s *stream, m *session.Message) {
	id := m.Event()
	switch {
	case !s.kept:
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

// replayed: whoever comes back gets what stood there.
func (w *world) replayed(s *stream, m *session.Message) {
	w.replays++
	n := readMark(m.Head)
	want := s.seen[m.Pos-1]
	if n == 0 {
		sort, key := madeByMachine(m.Head)
		if e := w.entryOf(want); e.sort == sort && (e.key == key || sort == terminal) {
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

func (w *world) tookOne(s *stream, m *session.Message) {
	e := w.find(s, m)
	switch {
	case e == nil:
		w.fail("I8", "%s carries %q, which was not put there", s.name, m.Head)
		return
	case s.over:
		w.fail("I10", "%s has %q behind its terminal", s.name, m.Head)
	case e.fate == taken:
		w.fail("I13", "%s gives out %q twice", s.name, m.Head)
	case e.fate == gone:
		w.fail("I10", "%s gives out %q, which was dropped", s.name, m.Head)
	case e.late:
		w.fail("I10", "%s gives out %q before its time", s.name, m.Head)
	}
	if s.opening && e.sort != opening {
		w.fail("I34", "%s gives out m%d before its opening", s.name, e.mark)
	}
	s.opening = false
	if m.IsTerminal() != (e.sort == terminal) {
		w.fail("I10", "%s gives out m%d as its terminal: %v", s.name, e.mark, m.IsTerminal())
	}
	if !e.front {
		w.overtaken(s, e)
	}
	e.fate = taken
	if s.kept {
		s.logged += messageCost + m.Len()
	}
	s.seen = append(s.seen, e.mark)
	s.over = e.sort == terminal
	for s.first < len(s.entries) && s.entries[s.first].fate != waits {
		s.first++
	}
}

// overtaken looks at what was accepted before e and did not come before it.
//
// What was passed over will never come, or it would come out of order. So either it
// may be missing, or this is where a message was lost.
func (w *world) overtaken(s *stream, e *entry) {
	for i := s.first; &s.entries[i] != e; i++ {
		old := &s.entries[i]
		switch {
		case old.fate != waits:
		case old.late && e.sort != terminal:
		case old.late && s.hasNewer(i):
			old.fate = gone
		case old.may:
			old.fate = gone
		default:
			w.fail("I10", "%s gives out m%d before m%d, or without it", s.name, e.mark, old.mark)
		}
	}
}

// hasNewer reports whether there is later progress than entry i.
func (s *stream) hasNewer(i int) bool {
	for j := i + 1; j < len(s.entries); j++ {
		if s.entries[j].sort == progress && s.entries[j].key == s.entries[i].key {
			return true
		}
	}
	return false
}

// tookState holds what a carrier was told of the stream against what it is.
//
// Ended must not be said early, when something is left to take, nor late, when the
// carrier would sleep on a stream that is over and keep a connection open for
// nothing (M066).
func (w *world) tookState(t *writer, state session.State) {
	s := t.at
	rest, unsure := t.pos < uint64(len(s.seen)), false
	for i := s.first; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.fate == waits && !e.late {
			rest = rest || !e.may
			unsure = unsure || e.may
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
		w.fail("I10", "%s: its carrier is told %d, want %d", s.name, state, want)
	}
}

// expectRoom: whoever waits for room hears of it.
func (w *world) expectRoom(s *stream) {
	for _, c := range s.fulls {
		if !isClosed(c) {
			w.fail("I30", "%s has room, and who waits for it does not hear of it", s.name)
		}
	}
	s.fulls = s.fulls[:0]
}

// drop notes that what waits must not come any more.
func (s *stream) drop(which func(*entry) bool) {
	for i := s.first; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.fate == waits && which(e) {
			e.fate = gone
		}
	}
}

func all(*entry) bool { return true }

func isQuestion(e *entry) bool { return e.sort == question }

// close notes the end of a stream.
func (w *world) close(s *stream) {
	s.ended = true
	s.noteEnd()
	w.expectRoom(s)
}

// noteEnd notes which stream of a session is the last that has ended.
func (s *stream) noteEnd() {
	if s.ended && s.kept && s.of != nil && s.endNo == 0 {
		s.sess.last = s
		s.sess.ends++
		s.endNo = s.sess.ends
	}
}

// waiting reports whether something waits for certain.
func (s *stream) waiting() bool {
	if s.held {
		return false
	}
	for i := s.first; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.fate == waits && !e.may && !e.late {
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
