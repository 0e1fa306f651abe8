// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// keeping returns rules under which little is retained, for a short time.
func retaining() *session.Rules {
	r := rules()
	r.Limits.LogBytes, r.Limits.LogKeep = 4000, time.Minute
	r.Limits.Messages, r.Limits.Bytes, r.Limits.Exchanges = 100, 4000, 16
	return r
}

// at returns a time, in seconds after a fixed moment.
func at(seconds int) time.Time { return time.Unix(int64(1_000_000+seconds), 0) }

// resumable is a request of a session that is answered by a resumable stream, and the ids
// that its client has received.
type resumable struct {
	t    *testing.T
	sess *session.Session
	x    *session.Exchange
	c    *session.Consumer
	last session.EventID
}

func newResumable(t *testing.T, sess *session.Session, id uint64) *resumable {
	t.Helper()
	x, err := sess.Begin(jsonrpc.NumberID(id), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	r := &resumable{t: t, sess: sess, x: x, c: attach(x.Stream())}
	r.c.MakeResumable()
	return r
}

// prime gives the client the id of the beginning of the stream.
func (r *resumable) prime() *resumable {
	r.last = r.c.PrimingID()
	return r
}

func (r *resumable) append(texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		mustAppend(r.t, r.x.Stream(), plain(text))
	}
}

// see makes the client receive what there is.
func (r *resumable) see(state session.State, want ...string) {
	r.t.Helper()
	var got []string
	ms, now := r.c.Take(nil)
	for i := range ms {
		got = append(got, string(ms[i].Head))
		r.last = ms[i].Event()
	}
	if diff := cmp.Diff(got, want); diff != "" || now != state {
		r.t.Errorf("the client sees (-got +want), state %v, want %v:\n%s", now, state, diff)
	}
}

// back makes the client resume.
func (r *resumable) back() {
	r.t.Helper()
	c, err := r.sess.Resume(r.last, make(chan struct{}, 1), at(0))
	if err != nil {
		r.t.Fatalf("Resume(%v) = %v", r.last, err)
	}
	r.c = c
}

func (r *resumable) wantErr(id session.EventID, now time.Time, want error) {
	r.t.Helper()
	_, err := r.sess.Resume(id, make(chan struct{}, 1), now)
	gone, isGone := errors.AsType[*session.GoneError](want)
	if isGone {
		got, ok := errors.AsType[*session.GoneError](err)
		if !ok || *got != *gone {
			r.t.Errorf("Resume(%v) = %+v, want %+v", id, err, gone)
		}
		return
	}
	if !errors.Is(err, want) {
		r.t.Errorf("Resume(%v) = %v, want %v", id, err, want)
	}
}

func finish(text string) session.Message { return plain(text) }

// M065, I13: exactly the messages after the id, in order, each once, whenever they were
// appended, and then new ones.
func TestM065ResumeGivesExactlyTheRest(t *testing.T) {
	for seen := 0; seen <= 4; seen++ {
		for when := range 3 { // the end is before the break, while away, or after
			t.Run(fmt.Sprintf("%d seen, end %d", seen, when), func(t *testing.T) {
				r := newResumable(t, newSession(retaining()), 1).prime()
				all := []string{"e1", "e2", "e3", "e4"}
				for i, text := range all {
					r.append(text)
					if i < seen {
						r.see(session.Open, text)
					}
				}
				end := func(n int) {
					if n == when {
						r.x.Finish(finish("end"))
					}
				}
				end(0)
				lost, _ := r.c.Take(nil) // in transit when the connection breaks
				r.c.Requeue(lost)
				r.c.Detach()
				end(1)
				r.back()
				want, state := append([]string(nil), all[seen:]...), session.Open
				if when < 2 {
					want, state = append(want, "end"), session.Ended
				}
				r.see(state, want...)
				end(2)
				if when == 2 {
					r.see(session.Ended, "end")
				}
			})
		}
	}
}

// A client without an id cannot resume, and nothing is retained for it.
func TestStreamWithoutAnIDIsLost(t *testing.T) {
	rules := retaining()
	r := newResumable(t, newSession(rules), 1)
	r.c.Detach()
	if s := r.x.Stream(); !s.IsLost() || s.IsAway() {
		t.Fatal("the stream waits for a client that cannot come back")
	}
	if n := r.sess.Retained(); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}
	r.x.Finish(finish("end"))
	if got := rules.Counts.Undelivered.Load(); got != 1 {
		t.Errorf("undelivered = %d, want 1", got)
	}
	if next := r.sess.Expire(at(0)); !next.IsZero() {
		t.Errorf("something waits until %v", next)
	}
}

// Without MakeResumable a stream has no ids, and nothing of it is retained.
func TestNoIDsWithoutMakeResumable(t *testing.T) {
	sess := newSession(retaining())
	x, err := sess.Begin(jsonrpc.NumberID(1), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	c := attach(x.Stream())
	mustAppend(t, x.Stream(), plain("a"))
	ms, _ := c.Take(nil)
	if !ms[0].Event().IsZero() || !c.PrimingID().IsZero() || sess.Retained() != 0 {
		t.Errorf("event %v, primed %v, %d bytes kept; want nothing", ms[0].Event(), c.PrimingID(), sess.Retained())
	}
	alone := stateless(t, retaining())
	c = attach(alone.Stream())
	c.MakeResumable()
	mustAppend(t, alone.Stream(), plain("a"))
	if ms, _ := c.Take(nil); !ms[0].Event().IsZero() {
		t.Errorf("an exchange without a session has the event id %v", ms[0].Event())
	}
}

// M059, M068, I14: an id that was never issued in this session is unknown.
func TestM068EventsOfOthersAreUnknown(t *testing.T) {
	rules := retaining()
	mine, theirs := session.New("mine", "", &mcp.Peer{}, rules), session.New("theirs", "", &mcp.Peer{}, rules)
	r, v := newResumable(t, mine, 1).prime(), newResumable(t, theirs, 1).prime()
	primed := r.last
	for _, one := range []*resumable{r, v} {
		one.append("a")
		one.see(session.Open, "a")
	}
	if r.last == v.last {
		t.Fatal("two sessions give out the same id")
	}
	unprimed := newResumable(t, mine, 2)
	unprimed.append("first")
	unprimed.see(session.Open, "first")
	for name, id := range map[string]session.EventID{
		"another session's": v.last,
		"beyond the end":    {Stream: r.last.Stream, Pos: r.last.Pos + 1},
		"far beyond":        {Stream: r.last.Stream, Pos: 1<<64 - 1},
		"no stream":         {Stream: r.last.Stream + 100, Pos: 1},
		"zero":              {},
		"never given out":   {Stream: unprimed.last.Stream, Pos: 0},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			r.wantErr(id, at(0), session.ErrUnknownEvent)
		})
	}
	r.t = t
	r.last = primed
	r.back()
	r.see(session.Open, "a") // none of this has changed the stream
}

// A client that has received a message can resume, even if the stream did not begin with
// an id.
func TestResumeAfterAMessage(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1)
	r.append("a")
	r.see(session.Open, "a")
	r.c.Detach()
	r.append("b")
	r.back()
	r.see(session.Open, "b")
}

// M066: nothing follows the last event of a stream that has ended.
func TestM066NothingFollowsTheEnd(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1).prime()
	r.x.Finish(finish("end"))
	r.see(session.Ended, "end")
	r.c.Detach()
	r.back()
	if !r.c.IsSpent() {
		t.Error("the consumer would wait")
	}
	r.see(session.Ended)
}

// M075, I12: the new consumer has the stream; the end of the older one does not affect it.
func TestM075ResumeSupersedes(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1).prime()
	r.append("a")
	older := r.c
	stuck, _ := older.Take(nil)
	r.back()
	wantTake(t, older, session.Revoked)
	older.Requeue(stuck)
	older.Detach()
	older.Detach()
	r.see(session.Open, "a")
	r.append("b")
	r.see(session.Open, "b")
}

// The consumers of one stream are limited, blocked ones included.
func TestResumeIsBounded(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1).prime()
	first := r.c
	r.back()
	r.wantErr(r.last, at(0), session.ErrTooMany)
	first.Detach()
	r.back()
}

// An ask that the client has received stays open while it is away, and one that it has not
// is sent when it resumes.
func TestAsksOutliveTheConsumer(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1).prime()
	seen, err := r.x.Stream().Ask("seen", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	taken, _ := r.c.Take(nil)
	r.last = taken[0].Event()
	r.c.Requeue(taken) // written to a connection that broke
	r.c.Detach()
	waiting, err := r.x.Stream().Ask("waiting", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if isDone(seen) || isDone(waiting) {
		t.Fatal("a question ended with the connection")
	}
	if r.sess.Answer(waiting.ID(), session.Terminal{Result: &mcp.Result{}}) {
		t.Error("an ask that was not delivered was answered")
	}
	if !r.sess.Answer(seen.ID(), session.Terminal{Result: &mcp.Result{}}) {
		t.Error("the answer to a question of before the break was not taken")
	}
	r.back()
	r.see(session.Open, `{"jsonrpc":"2.0","id":2,"method":"waiting"}`)
	if !r.sess.Answer(waiting.ID(), session.Terminal{Result: &mcp.Result{}}) {
		t.Error("the answer to a question of after the break was not taken")
	}
}

// No Handler waits for a client that is away: progress is merged, log messages are dropped,
// and everything else is retained as far as it fits.
func TestNoSenderWaitsForAnAwayClient(t *testing.T) {
	rules := retaining()
	rules.Limits.LogBytes = 1 << 20
	r := newResumable(t, newSession(rules), 1).prime()
	for range 100 {
		r.append("x")
	}
	full, _ := r.x.Stream().Append(plain("waits"))
	if full == nil {
		t.Fatal("the stream is not full")
	}
	r.c.Detach()
	<-full
	for i := range 300 {
		r.append("y")
		mustAppend(t, r.x.Stream(), msg(session.Progress, "t", fmt.Sprint("p", i)), msg(session.Log, "", "log"))
	}
	r.x.Finish(finish("end"))
	r.back()
	got, _ := take(r.c)
	if n := len(got); n != 402 || got[n-2] != "p299" || got[n-1] != "end" {
		t.Errorf("%d messages, the last of them %q; want 402 with the latest progress and the end", n, got[max(0, n-2):])
	}
	if got := rules.Counts.Dropped.Load(); got != 300 {
		t.Errorf("dropped = %d, want all 300 log messages", got)
	}
}

// The retention of a stream begins with the end of its request. After it the stream is
// gone, and reported as gone: never a silent gap.
func TestRetentionExpires(t *testing.T) {
	sess := newSession(retaining())
	r := newResumable(t, sess, 1).prime()
	r.append("a")
	r.see(session.Open, "a")
	r.c.Detach()
	if next := sess.Expire(at(1000)); !next.IsZero() {
		t.Errorf("a running request is to be given up at %v", next)
	}
	r.x.Finish(finish("end"))
	if next := sess.Expire(at(2000)); next != at(2060) {
		t.Errorf("next = %v, want a minute after the end", next)
	}
	if next := sess.Expire(at(2059)); next != at(2060) {
		t.Errorf("next = %v, want %v", next, at(2060))
	}
	if next := sess.Expire(at(2060)); !next.IsZero() || sess.Retained() != 0 {
		t.Errorf("next = %v, %d bytes kept; want nothing", next, sess.Retained())
	}
	r.wantErr(r.last, at(2060), &session.GoneError{Request: jsonrpc.NumberID(1), Ended: true, Expired: true})
	last := session.EventID{Stream: r.last.Stream, Pos: r.last.Pos + 1}
	r.wantErr(last, at(2060), session.ErrUnknownEvent) // nothing followed it
}

// Without a call of Expire, Resume expires streams itself; a client that resumes in time
// restarts the retention.
func TestResumeExpiresStreams(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1).prime()
	r.c.Detach()
	r.x.Finish(finish("end"))
	r.sess.Expire(at(0))
	c, err := r.sess.Resume(r.last, make(chan struct{}, 1), at(59))
	if err != nil {
		t.Fatal(err)
	}
	if next := r.sess.Expire(at(3000)); next != at(3060) {
		t.Errorf("next = %v while the stream has a consumer, want it postponed", next)
	}
	c.Detach()
	if next := r.sess.Expire(at(3059)); next != at(3119) {
		t.Errorf("next = %v, want a minute after the client has left", next)
	}
	r.wantErr(r.last, at(3119), &session.GoneError{Request: jsonrpc.NumberID(1), Ended: true, Expired: true})
}

// Of a request in flight the oldest messages are dropped, and a client that resumes from
// them gets a GoneError, which ends the stream.
func TestGapIsReported(t *testing.T) {
	rules := retaining()
	sess := newSession(rules)
	quiet := newResumable(t, sess, 1).prime()
	quiet.append("a")
	r := newResumable(t, sess, 2).prime()
	for range 5 {
		r.append(strings.Repeat("x", 1000))
		r.see(session.Open, strings.Repeat("x", 1000))
	}
	late := r.last
	if rules.Counts.Purged.Load() == 0 || sess.Retained() > 4000 {
		t.Fatalf("%d bytes kept, %d messages given up", sess.Retained(), rules.Counts.Purged.Load())
	}
	r.append("tail")
	r.c.Detach()
	r.back() // the newest are there
	r.see(session.Open, "tail")
	early := session.EventID{Stream: late.Stream, Pos: 1}
	r.wantErr(early, at(0), &session.GoneError{Request: jsonrpc.NumberID(2)})
	wantTake(t, r.c, session.Revoked)
	r.c.Detach()
	r.x.Finish(finish("end"))
	if got := rules.Counts.Undelivered.Load(); got != 1 {
		t.Errorf("undelivered = %d, want the terminal after the last word", got)
	}
	r.wantErr(early, at(0), &session.GoneError{Request: jsonrpc.NumberID(2)})
	quiet.see(session.Open, "a") // a stream with few messages loses nothing
}

// The queue of a client that is away is limited too, and its ask fails instead of waiting
// forever.
func TestQueueOfAwayClientIsLimited(t *testing.T) {
	rules := retaining()
	r := newResumable(t, newSession(rules), 1).prime()
	r.c.Detach()
	a, err := r.x.Stream().Ask("q", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		r.append(strings.Repeat("x", 1000))
	}
	if !isDone(a) || !errors.Is(a.Answer().Err, session.ErrNoReceiver) {
		t.Error("a question that was given up is open")
	}
	if r.sess.Retained() > 4000 {
		t.Errorf("%d bytes are kept", r.sess.Retained())
	}
	r.wantErr(r.last, at(0), &session.GoneError{Request: jsonrpc.NumberID(1)})
}

// Messages that a consumer has yet to take are not dropped.
func TestReplayIsProtected(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1).prime()
	start := r.last
	want := make([]string, 0, 20)
	for i := range 15 {
		want = append(want, fmt.Sprint("m", i))
		r.append(want[i])
		r.see(session.Open, want[i])
	}
	r.last = start
	r.back()
	other := newResumable(t, r.sess, 2).prime()
	for range 10 {
		other.append(strings.Repeat("x", 900))
		other.see(session.Open, strings.Repeat("x", 900))
	}
	r.see(session.Open, want...)
}

// A cancelled request has no tombstone.
func TestCancelledStreamIsForgotten(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1).prime()
	start := r.last
	r.append("a")
	r.see(session.Open, "a")
	r.append("b")
	r.x.Cancel(errors.New("why"))
	r.c.Detach()
	r.back()
	r.see(session.Ended)
	r.c.Detach()
	r.sess.Expire(at(0))
	r.wantErr(r.last, at(61), session.ErrUnknownEvent)
	r.wantErr(start, at(61), session.ErrUnknownEvent)
}

// A consumer that replays when its session ends gets the rest and the end.
func TestSessionEndsDuringAReplay(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1).prime()
	start := r.last
	r.append("a", "b")
	r.see(session.Open, "a", "b")
	r.last = start
	r.back()
	r.sess.End(mcp.Errorf(1, "over"))
	r.see(session.Ended, "a", "b", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"over"}}`)
	r.c.Detach()
	r.wantErr(start, at(0), session.ErrEnded)
	if r.sess.Retained() != 0 {
		t.Error("a session that has ended keeps something")
	}
}

// Retained streams do not keep a session busy, requests in flight do.
func TestRetainedStreamsAreIdle(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1).prime()
	r.c.Detach()
	if r.sess.IsIdle() {
		t.Error("idle while a request is in flight whose client is away")
	}
	r.x.Finish(finish("end"))
	if !r.sess.IsIdle() {
		t.Error("busy with what is kept")
	}
}

// Pause ends a connection and not the stream; messages appended before are delivered on it.
func TestPause(t *testing.T) {
	r := newResumable(t, newSession(retaining()), 1).prime()
	r.append("a")
	if !r.x.Stream().Pause(3 * time.Second) {
		t.Fatal("Pause = false")
	}
	r.see(session.Paused, "a")
	if r.c.Retry() != 3*time.Second {
		t.Errorf("retry = %v", r.c.Retry())
	}
	r.c.Detach()
	if r.x.Stream().Pause(0) {
		t.Error("a stream without a consumer was paused")
	}
	r.append("b")
	r.back()
	r.see(session.Open, "b")
	r.x.Stream().Pause(0)
	r.x.Finish(finish("end"))
	r.see(session.Ended, "end") // the end takes precedence
	if r.x.Stream().Pause(0) {
		t.Error("a stream that has ended was paused")
	}
}

// A pause before the form is decided decides it: the rest cannot be JSON.
func TestPauseDecidesTheForm(t *testing.T) {
	sess := newSession(retaining())
	x, err := sess.Begin(jsonrpc.NumberID(1), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	c := attach(x.Stream())
	x.Stream().Pause(0)
	if !isWoken(c) || x.Form(false) != session.SSE {
		t.Errorf("form %v, want SSE at once", x.Form(false))
	}
}

// On the standalone stream, messages that a connection took and could not write go
// unmodified to a client that resumes, and as far as they are still true to one that begins
// anew.
func TestStandaloneIsResumed(t *testing.T) {
	open := func(t *testing.T) (*session.Session, *session.Consumer, session.EventID) {
		s := newSession(retaining())
		s.Initialized()
		c := attach(s.Standalone())
		c.MakeResumable()
		return s, c, c.PrimingID()
	}
	t.Run("resumed", func(t *testing.T) {
		s, c, id := open(t)
		a, err := s.Standalone().Ask("q", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, s.Standalone(), msg(session.Change, "tools", "changed"))
		taken, _ := c.Take(nil)
		c.Requeue(taken)
		c.Detach()
		c, err = s.Resume(id, make(chan struct{}, 1), at(0))
		if err != nil {
			t.Fatal(err)
		}
		wantTake(t, c, session.Open, `{"jsonrpc":"2.0","id":1,"method":"q"}`, "changed")
		if isDone(a) || !s.Answer(a.ID(), session.Terminal{Result: &mcp.Result{}}) {
			t.Error("the question did not outlive the connection")
		}
	})
	t.Run("anew", func(t *testing.T) {
		s, c, _ := open(t)
		mustAppend(t, s.Standalone(), msg(session.Change, "prompts", "seen"))
		wantTake(t, c, session.Open, "seen")
		a, err := s.Standalone().Ask("q", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, s.Standalone(), msg(session.Change, "tools", "changed"))
		taken, _ := c.Take(nil)
		c.Requeue(taken)
		c.Detach()
		wantTake(t, attach(s.Standalone()), session.Open, "changed")
		if !isDone(a) {
			t.Error("a question waits for a client that has not seen it and did not ask for it")
		}
	})
	t.Run("gone", func(t *testing.T) {
		s, c, id := open(t)
		for range 5 {
			mustAppend(t, s.Standalone(), plain(strings.Repeat("x", 1000)))
			take(c)
		}
		_, err := s.Resume(id, make(chan struct{}, 1), at(0))
		if gone, ok := errors.AsType[*session.GoneError](err); !ok || !gone.Request.IsZero() || !s.IsStandalone(id) {
			t.Errorf("Resume = %v, want that it is gone, of no request", err)
		}
		mustAppend(t, s.Standalone(), plain("on"))
		wantTake(t, c, session.Open, "on") // this client has lost nothing
		if began := attach(s.Standalone()); !began.Missed() || c.Missed() {
			t.Errorf("missed for the client that began anew: %v, for the one that was there: %v", began.Missed(), c.Missed())
		}
	})
}

// Missed is true until ClearMissed: a client that begins anew and leaves before that leaves
// it to the next.
func TestMissedUntilCleared(t *testing.T) {
	s := newSession(retaining())
	s.Initialized()
	c := attach(s.Standalone())
	c.MakeResumable()
	id := c.PrimingID()
	for range 5 {
		mustAppend(t, s.Standalone(), plain(strings.Repeat("x", 1000)))
		take(c)
	}
	refused := func() {
		t.Helper()
		if _, err := s.Resume(id, make(chan struct{}, 1), at(0)); err == nil {
			t.Fatal("what was given up is there")
		}
	}
	begin := func(want bool) *session.Consumer {
		t.Helper()
		c := attach(s.Standalone())
		if c.Missed() != want {
			t.Errorf("missed for a client that begins anew: %v, want %v", c.Missed(), want)
		}
		return c
	}
	refused()
	begin(true).Detach()
	first := begin(true)
	refused() // another client, which does not receive what first is sent
	first.ClearMissed()
	second := begin(true)
	first.ClearMissed()
	begin(true)
	second.ClearMissed() // delivered by the current consumer
	begin(false)
	refused()
	second.ClearMissed()
	begin(true).ClearMissed()
	begin(false).ClearMissed()
}
