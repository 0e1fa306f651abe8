// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
)

// Results are retained up to the limit, and one that is larger alone in addition.
func TestRetentionReachesTheLimit(t *testing.T) {
	keep := func(sess *session.Session, id uint64, size int) *resumable {
		r := newResumable(t, sess, id).prime()
		r.c.Detach()
		r.x.Finish(finish(strings.Repeat("x", size)))
		return r
	}
	const limit = 4000
	measured := newSession(retaining())
	keep(measured, 1, 0)
	overhead := measured.Retained()
	for _, tt := range []struct {
		name          string
		first, second int
		gone          bool // the first
	}{
		{"both within the limit", limit / 2, limit / 2, false},
		{"one byte more", limit / 2, limit/2 + 1, true},
		{"the second fills the limit", overhead, limit, true},
		{"the second exceeds the limit", overhead, limit + 1, false},
	} {
		sess := newSession(retaining())
		first := keep(sess, 1, tt.first-overhead)
		second := keep(sess, 2, tt.second-overhead)
		_, err := sess.Resume(first.last, make(chan struct{}, 1), at(0))
		if gone := err != nil; gone != tt.gone {
			t.Errorf("%s: the first is gone: %v, want %v", tt.name, err, tt.gone)
		}
		second.back()
	}
}

// The stream that retains most loses messages first.
func TestLargestStreamIsTrimmed(t *testing.T) {
	sess := newSession(retaining())
	small, large := newResumable(t, sess, 1).prime(), newResumable(t, sess, 2).prime()
	startOfSmall, startOfLarge := small.last, large.last
	for range 2 {
		large.append(strings.Repeat("x", 1000))
		large.see(session.Open, strings.Repeat("x", 1000))
	}
	small.append(strings.Repeat("y", 700))
	small.see(session.Open, strings.Repeat("y", 700))
	large.wantErr(startOfLarge, at(0), &session.GoneError{Request: jsonrpc.NumberID(2)})
	small.last = startOfSmall
	small.back()
	small.see(session.Open, strings.Repeat("y", 700))
}

// A result that was delivered does not count as undelivered when it is dropped.
func TestDeliveredResultsAreNotUndelivered(t *testing.T) {
	rules := retaining()
	r := newResumable(t, newSession(rules), 1).prime()
	start := r.last
	r.x.Finish(finish("end"))
	r.see(session.Ended, "end")
	r.c.Detach()
	r.sess.Expire(at(0))
	r.sess.Expire(at(60))
	r.wantErr(start, at(60), &session.GoneError{Request: jsonrpc.NumberID(1), Ended: true, Expired: true})
	if got := rules.Counts.Undelivered.Load(); got != 0 {
		t.Errorf("undelivered = %d, want 0", got)
	}
}

// Each message that is retained costs its bytes and a fixed overhead, whether the client
// has received it or is away, and what is dropped costs nothing.
func TestRetainedMessagesAreCharged(t *testing.T) {
	text := strings.Repeat("x", 1000)
	var costs []int
	for _, away := range []bool{false, true} {
		r := newResumable(t, newSession(retaining()), 1).prime()
		if away {
			r.c.Detach()
		}
		kept := []int{r.sess.Retained()}
		for range 10 {
			r.append(text)
			if !away {
				r.see(session.Open, text)
			}
			kept = append(kept, r.sess.Retained())
		}
		one := kept[1] - kept[0]
		if one <= len(text) || kept[2] != kept[1]+one || kept[3] != kept[2]+one {
			t.Errorf("away %v: the first messages cost %v", away, kept[:4])
		}
		for _, n := range kept[4:] { // the limit is reached
			if n != kept[3] {
				t.Errorf("away %v: %d bytes are kept, want %d: %v", away, n, kept[3], kept)
			}
		}
		costs = append(costs, one)
	}
	if costs[0] != costs[1] {
		t.Errorf("a message costs %d if the client has received it, and %d if not", costs[0], costs[1])
	}
}

// What exceeds the limit is dropped: streams that have ended first, the oldest first; the
// last result is retained whatever its size.
func TestOldestAnswersAreDroppedFirst(t *testing.T) {
	rules := retaining()
	sess := newSession(rules)
	var done []*resumable
	for i := range 4 {
		r := newResumable(t, sess, uint64(i)).prime()
		r.c.Detach()
		r.x.Finish(finish(strings.Repeat("x", 800)))
		done = append(done, r)
	}
	done[0].wantErr(done[0].last, at(0), &session.GoneError{Request: jsonrpc.NumberID(0), Ended: true})
	for _, r := range done[2:] {
		r.back()
		r.c.Detach()
	}
	if rules.Counts.Undelivered.Load() == 0 {
		t.Error("an answer that was not taken was dropped and not counted")
	}
	giant := newResumable(t, sess, 9).prime()
	giant.c.Detach()
	giant.x.Finish(finish(strings.Repeat("z", 100_000)))
	done[3].back() // costs the others nothing
	giant.back()
	got, state := take(giant.c)
	if len(got) != 1 || len(got[0]) != 100_000 || state != session.Ended {
		t.Errorf("the last result: %d messages, state %v", len(got), state)
	}
	giant.c.Detach()
	after := newResumable(t, sess, 10).prime()
	after.x.Finish(finish("end"))
	if sess.Retained() > 4000 {
		t.Errorf("%d bytes are kept after the next one", sess.Retained())
	}
}

// The number of tombstones is limited too.
func TestTombstonesAreLimited(t *testing.T) {
	sess := newSession(retaining())
	var all []*resumable
	for i := range 200 {
		r := newResumable(t, sess, uint64(i)).prime()
		r.c.Detach()
		r.x.Finish(finish("end"))
		all = append(all, r)
		sess.Expire(at(i * 100))
	}
	all[199].wantErr(all[199].last, at(20_000), &session.GoneError{Request: jsonrpc.NumberID(199), Ended: true, Expired: true})
	all[0].wantErr(all[0].last, at(20_000), session.ErrUnknownEvent)
}
