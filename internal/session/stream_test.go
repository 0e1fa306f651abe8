// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// rules returns limits that a test can reach.
func rules() *session.Rules {
	return &session.Rules{
		Limits: session.Limits{Messages: 8, Bytes: 80, Exchanges: 3, Asks: 2, Streams: 2},
		Counts: &session.Counters{},
	}
}

// alone returns an exchange without a session and without a handler.
func stateless(t *testing.T, r *session.Rules) *session.Exchange {
	t.Helper()
	return new(session.Stateless).Begin(jsonrpc.NumberID(7), r, func(err error) { t.Errorf("stopped: %v", err) })
}

func attach(s *session.Stream) *session.Consumer { return s.Attach(make(chan struct{}, 1)) }

func msg(class session.Class, key, text string) session.Message {
	return session.Message{Class: class, Key: key, Head: []byte(text)}
}

func plain(text string) session.Message { return msg(session.Plain, "", text) }

// mustAppend appends messages, which must fit.
func mustAppend(t *testing.T, s *session.Stream, ms ...session.Message) {
	t.Helper()
	for _, m := range ms {
		if full, err := s.Append(m); full != nil || err != nil {
			t.Fatalf("Append(%s): full %v, %v; want space", m.Head, full != nil, err)
		}
	}
}

// take takes until nothing more is returned.
func take(c *session.Consumer) ([]string, session.State) {
	var texts []string
	for {
		ms, state := c.Take(nil)
		for _, m := range ms {
			texts = append(texts, string(m.Head)+string(m.Body)+string(m.Tail))
		}
		if state != session.Open || len(ms) == 0 {
			return texts, state
		}
	}
}

func wantTake(t *testing.T, c *session.Consumer, wantState session.State, want ...string) {
	t.Helper()
	got, state := take(c)
	if diff := cmp.Diff(got, want); diff != "" || state != wantState {
		t.Errorf("took (-got +want), state %v, want %v:\n%s", state, wantState, diff)
	}
}

func isWoken(c *session.Consumer) bool {
	select {
	case <-c.Wake():
		return true
	default:
		return false
	}
}

func TestStreamKeepsOrderAndPositions(t *testing.T) {
	x := stateless(t, rules())
	mustAppend(t, x.Stream(), plain("a"), plain("b"))
	c := attach(x.Stream())
	first, _ := c.Take(nil)
	mustAppend(t, x.Stream(), plain("c"))
	x.Finish(plain("end"))
	second, state := c.Take(nil)
	var got []string
	for _, m := range slices.Concat(first, second) {
		got = append(got, fmt.Sprintf("%d %s", m.Pos, m.Head))
	}
	if diff := cmp.Diff(got, []string{"1 a", "2 b", "3 c", "4 end"}); diff != "" {
		t.Errorf("messages (-got +want):\n%s", diff)
	}
	if state != session.Ended {
		t.Errorf("state = %v, want Ended", state)
	}
}

// The consumer is woken for everything that it must act on.
func TestConsumerIsWoken(t *testing.T) {
	steps := []struct {
		name string
		do   func(x *session.Exchange)
	}{
		{"a message", func(x *session.Exchange) { _, _ = x.Stream().Append(plain("a")) }},
		{"an ask", func(x *session.Exchange) { _, _ = x.Stream().Ask("ping", nil, nil) }},
		{"the terminal", func(x *session.Exchange) { x.Finish(plain("end")) }},
		{"a cancel", func(x *session.Exchange) { x.Cancel(errors.New("why")) }},
		{"a successor", func(x *session.Exchange) { attach(x.Stream()) }},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			x := new(session.Stateless).Begin(jsonrpc.NumberID(1), rules(), func(error) {})
			c := attach(x.Stream())
			isWoken(c) // by earlier steps
			step.do(x)
			if !isWoken(c) {
				t.Error("the consumer was not woken")
			}
		})
	}
}

func TestAttachWakesForQueuedMessages(t *testing.T) {
	x := stateless(t, rules())
	mustAppend(t, x.Stream(), plain("early"))
	if c := attach(x.Stream()); !isWoken(c) {
		t.Error("a message is queued, and the new consumer was not woken")
	}
}

// M037, M038, M045: after a consumer has detached nothing can reach its response.
func TestDetachedConsumerGetsNothing(t *testing.T) {
	x := stateless(t, rules())
	c := attach(x.Stream())
	c.Detach()
	mustAppend(t, x.Stream(), plain("late"))
	wantTake(t, c, session.Revoked)
}

// M075: Detach of a superseded consumer does not affect its successor.
func TestSupersededConsumerCannotDetachItsSuccessor(t *testing.T) {
	s := session.New("id", "", &mcp.Peer{}, rules())
	s.Initialized()
	first := attach(s.Standalone())
	second := attach(s.Standalone())
	mustAppend(t, s.Standalone(), plain("a"))
	wantTake(t, first, session.Revoked)
	first.Detach()
	wantTake(t, second, session.Open, "a")
	mustAppend(t, s.Standalone(), plain("b"))
	wantTake(t, second, session.Open, "b")
}

// The standalone stream exists without a consumer; M042: messages appended meanwhile are
// queued.
func TestStandaloneStreamOutlivesItsConsumers(t *testing.T) {
	s := session.New("id", "", &mcp.Peer{}, rules())
	s.Initialized()
	c := attach(s.Standalone())
	c.Detach()
	mustAppend(t, s.Standalone(), plain("between"))
	wantTake(t, attach(s.Standalone()), session.Open, "between")
}

func TestFullStreamSignalsSpace(t *testing.T) {
	x := stateless(t, rules())
	c := attach(x.Stream())
	for i := range 8 {
		mustAppend(t, x.Stream(), plain(fmt.Sprint(i)))
	}
	full, err := x.Stream().Append(plain("ninth"))
	if full == nil || err != nil {
		t.Fatalf("Append to a full stream: %v, %v; want a channel to wait on", full, err)
	}
	select {
	case <-full:
		t.Fatal("the channel was closed before there was space")
	default:
	}
	take(c)
	<-full
	mustAppend(t, x.Stream(), plain("ninth"))
}

// A withdrawn ask frees space, too: perhaps no Take follows.
func TestWithdrawFreesSpace(t *testing.T) {
	x := stateless(t, rules())
	a, err := x.Stream().Ask("q", []byte(`{"x":"`+strings.Repeat("x", 80)+`"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	full, _ := x.Stream().Append(plain("waits"))
	if full == nil {
		t.Fatal("the stream is not full")
	}
	x.Stream().Withdraw(a, errors.New("why"))
	<-full
}

// A sender must not wait forever for a stream that has ended.
func TestWaitersLearnOfTheEnd(t *testing.T) {
	ends := map[string]func(*session.Exchange, *session.Consumer){
		"finish": func(x *session.Exchange, _ *session.Consumer) { x.Finish(plain("end")) },
		"cancel": func(x *session.Exchange, _ *session.Consumer) { x.Cancel(errors.New("why")) },
		"detach": func(_ *session.Exchange, c *session.Consumer) { c.Detach() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			x := new(session.Stateless).Begin(jsonrpc.NumberID(1), rules(), func(error) {})
			c := attach(x.Stream())
			mustAppend(t, x.Stream(), plain(strings.Repeat("x", 80)))
			full, _ := x.Stream().Append(plain("waits"))
			if full == nil {
				t.Fatal("the stream is not full")
			}
			end(x, c)
			<-full
		})
	}
}

func TestBytesBoundAStream(t *testing.T) {
	x := stateless(t, rules())
	c := attach(x.Stream())
	mustAppend(t, x.Stream(), plain(strings.Repeat("x", 200))) // alone, it fits
	if full, _ := x.Stream().Append(plain("y")); full == nil {
		t.Error("a second message fits behind one of 200 bytes; the limit is 80")
	}
	take(c)
	mustAppend(t, x.Stream(), plain("y"))
}

// M036: a fast receiver gets every message.
func TestProgressIsNotMergedForAQuickReceiver(t *testing.T) {
	x := stateless(t, rules())
	c := attach(x.Stream())
	var got, want []string
	for i := range 80 {
		text := fmt.Sprint(i)
		mustAppend(t, x.Stream(), msg(session.Progress, "t", text))
		some, _ := take(c)
		got, want = append(got, some...), append(want, text)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("progress (-got +want):\n%s", diff)
	}
}

func TestSlowReceiverGetsTheLatestProgress(t *testing.T) {
	r := rules()
	x := stateless(t, r)
	c := attach(x.Stream())
	mustAppend(t, x.Stream(), plain("a"), plain("b"), msg(session.Progress, "t", "1"), plain("c"))
	for i := 2; i <= 100; i++ {
		mustAppend(t, x.Stream(), msg(session.Progress, "t", fmt.Sprint(i)))
	}
	mustAppend(t, x.Stream(), msg(session.Progress, "other", "o"))
	x.Finish(plain("end"))
	wantTake(t, c, session.Ended, "a", "b", "c", "100", "o", "end")
	if got := r.Counts.Merged.Load(); got != 99 {
		t.Errorf("merged = %d, want 99", got)
	}
}

func TestSlowReceiverLosesLogMessages(t *testing.T) {
	r := rules()
	x := stateless(t, r)
	c := attach(x.Stream())
	for i := range 10 {
		mustAppend(t, x.Stream(), msg(session.Log, "", fmt.Sprint(i)))
	}
	wantTake(t, c, session.Open, "0", "1", "2", "3")
	if got := r.Counts.Dropped.Load(); got != 6 {
		t.Errorf("dropped = %d, want 6", got)
	}
}

// I33: changes are a level. While one is queued, others are merged into it; after it was
// taken, the next one is queued.
func TestChangesAreALevel(t *testing.T) {
	x := stateless(t, rules())
	c := attach(x.Stream())
	change := msg(session.Change, "tools", "tools changed")
	for range 100 {
		mustAppend(t, x.Stream(), change, msg(session.Change, "prompts", "prompts changed"))
	}
	wantTake(t, c, session.Open, "tools changed", "prompts changed")
	mustAppend(t, x.Stream(), change)
	wantTake(t, c, session.Open, "tools changed")
}

// Responses are never dropped, however full the stream is.
func TestTerminalAlwaysFits(t *testing.T) {
	x := stateless(t, rules())
	c := attach(x.Stream())
	for i := range 8 {
		mustAppend(t, x.Stream(), plain(fmt.Sprint(i)))
	}
	if !x.Finish(plain("end")) {
		t.Fatal("Finish refused")
	}
	wantTake(t, c, session.Ended, "0", "1", "2", "3", "4", "5", "6", "7", "end")
}

// M171: everything appended before the acknowledgement follows it.
func TestHeldStreamBeginsWithItsOpening(t *testing.T) {
	x := stateless(t, rules())
	x.HoldUntilOpening()
	c := attach(x.Stream())
	mustAppend(t, x.Stream(), msg(session.Change, "tools", "changed"))
	wantTake(t, c, session.Open)
	if form := x.Form(false); form != session.Undecided {
		t.Errorf("form = %v before anything is given out, want Undecided", form)
	}
	mustAppend(t, x.Stream(), msg(session.Opening, "", "ack"))
	wantTake(t, c, session.Open, "ack", "changed")
}

// U3- 2026-07-28 basic/patterns/subscriptions: "MUST NOT send any notification on the
// subscription before it."
func TestHeldStreamThatNeverOpensHasOnlyItsTerminal(t *testing.T) {
	x := stateless(t, rules())
	x.HoldUntilOpening()
	c := attach(x.Stream())
	mustAppend(t, x.Stream(), msg(session.Change, "tools", "changed"))
	x.Finish(plain("error"))
	if form := x.Form(false); form != session.JSON {
		t.Errorf("form = %v, want JSON", form)
	}
	wantTake(t, c, session.Ended, "error")
}

// A receiver is slow if half of a limit is queued: it loses log messages.
func TestSlowReceiver(t *testing.T) {
	for name, tt := range map[string]struct {
		queued []string
		slow   bool
	}{
		"half of the messages": {[]string{"a", "b", "c", "d"}, true},
		"less":                 {[]string{"a", "b", "c"}, false},
		"half of the bytes":    {[]string{strings.Repeat("x", 40)}, true},
		"fewer":                {[]string{strings.Repeat("x", 39)}, false},
	} {
		r := rules() // 8 messages, 80 bytes
		x := stateless(t, r)
		attach(x.Stream())
		for _, text := range tt.queued {
			mustAppend(t, x.Stream(), plain(text))
		}
		mustAppend(t, x.Stream(), msg(session.Log, "", "log"))
		if dropped := r.Counts.Dropped.Load() == 1; dropped != tt.slow {
			t.Errorf("%s: the log message was dropped: %v, want %v", name, dropped, tt.slow)
		}
	}
}

// A message fits if it reaches a limit, and waits if it exceeds it.
func TestLastBytesOfAStream(t *testing.T) {
	for size, want := range map[int]bool{40: false, 41: true} {
		x := stateless(t, rules()) // 80 bytes
		mustAppend(t, x.Stream(), plain(strings.Repeat("x", 40)))
		full, err := x.Stream().Append(plain(strings.Repeat("x", size)))
		if got := full != nil; got != want || err != nil {
			t.Errorf("%d bytes behind 40 wait: %v, %v; want %v", size, got, err, want)
		}
	}
}

func TestMessageLen(t *testing.T) {
	m := session.Message{Head: []byte("a"), Body: []byte("bc"), Tail: []byte("def")}
	if got := m.Len(); got != 6 {
		t.Errorf("Len = %d, want 6", got)
	}
}

// Take is limited to what reaches 64 KiB, so that the rest can still be merged.
func TestTakeIsBounded(t *testing.T) {
	r := rules()
	r.Limits.Bytes = 1 << 20
	for _, size := range []int{32 << 10, 40 << 10} {
		x := stateless(t, r)
		c := attach(x.Stream())
		for range 4 {
			mustAppend(t, x.Stream(), plain(strings.Repeat("x", size)))
		}
		ms, state := c.Take(nil)
		if len(ms) != 2 || state != session.Open {
			t.Errorf("took %d messages of %d bytes, state %v; want 2, Open", len(ms), size, state)
		}
		wantRest, _ := c.Take(nil)
		if len(wantRest) != 2 {
			t.Errorf("then took %d, want 2", len(wantRest))
		}
	}
}

// Take is limited also if it begins with retained messages.
func TestTakeOfRetainedMessagesIsLimited(t *testing.T) {
	rules := retaining()
	rules.Limits.LogBytes, rules.Limits.Bytes = 1<<20, 1<<20
	for _, size := range []int{32 << 10, 40 << 10} {
		for _, kept := range []int{1, 2, 3} {
			r := newResumable(t, newSession(rules), 1).prime()
			large := slices.Repeat([]string{strings.Repeat("x", size)}, 3)
			r.append(large[:kept]...)
			take(r.c) // lost in transit
			r.append(large[kept:]...)
			r.back()
			for _, want := range []int{2, 1} {
				if ms, _ := r.c.Take(nil); len(ms) != want {
					t.Errorf("%d of 3 were kept: took %d messages of %d bytes, want %d", kept, len(ms), size, want)
				}
			}
		}
	}
}
