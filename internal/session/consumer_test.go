// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func change(key string) session.Message { return msg(session.Change, key, key+" changed") }

// I33: a change is a level until it is written. A change that a consumer could not write is
// delivered by the next one, once, before queued messages.
func TestRequeuedChangesAreSentAgain(t *testing.T) {
	r := rules()
	s := newSession(r)
	s.Initialized()
	c := attach(s.Standalone())
	mustAppend(t, s.Standalone(), change("tools"), plain("a"), msg(session.Log, "", "log"), change("prompts"))
	taken, _ := c.Take(nil)
	mustAppend(t, s.Standalone(), change("prompts"), change("resources"))
	c.Requeue(taken)
	c.Detach()
	wantTake(t, attach(s.Standalone()), session.Open, "tools changed", "prompts changed", "resources changed")
	if dropped, merged := r.Counts.Dropped.Load(), r.Counts.Merged.Load(); dropped != 2 || merged != 1 {
		t.Errorf("dropped %d, merged %d; want 2, 1", dropped, merged)
	}
}

// M075: a consumer that is superseded while it writes does not lose the change; its
// successor is woken to deliver it.
func TestSupersededConsumerRequeues(t *testing.T) {
	s := newSession(rules())
	s.Initialized()
	first := attach(s.Standalone())
	mustAppend(t, s.Standalone(), change("tools"))
	taken, _ := first.Take(nil)
	second := attach(s.Standalone())
	isWoken(second) // by Attach
	first.Requeue(taken)
	if !isWoken(second) {
		t.Error("the successor was not woken")
	}
	wantTake(t, second, session.Open, "tools changed")
}

// Requeued messages count against the limits of the stream.
func TestRequeuedBytesCount(t *testing.T) {
	s := newSession(rules())
	s.Initialized()
	c := attach(s.Standalone())
	mustAppend(t, s.Standalone(), msg(session.Change, "k", string(make([]byte, 75))))
	taken, _ := c.Take(nil)
	c.Requeue(taken)
	if full, _ := s.Standalone().Append(plain("0123456789")); full == nil {
		t.Error("10 bytes fit behind 75 requeued ones; the limit is 80")
	}
	take(c)
	mustAppend(t, s.Standalone(), plain("0123456789"))
}

// An ask that could not be written ends, because the client may or may not have received
// it; a later answer is a stray.
func TestRequeuedAskEnds(t *testing.T) {
	r := rules()
	s := newSession(r)
	s.Initialized()
	c := attach(s.Standalone())
	a, err := s.Standalone().Ask("roots/list", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	taken, _ := c.Take(nil)
	isWoken(c) // by Ask
	c.Requeue(taken)
	if !isDone(a) || !errors.Is(a.Answer().Err, session.ErrNoReceiver) {
		t.Error("the ask has not ended with ErrNoReceiver")
	}
	if isWoken(c) {
		t.Error("the consumer was woken, and there is nothing to take")
	}
	if s.Answer(a.ID(), session.Terminal{Result: &mcp.Result{}}) || r.Counts.Strays.Load() != 1 {
		t.Error("an answer to the ask was accepted, or not counted")
	}
	c.Requeue(taken) // no effect
	wantTake(t, c, session.Open)
}

// The stream of an exchange has one consumer: messages that it requeues are lost, and
// counted.
func TestRequeueOnAnExchange(t *testing.T) {
	r := rules()
	x := stateless(t, r)
	c := attach(x.Stream())
	mustAppend(t, x.Stream(), change("tools"), plain("a"))
	x.Finish(plain("end"))
	taken, _ := c.Take(nil)
	c.Requeue(taken)
	if dropped, undelivered := r.Counts.Dropped.Load(), r.Counts.Undelivered.Load(); dropped != 2 || undelivered != 1 {
		t.Errorf("dropped %d, undelivered %d; want 2, 1", dropped, undelivered)
	}
	wantTake(t, c, session.Ended)
}

// A client that leaves before its terminal is sent counts, and one that leaves after it
// does not.
func TestDetachCountsTheTerminal(t *testing.T) {
	for want := range uint64(2) {
		r := rules()
		x := stateless(t, r)
		c := attach(x.Stream())
		x.Finish(plain("end"))
		if want == 0 {
			wantTake(t, c, session.Ended, "end")
		}
		c.Detach()
		if undelivered, dropped := r.Counts.Undelivered.Load(), r.Counts.Dropped.Load(); undelivered != want || dropped != 0 {
			t.Errorf("undelivered %d, dropped %d; want %d, 0", undelivered, dropped, want)
		}
	}
}

// After the end of the session, requeued messages are dropped.
func TestRequeueAfterSessionEnd(t *testing.T) {
	s := newSession(rules())
	s.Initialized()
	c := attach(s.Standalone())
	mustAppend(t, s.Standalone(), change("tools"))
	taken, _ := c.Take(nil)
	s.End(mcp.Errorf(1, "over"))
	c.Requeue(taken)
	wantTake(t, c, session.Ended)
}

// FAULTS 24: consumers that do not detach are limited, superseded or not; one that is
// refused supersedes none.
func TestConsumersAreLimited(t *testing.T) {
	s := newSession(rules())
	s.Initialized()
	try := func() (*session.Consumer, error) { return s.Standalone().TryAttach(make(chan struct{}, 1)) }
	first, err := try()
	if err != nil {
		t.Fatal(err)
	}
	second, err := try()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := try(); !errors.Is(err, session.ErrTooMany) {
		t.Fatalf("the third of two consumers: %v, want ErrTooMany", err)
	}
	mustAppend(t, s.Standalone(), plain("a"))
	wantTake(t, second, session.Open, "a")
	first.Detach()
	first.Detach() // no effect
	third, err := try()
	if err != nil {
		t.Fatalf("after one has detached: %v", err)
	}
	if _, err := try(); !errors.Is(err, session.ErrTooMany) {
		t.Fatalf("one more: %v, want ErrTooMany", err)
	}
	second.Detach()
	third.Detach()
	if !s.IsIdle() {
		t.Error("the session is not idle after all consumers have detached")
	}
}

// Consumers that share a channel report whether they were woken: once per wake-up.
func TestConsumerWoken(t *testing.T) {
	s := newSession(rules())
	s.Initialized()
	wake := make(chan struct{}, 1)
	var carriers [2]*session.Consumer
	var exchanges [2]*session.Exchange
	for i := range carriers {
		x, err := s.Begin(jsonrpc.NumberID(uint64(i)+1), func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		exchanges[i], carriers[i] = x, x.Stream().Attach(wake)
	}
	step := func(what string, want ...bool) {
		t.Helper()
		for i, c := range carriers {
			if got := c.Woken(); got != want[i] || c.Woken() {
				t.Errorf("%s: consumer %d was woken: %v, want %v, and then not again", what, i, got, want[i])
			}
		}
		if got := len(wake) == 1; got != (want[0] || want[1]) {
			t.Errorf("%s: the channel was signalled: %v", what, got)
		}
		select {
		case <-wake:
		default:
		}
	}
	step("new", true, true)
	step("nothing has happened", false, false)
	mustAppend(t, exchanges[1].Stream(), plain("a"))
	step("a message", false, true)
	exchanges[0].Finish(plain("the end"))
	step("the end", true, false)
	exchanges[1].Stream().Attach(make(chan struct{}, 1))
	step("superseded", false, true)
}
