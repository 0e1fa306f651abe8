// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
)

// What a session keeps costs more than the bytes of the messages.
const (
	streamCost  = 512
	messageCost = 160
	machineMade = 120 // is more than what a machine makes has
)

// keepsLittle: a session keeps no more than so much, what is carried not counted,
// and where there is room for all the stream that ended last.
//
// The bound cannot be exact. What a carrier has not taken is not the log's to give
// up, and a stream that alone is larger than the bound is kept while it is the
// last: a client that has lost its connection right behind a large result would
// else never have it, however soon it came back.
func (w *world) keepsLittle(s *sess, limit int, spares bool) {
	kept := s.real.Kept()
	if kept <= limit {
		return
	}
	most, spare := limit, 0
	for _, st := range w.streams {
		if st.sess != s || !st.kept {
			continue
		}
		most += streamCost
		switch {
		case st.live != nil || st.of == nil:
			most += st.cost
		case spares && st.ended && streamCost+st.cost > limit:
			spare = max(spare, st.cost)
		}
	}
	if kept > most+spare {
		w.fail("I21", "%s keeps %d bytes, more than %d", s, kept, most+spare)
	}
}

// keepsExactly: what a session keeps counts once, all of it, and nothing else does. What
// was given up for want of room counts no more, and the model does not know what that
// was.
//
// Sums that are kept beside what they are of go wrong without anything else being
// wrong, and then they refuse everybody after a week (M170). So they are worked out
// anew after each step: by session, over all of them, and by owner.
func (w *world) keepsExactly() {
	all := int64(0)
	var owners []string
	for _, s := range w.sessions {
		kept := s.real.Kept()
		all += int64(kept)
		if of := s.client.owner(); kept > 0 && !slices.Contains(owners, of) {
			owners = append(owners, of)
		}
		least, most := w.weight(s)
		if kept > most || kept < least && !w.set.purges {
			w.fail("I21", "%s keeps %d bytes, want %d to %d", s, kept, least, most)
		}
	}
	if used := w.rules.Logs.Used(); used != all {
		w.fail("I21", "all sessions keep %d bytes, and that is said to be %d", all, used)
	}
	if n := lenOf(w.rules.Logs, "owners"); n != len(owners) {
		w.fail("I28", "%d owners keep something, and %d are known", len(owners), n)
	}
}

// weight is what a session keeps, at least and at most.
//
// The two differ by messages of which it is not certain that they wait still. Where
// nothing is given up for want of room they are all that is uncertain.
func (w *world) weight(s *sess) (least, most int) {
	if s.ended {
		return 0, 0
	}
	for _, st := range w.streams {
		if st.sess != s || !st.kept || st.lost || st.aged {
			continue
		}
		least += streamCost + st.logged
		most += streamCost + st.logged
		if st.live != nil || st.of == nil {
			continue // the standalone stream has a bound of its own for what waits
		}
		for i := st.first; i < len(st.entries); i++ {
			e := &st.entries[i]
			if e.fate != waits || e.late {
				continue
			}
			most += messageCost + cmp.Or(e.size, machineMade)
			if !e.may {
				least += messageCost + e.size
			}
		}
	}
	return least, most
}

// goesInOrder: of the streams that have ended and wait for their clients the one that
// ended first is given up first.
//
// Who has ended last has most probably not been read: its client may be on its way
// back at this moment, while the one of an older stream has had its time to come.
func (w *world) goesInOrder() {
	if !w.set.purges {
		return
	}
	for _, st := range w.streams {
		if !st.wasThere || !st.kept || st.live != nil || st.aged || st.real.IsAway() {
			continue
		}
		for _, o := range w.streams {
			if o.sess == st.sess && o.endNo < st.endNo && o.wasThere && o.kept && o.live == nil && o.real.IsAway() {
				w.fail("I13", "%s is given up for want of room, and %s is there, which ended before it", st.name, o.name)
			}
		}
	}
	for _, st := range w.streams {
		st.wasThere = st.kept && st.endNo > 0 && st.live == nil && st.real.IsAway()
	}
}

// noteTight notes of which streams something may have been given up for want of
// room: there may have been more than their session may keep, or all together.
//
// It is the one "may" of the model that excuses a loss, and so it is kept narrow: a
// stream is excused only if at some step there really was more than its session or
// all of them may keep. What went without that is lost, and I13 is broken.
func (w *world) noteTight() {
	if !w.set.purges {
		return
	}
	all := 0
	for _, st := range w.streams {
		if st.sess != nil {
			st.sess.cost = 0
		}
	}
	for _, st := range w.streams {
		if st.kept {
			all += streamCost + st.cost
			st.sess.cost += streamCost + st.cost
		}
	}
	full := int64(all) > w.set.pool
	for _, st := range w.streams {
		if s := st.sess; st.kept && (full || s.cost > w.set.limits.LogBytes && (st != s.last || st != s.wasLast)) {
			st.tight = true
		}
	}
	for _, s := range w.sessions {
		s.wasLast = s.last
	}
}

// mayLack reports whether what waits on a stream may have been given up for want of
// room: nobody carries it, and so the log may take it from the front. What was slow by
// the model is then not slow for certain, and a log message may have found room.
func (w *world) mayLack(s *stream) bool { return w.set.purges && s.kept && s.live == nil }

// shedder has every session keep its part, where all together keep too much.
//
// It is a thread, because no carrier may hold its own lock and ask all other
// sessions for theirs: whoever finds the pool full says so, and somebody else
// clears up. In between there is more than the bound, for a moment.
type shedder struct{ due bool }

func (t *shedder) ready(*world) bool { return t.due }

func (t *shedder) run(w *world) bool {
	t.due = false
	for _, s := range w.sessions {
		s.real.Expire(w.now)
		w.agedBy(s)
	}
	if !w.rules.Logs.IsFull() {
		return true
	}
	for _, s := range w.sessions {
		w.keepsLittle(s, min(w.set.limits.LogBytes, w.part(s)), false)
	}
	return true
}

// part returns how much of a full pool a session may keep: each owner has an equal
// part, and each of its sessions an equal part of that.
//
// By owner first: whoever opens many sessions has no larger part of the pool for
// that, and a flood of them takes nothing from others.
func (w *world) part(s *sess) int {
	owners := make(map[string]int)
	for _, o := range w.sessions {
		if o.real.Kept() > 0 {
			owners[o.client.owner()]++
		}
	}
	return int(w.set.pool) / max(len(owners), 1) / max(owners[s.client.owner()], 1)
}
