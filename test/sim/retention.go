// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
)

// The cost of retained streams and messages in addition to their bytes.
const (
	streamCost    = 512
	messageCost   = 160
	generatedSize = 120 // more than any generated message has
)

// checkKeptLimit checks that a session retains no more than a limit, besides streams with a
// consumer and, if the pool has space, the stream that ended last.
//
// The limit cannot be exact. What a consumer has yet to take must not be dropped, and a
// stream that alone exceeds the limit is retained while it is the last: a client that lost
// its connection right after a large result could otherwise never receive it.
func (w *world) checkKeptLimit(s *sess, limit int, spares bool) {
	kept := s.real.Retained()
	if kept <= limit {
		return
	}
	most, spare := limit, 0
	for _, st := range w.streams {
		if st.sess != s || !st.resumable {
			continue
		}
		most += streamCost
		switch {
		case st.writer != nil || st.of == nil:
			most += st.cost
		case spares && st.ended && streamCost+st.cost > limit:
			spare = max(spare, st.cost)
		}
	}
	if kept > most+spare {
		w.fail("I21", "%s retains %d bytes, more than %d", s, kept, most+spare)
	}
}

// checkKept checks that everything a session retains counts once, and nothing else does.
// The model does not know what was dropped to stay within a limit.
//
// A running total can become wrong without any other symptom, and then refuses all clients
// after a week (M170). So the model computes the sums anew after each step: by session, in
// total, and by owner.
func (w *world) checkKept() {
	all := int64(0)
	var owners []string
	for _, s := range w.sessions {
		kept := s.real.Retained()
		all += int64(kept)
		if of := s.client.owner(); kept > 0 && !slices.Contains(owners, of) {
			owners = append(owners, of)
		}
		least, most := w.keptBytes(s)
		if kept > most || kept < least && !w.set.purges {
			w.fail("I21", "%s retains %d bytes, want %d to %d", s, kept, least, most)
		}
	}
	if used := w.rules.Logs.Used(); used != all {
		w.fail("I21", "all sessions retain %d bytes, reported as %d", all, used)
	}
	if n := lenOf(w.rules.Logs, "owners"); n != len(owners) {
		w.fail("I28", "%d owners retain something, and %d are counted", len(owners), n)
	}
}

// keptBytes returns how much a session retains, at least and at most.
//
// The two differ by messages that may have been dropped, apart from drops to stay within a
// limit.
func (w *world) keptBytes(s *sess) (least, most int) {
	if s.ended {
		return 0, 0
	}
	for _, st := range w.streams {
		if st.sess != s || !st.resumable || st.lost || st.expired {
			continue
		}
		least += streamCost + st.logged
		most += streamCost + st.logged
		if st.writer != nil || st.of == nil {
			continue // the queue of the standalone stream has its own limit
		}
		for i := st.firstQueued; i < len(st.entries); i++ {
			e := &st.entries[i]
			if e.fate != queued || e.deferred {
				continue
			}
			most += messageCost + cmp.Or(e.size, generatedSize)
			if !e.optional {
				least += messageCost + e.size
			}
		}
	}
	return least, most
}

// checkDropOrder checks that of the ended streams without a client, the one that
// ended first is dropped first.
//
// The client of the last one has most probably not read it and may be about to reconnect,
// while the client of an older one had time to do so.
func (w *world) checkDropOrder() {
	if !w.set.purges {
		return
	}
	for _, st := range w.streams {
		if !st.wasRetained || !st.resumable || st.writer != nil || st.expired || st.real.IsAway() {
			continue
		}
		for _, o := range w.streams {
			if o.sess == st.sess && o.endSeq < st.endSeq && o.wasRetained && o.resumable && o.writer == nil && o.real.IsAway() {
				w.fail("I13", "%s was dropped, and %s is retained, which ended before it", st.name, o.name)
			}
		}
	}
	for _, st := range w.streams {
		st.wasRetained = st.resumable && st.endSeq > 0 && st.writer == nil && st.real.IsAway()
	}
}

// markTrimmable marks the streams that may have lost messages to a limit.
//
// It is the only exception of the model that excuses a loss, and so it is narrow: a stream
// is excused only if at some step its session or all sessions together really exceeded
// their limit. Any other loss breaks I13.
func (w *world) markTrimmable() {
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
		if st.resumable {
			all += streamCost + st.cost
			st.sess.cost += streamCost + st.cost
		}
	}
	full := int64(all) > w.set.pool
	for _, st := range w.streams {
		if s := st.sess; st.resumable && (full || s.cost > w.set.limits.LogBytes && (st != s.lastEnded || st != s.wasLastEnded)) {
			st.trimmable = true
		}
	}
	for _, s := range w.sessions {
		s.wasLastEnded = s.lastEnded
	}
}

// mayBeTrimmed reports whether the queue of a stream may have been trimmed: without a
// consumer its front may be dropped. A stream that is slow in the model is then not
// certainly slow, and a log message may have fit.
func (w *world) mayBeTrimmed(s *stream) bool { return w.set.purges && s.resumable && s.writer == nil }

// poolTrimmer makes every session trim to its share if the pool is full.
//
// It is a thread, because no consumer may hold its own lock and acquire those of all other
// sessions: the thread that finds the pool full requests the trim, and the pool exceeds its
// limit in the meantime.
type poolTrimmer struct{ due bool }

func (t *poolTrimmer) ready(*world) bool { return t.due }

func (t *poolTrimmer) run(w *world) bool {
	t.due = false
	for _, s := range w.sessions {
		s.real.Expire(w.now)
		w.updateExpired(s)
	}
	if !w.rules.Logs.IsFull() {
		return true
	}
	for _, s := range w.sessions {
		w.checkKeptLimit(s, min(w.set.limits.LogBytes, w.share(s)), false)
	}
	return true
}

// share returns how much of a full pool a session may retain: each owner has an equal
// share, and each of its sessions an equal part of that. By owner first, so that a flood of
// sessions gets no larger share.
func (w *world) share(s *sess) int {
	owners := make(map[string]int)
	for _, o := range w.sessions {
		if o.real.Retained() > 0 {
			owners[o.client.owner()]++
		}
	}
	return int(w.set.pool) / max(len(owners), 1) / max(owners[s.client.owner()], 1)
}
