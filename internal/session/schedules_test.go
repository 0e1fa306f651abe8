// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// The tests of this file are schedules that the simulator found and shrank.

// Otherwise a client that disconnects just before the expiry would find nothing.
func TestRetentionBeginsAtDetach(t *testing.T) {
	sess := newSession(retaining())
	r := newResumable(t, sess, 1).prime()
	r.x.Finish(plain("end"))
	r.c.Take(nil)
	sess.Expire(at(0)) // the stream still has a consumer
	r.c.Detach()
	if next := sess.Expire(at(59)); !next.Equal(at(119)) {
		t.Errorf("retained until %v, want %v", next, at(119))
	}
	if _, err := sess.Resume(r.last, make(chan struct{}, 1), at(61)); err != nil {
		t.Errorf("Resume two seconds after Detach: %v", err)
	}
}

func TestPauseWakesConsumerOfHeldStream(t *testing.T) {
	sess := newSession(retaining()) // its client is not initialized
	c := attach(sess.Standalone())
	c.MakeResumable()
	if !sess.Standalone().Pause(time.Second) {
		t.Fatal("Pause = false")
	}
	select {
	case <-c.Wake():
	default:
		t.Error("the consumer sleeps")
	}
	if _, state := c.Take(nil); state != session.Paused {
		t.Errorf("Take = %v, want Paused", state)
	}
}

// Two consumers were blocked, one after the other, each with a change of the same key.
func TestChangeRequeuedTwiceIsSentOnce(t *testing.T) {
	sess := newSession(retaining())
	sess.Initialized()
	s := sess.Standalone()
	first := attach(s)
	first.MakeResumable()
	mustAppend(t, s, msg(session.Change, "k", "change 1"))
	one, _ := first.Take(nil)
	second := attach(s)
	mustAppend(t, s, msg(session.Change, "k", "change 2"))
	two, _ := second.Take(nil)
	second.Requeue(two)
	second.Detach()
	first.Requeue(one)
	first.Detach()
	wantTake(t, attach(s), session.Open, "change 2")
}

// The ask was replayed to a consumer that was superseded by one that did not resume.
func TestReplayedAskThatIsRequeuedEnds(t *testing.T) {
	sess := newSession(retaining())
	sess.Initialized()
	s := sess.Standalone()
	first := attach(s)
	first.MakeResumable()
	id := first.PrimingID()
	a, err := s.Ask("m", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := first.Take(nil)
	first.Requeue(got)
	first.Detach()
	second, err := sess.Resume(id, make(chan struct{}, 1), at(0))
	if err != nil {
		t.Fatal(err)
	}
	got, _ = second.Take(nil)
	attach(s)
	second.Requeue(got)
	if !isDone(a) || !errors.Is(a.Answer().Err, session.ErrNoReceiver) {
		t.Error("the ask was not delivered, and has not ended")
	}
}

// A client that resumes gets the messages that were taken and not written, once: they are
// not sent again if they are requeued later, nor to a client that begins anew.
func TestResumedMessagesAreSentOnce(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := newSession(retaining())
		s.Initialized()
		old := attach(s.Standalone())
		old.MakeResumable()
		id := old.PrimingID()
		mustAppend(t, s.Standalone(), msg(session.Change, "tools", "changed"))
		taken, _ := old.Take(nil)
		if !late {
			old.Requeue(taken)
			old.Detach()
		}
		c, err := s.Resume(id, make(chan struct{}, 1), at(0))
		if err != nil {
			t.Fatal(err)
		}
		if late {
			old.Requeue(taken)
			old.Detach()
		}
		wantTake(t, c, session.Open, "changed")
		wantTake(t, c, session.Open)
		c.Detach()
		wantTake(t, attach(s.Standalone()), session.Open)
	}
}
