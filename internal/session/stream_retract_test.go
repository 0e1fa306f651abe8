// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Only a queued change of that key is removed, and its space is free again.
func TestRetract(t *testing.T) {
	s := stateless(t, rules()).Stream()
	mustAppend(t, s, msg(session.Change, "a", "1"), msg(session.Change, "b", "2"), msg(session.Progress, "a", "3"))
	if !s.Retract("a") || s.Retract("a") || s.Retract("none") {
		t.Error("want the one change of the key to be found, once")
	}
	c := attach(s)
	wantTake(t, c, session.Open, "2", "3")
	if s.Retract("b") {
		t.Error("what was taken is on its way")
	}
}

// Retract wakes a sender that waits for space.
func TestRetractFreesSpace(t *testing.T) {
	s := stateless(t, rules()).Stream()
	for range 7 {
		mustAppend(t, s, plain("x"))
	}
	mustAppend(t, s, msg(session.Change, "a", "1"))
	full, err := s.Append(plain("late"))
	if full == nil || err != nil {
		t.Fatalf("Append = %v, %v; want full", full != nil, err)
	}
	if !s.Retract("a") {
		t.Fatal("the change was not found")
	}
	select {
	case <-full:
	default:
		t.Error("the waiting sender is not woken")
	}
}

// When a session ends, the queue of a consumer may have the same change twice: requeued
// from another, and new.
func TestRetractAfterTheEnd(t *testing.T) {
	s := newSession(retaining())
	s.Initialized()
	c := attach(s.Standalone())
	c.MakeResumable()
	id := c.PrimingID()
	mustAppend(t, s.Standalone(), msg(session.Change, "tools", "changed"))
	taken, _ := c.Take(nil)
	c.Requeue(taken)
	c.Detach()
	attach(s.Standalone()).Detach() // began anew, and took nothing
	c, err := s.Resume(id, make(chan struct{}, 1), at(0))
	if err != nil {
		t.Fatal(err)
	}
	s.End(mcp.Errorf(1, "over"))
	if !s.Standalone().Retract("tools") || s.Standalone().Retract("tools") {
		t.Error("want the change to be found, once")
	}
	wantTake(t, c, session.Ended)
}

// Requeued changes are removed for a client that begins anew; a client that resumes gets
// the original messages.
func TestRetractRequeuedChanges(t *testing.T) {
	s := newSession(retaining())
	s.Initialized()
	c := attach(s.Standalone())
	c.MakeResumable()
	id := c.PrimingID()
	mustAppend(t, s.Standalone(), msg(session.Change, "a", "1"), msg(session.Change, "b", "2"), msg(session.Plain, "a", "3"))
	taken, _ := c.Take(nil)
	c.Requeue(taken)
	c.Detach()
	if !s.Standalone().Retract("a") || s.Standalone().Retract("a") {
		t.Error("want the change to be found, once")
	}
	c, err := s.Resume(id, make(chan struct{}, 1), at(0))
	if err != nil {
		t.Fatal(err)
	}
	taken, _ = c.Take(nil)
	if len(taken) != 3 {
		t.Errorf("a client that resumes gets %d messages, want all 3", len(taken))
	}
}

func TestRetractBeforeAttach(t *testing.T) {
	s := newSession(retaining())
	s.Initialized()
	c := attach(s.Standalone())
	c.MakeResumable()
	mustAppend(t, s.Standalone(), msg(session.Change, "a", "1"), msg(session.Change, "b", "2"))
	taken, _ := c.Take(nil)
	c.Requeue(taken)
	c.Detach()
	s.Standalone().Retract("a")
	wantTake(t, attach(s.Standalone()), session.Open, "2")
}

// All changes with the prefix are removed.
func TestRetractByPrefix(t *testing.T) {
	s := stateless(t, rules()).Stream()
	mustAppend(t, s, msg(session.Change, "s1 x", "1"), msg(session.Change, "s10 x", "2"), msg(session.Change, "s1 y", "3"), msg(session.Change, "", "4"))
	if !s.Retract("s1 ") {
		t.Error("nothing was found")
	}
	wantTake(t, attach(s), session.Open, "2", "4")
}
