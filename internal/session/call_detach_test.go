// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// absence counts what somebody is told who is away from his call.
type absence struct{ comes, ended int }

// OnMessage counts.
func (a *absence) OnMessage() { a.comes++ }

// Ended counts.
func (a *absence) OnEnd() { a.ended++ }

func away(c *session.Call) *absence {
	a := new(absence)
	c.Detach(a)
	return a
}

func (a *absence) want(t *testing.T, when string, comes, ended int) {
	t.Helper()
	if a.comes != comes || a.ended != ended {
		t.Errorf("%s: told of messages %d times and of the end %d times, want %d and %d", when, a.comes, a.ended, comes, ended)
	}
}

// What comes for a call whose maker is away is somebody's to take, and of one only: he
// is called once, whatever follows, until he has found nothing left.
func TestAwayIsToldOfMessages(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	a := away(c)
	a.want(t, "at first", 0, 0)
	for range 3 {
		c.Push(notice(t, "notifications/message", `{"n":1}`))
	}
	a.want(t, "after three messages", 1, 0)
	for i := range 3 {
		if c.Take() == nil {
			t.Fatalf("message %d is not there", i)
		}
	}
	c.Push(notice(t, "notifications/message", `{"n":2}`))
	a.want(t, "after one that comes before it is known that none is left", 1, 0)
	if c.Take() == nil || c.Take() != nil {
		t.Error("taken another number of messages than one")
	}
	c.Push(notice(t, "notifications/message", `{"n":3}`))
	a.want(t, "after one that comes later", 2, 0)
}

// A message of the call's own stream is handed on by whoever reads it, if nothing is
// before it; else it waits its turn. Where nobody is away it waits to be taken.
func TestAwayKeepsTheOrder(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	one := notice(t, "notifications/message", `{"n":1}`)
	if got := c.Offer(one); got != session.Queued {
		t.Errorf("offered to who waits: %d, want it taken", got)
	}
	a := away(c)
	a.want(t, "with a message there", 1, 0)
	if got := c.Offer(notice(t, "notifications/message", `{"n":2}`)); got != session.Queued {
		t.Errorf("offered behind another: %d, want it taken", got)
	}
	if m := c.Take(); m != one {
		t.Errorf("taken %v, want the first", m)
	}
	if m := c.Take(); m == nil || c.Take() != nil {
		t.Error("taken another number of messages than two")
	}
	if got := c.Offer(one); got != session.DeliverDirectly {
		t.Errorf("offered where nothing is: %d, want it to be ours to hand on", got)
	}
	c.Push(one)
	a.want(t, "with one who hands on what he has read", 1, 0)
	if c.Take() != one || c.Take() != nil {
		t.Error("what has come meanwhile is not taken behind it")
	}
}

// Whoever comes back waits for the one who still takes what has come before, and hears
// of it when he is done: the terminal stands behind all of it.
func TestAwayAndBack(t *testing.T) {
	for _, ended := range []bool{false, true} {
		var calls session.Calls
		c := openCall(t, &calls, "tools/call")
		away(c)
		c.Push(notice(t, "notifications/message", `{"n":1}`))
		if ended {
			c.Respond(callResult(t, `{"n":0}`))
		}
		if msgs, end := taken(c); len(msgs) != 0 || end != "" {
			t.Errorf("ended %v: taken %q and %q while another takes", ended, msgs, end)
		}
		wake := c.Wake()
		<-wake // there is something, although it is another's to take
		if c.Take() == nil || c.Take() != nil {
			t.Error("the message is not there")
		}
		select {
		case <-wake:
		default:
			t.Errorf("ended %v: who is back does not hear that nothing is left", ended)
		}
		if _, end := taken(c); (end != "") != ended {
			t.Errorf("ended %v: terminal %q", ended, end)
		}
	}
}

// Back from the transport, one is told by Wake and by nothing else.
func TestBackIsWoken(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	a := away(c)
	taken(c)
	c.Push(notice(t, "notifications/message", `{"n":1}`))
	a.want(t, "after a message", 0, 0)
	<-c.Wake()
	if msgs, _ := taken(c); len(msgs) != 1 {
		t.Errorf("taken %q, want the message", msgs)
	}
}

// witness looks at the call when it is told of its end.
type witness struct {
	absence

	t    *testing.T
	call *session.Call
}

// Ended looks.
func (w *witness) OnEnd() {
	w.absence.OnEnd()
	if !w.call.IsOver() || !callIsDone(w.call) {
		w.t.Error("told of the end before it is one")
	}
}

// However a call ends, whoever is away to carry it is told at once, but of the response
// that he has brought himself. He may look at the call then: no lock is held.
func TestAwayIsToldOfTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		end   func(*session.Calls, *session.Call)
		ended int
	}{
		{"a response on another stream", func(calls *session.Calls, c *session.Call) { calls.Respond(c.ID(), session.Terminal{Err: errEnd}) }, 1},
		{"the end of the connection", func(calls *session.Calls, _ *session.Call) { calls.End(errEnd) }, 1},
		{"given up", func(_ *session.Calls, c *session.Call) { c.Finish(session.Terminal{Err: errEnd}) }, 1},
		{"taken back", func(_ *session.Calls, c *session.Call) { c.Withdraw(session.Terminal{Err: errEnd}) }, 1},
		{"the response on its own stream", func(_ *session.Calls, c *session.Call) { c.Respond(session.Terminal{Err: errEnd}) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls session.Calls
			c := openCall(t, &calls, "tools/call")
			c.Hold()
			a := &witness{t: t, call: c}
			c.Detach(a)
			tt.end(&calls, c)
			tt.end(&calls, c) // of which there is only one
			a.want(t, "in the end", 0, tt.ended)
			if _, end := taken(c); end != errEnd.Error() {
				t.Errorf("terminal %q, want %q", end, errEnd)
			}
			if calls.Stats().Open != 0 {
				t.Error("the call is open")
			}
		})
	}
}

// A call may be over before anybody has gone to carry it: then he is told, and carries
// nothing.
func TestAwayFromWhatIsOver(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	calls.End(errEnd)
	away(c).want(t, "over", 0, 1)
}

// The second response on a call's own stream counts as any that comes late.
func TestSecondResponseOnTheOwnStream(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	if !c.Respond(callResult(t, `{"n":1}`)) || c.Respond(callResult(t, `{"n":2}`)) {
		t.Error("not the first response alone ends the call")
	}
	if _, end := taken(c); end != `{"n":1}` {
		t.Errorf("terminal %q, want the first", end)
	}
	if got := calls.Stats(); got.Late != 1 || got.Open != 0 {
		t.Errorf("counted %+v, want one late", got)
	}
}

// The channels of a call are there for whoever asks, and say what has been the case
// before he did.
func TestChannelsThatComeLate(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	if len(c.Wake()) != 0 || len(c.Space()) != 0 || callIsDone(c) {
		t.Error("a call that has nothing wakes")
	}
	c = openCall(t, &calls, "tools/call")
	c.Push(notice(t, "notifications/message", `{"n":1}`))
	if len(c.Wake()) != 1 || len(c.Space()) != 0 || callIsDone(c) {
		t.Error("a message does not wake, or more than that")
	}
	c = openCall(t, &calls, "tools/call")
	c.Finish(session.Terminal{Err: errEnd})
	if len(c.Wake()) != 1 || len(c.Space()) != 1 || !callIsDone(c) {
		t.Error("the end does not wake all who wait")
	}
}
