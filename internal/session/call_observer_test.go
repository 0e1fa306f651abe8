// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// recorder is an Observer that counts its calls.
type recorder struct{ messages, ends int }

// OnMessage implements Observer.
func (a *recorder) OnMessage() { a.messages++ }

// OnEnd implements Observer.
func (a *recorder) OnEnd() { a.ends++ }

func detach(c *session.Call) *recorder {
	a := new(recorder)
	c.Detach(a)
	return a
}

func (a *recorder) want(t *testing.T, when string, comes, ended int) {
	t.Helper()
	if a.messages != comes || a.ends != ended {
		t.Errorf("%s: told of messages %d times and of the end %d times, want %d and %d", when, a.messages, a.ends, comes, ended)
	}
}

// OnMessage is called once for a detached call, and again only after Take has returned nil.
func TestObserverOnMessage(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	a := detach(c)
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
	a.want(t, "after a message before Take has returned nil", 1, 0)
	if c.Take() == nil || c.Take() != nil {
		t.Error("want exactly one message")
	}
	c.Push(notice(t, "notifications/message", `{"n":3}`))
	a.want(t, "after a later message", 2, 0)
}

// While a call is detached, a message of its own stream is delivered directly if the inbox
// is empty; otherwise it is queued.
func TestDetachedCallKeepsOrder(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	one := notice(t, "notifications/message", `{"n":1}`)
	if got := c.Offer(one); got != session.Queued {
		t.Errorf("Offer to a waiting caller = %d, want Queued", got)
	}
	a := detach(c)
	a.want(t, "with a message there", 1, 0)
	if got := c.Offer(notice(t, "notifications/message", `{"n":2}`)); got != session.Queued {
		t.Errorf("Offer behind another message = %d, want Queued", got)
	}
	if m := c.Take(); m != one {
		t.Errorf("taken %v, want the first", m)
	}
	if m := c.Take(); m == nil || c.Take() != nil {
		t.Error("want exactly two messages")
	}
	if got := c.Offer(one); got != session.DeliverDirectly {
		t.Errorf("Offer to an empty inbox = %d, want DeliverDirectly", got)
	}
	c.Push(one)
	a.want(t, "during a direct delivery", 1, 0)
	if c.Take() != one || c.Take() != nil {
		t.Error("a message that arrived during the delivery is not next")
	}
}

// A caller that returns waits for the goroutine that still drains, and is woken when it has
// finished. The terminal follows all messages.
func TestDetachAndNext(t *testing.T) {
	for _, ended := range []bool{false, true} {
		var calls session.Calls
		c := openCall(t, &calls, "tools/call")
		detach(c)
		c.Push(notice(t, "notifications/message", `{"n":1}`))
		if ended {
			c.Respond(callResult(t, `{"n":0}`))
		}
		if msgs, end := taken(c); len(msgs) != 0 || end != "" {
			t.Errorf("ended %v: taken %q and %q while another takes", ended, msgs, end)
		}
		wake := c.Wake()
		<-wake // there is a message, although another goroutine drains
		if c.Take() == nil || c.Take() != nil {
			t.Error("the message is not there")
		}
		select {
		case <-wake:
		default:
			t.Errorf("ended %v: the caller is not woken when the inbox is drained", ended)
		}
		if _, end := taken(c); (end != "") != ended {
			t.Errorf("ended %v: terminal %q", ended, end)
		}
	}
}

// A caller that has returned is woken through Wake only.
func TestWakeAfterDetach(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	a := detach(c)
	taken(c)
	c.Push(notice(t, "notifications/message", `{"n":1}`))
	a.want(t, "after a message", 0, 0)
	<-c.Wake()
	if msgs, _ := taken(c); len(msgs) != 1 {
		t.Errorf("taken %q, want the message", msgs)
	}
}

// witness checks the state of the call when OnEnd is called.
type witness struct {
	recorder

	t    *testing.T
	call *session.Call
}

// OnEnd implements Observer.
func (w *witness) OnEnd() {
	w.recorder.OnEnd()
	if !w.call.IsOver() || !callIsDone(w.call) {
		w.t.Error("OnEnd before the call has ended")
	}
}

// OnEnd is called at once, however a call ends, except by a response on its own stream. No
// lock is held.
func TestObserverOnEnd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		end   func(*session.Calls, *session.Call)
		ended int
	}{
		{"a response on another stream", func(calls *session.Calls, c *session.Call) { calls.Respond(c.ID(), session.Terminal{Err: errEnd}) }, 1},
		{"the end of the connection", func(calls *session.Calls, _ *session.Call) { calls.End(errEnd) }, 1},
		{"finished", func(_ *session.Calls, c *session.Call) { c.Finish(session.Terminal{Err: errEnd}) }, 1},
		{"withdrawn", func(_ *session.Calls, c *session.Call) { c.Withdraw(session.Terminal{Err: errEnd}) }, 1},
		{"the response on its own stream", func(_ *session.Calls, c *session.Call) { c.Respond(session.Terminal{Err: errEnd}) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls session.Calls
			c := openCall(t, &calls, "tools/call")
			c.Hold()
			a := &witness{t: t, call: c}
			c.Detach(a)
			tt.end(&calls, c)
			tt.end(&calls, c) // no effect
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

// A call may have ended before Detach: then OnEnd is called at once.
func TestDetachFromEndedCall(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	calls.End(errEnd)
	detach(c).want(t, "over", 0, 1)
}

// A second response on a call's own stream counts as late.
func TestSecondResponseOnTheOwnStream(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	if !c.Respond(callResult(t, `{"n":1}`)) || c.Respond(callResult(t, `{"n":2}`)) {
		t.Error("want that only the first response ends the call")
	}
	if _, end := taken(c); end != `{"n":1}` {
		t.Errorf("terminal %q, want the first", end)
	}
	if got := calls.Stats(); got.Late != 1 || got.Open != 0 {
		t.Errorf("counted %+v, want one late", got)
	}
}

// The channels of a call are created on demand, in the state of the call.
func TestChannelsAreCreatedOnDemand(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	if len(c.Wake()) != 0 || len(c.Space()) != 0 || callIsDone(c) {
		t.Error("a call without messages wakes")
	}
	c = openCall(t, &calls, "tools/call")
	c.Push(notice(t, "notifications/message", `{"n":1}`))
	if len(c.Wake()) != 1 || len(c.Space()) != 0 || callIsDone(c) {
		t.Error("a message does not wake, or more than that")
	}
	c = openCall(t, &calls, "tools/call")
	c.Finish(session.Terminal{Err: errEnd})
	if len(c.Wake()) != 1 || len(c.Space()) != 1 || !callIsDone(c) {
		t.Error("the end does not wake all waiters")
	}
}
