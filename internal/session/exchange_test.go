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

// I7: the form is decided by the messages of this exchange, and is final.
func TestForm(t *testing.T) {
	type step = func(*session.Exchange)
	say := func(x *session.Exchange) { _, _ = x.Stream().Append(plain("a")) }
	finish := func(x *session.Exchange) { x.Finish(plain("end")) }
	force := func(x *session.Exchange) { x.Form(true) }
	cancel := func(x *session.Exchange) { x.Cancel(errors.New("why")) }
	takeAll := func(x *session.Exchange) { take(attach(x.Stream())) }
	tests := []struct {
		name  string
		steps []step
		want  session.Form
	}{
		{"nothing yet", nil, session.Undecided},
		{"the terminal alone", []step{finish}, session.JSON},
		{"a message", []step{say}, session.SSE},
		{"a message and the terminal", []step{say, finish}, session.SSE},
		{"a message that was taken, and the terminal", []step{say, takeAll, finish}, session.SSE},
		{"forced", []step{force}, session.SSE},
		{"forced, then the terminal", []step{force, finish}, session.SSE},
		{"the terminal, then forced", []step{finish, force}, session.JSON},
		{"cancelled: there is no terminal for one object", []step{cancel}, session.SSE},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := new(session.Stateless).Begin(jsonrpc.NumberID(1), rules(), func(error) {})
			for _, step := range tt.steps {
				step(x)
			}
			if got := x.Form(false); got != tt.want {
				t.Errorf("Form = %v, want %v", got, tt.want)
			}
			if again := x.Form(true); tt.want != session.Undecided && again != tt.want {
				t.Errorf("Form changed to %v", again)
			}
		})
	}
}

func TestFinishIsFinal(t *testing.T) {
	x := stateless(t, rules())
	c := attach(x.Stream())
	if !x.Finish(plain("first")) {
		t.Fatal("the first Finish was refused")
	}
	if x.Finish(plain("second")) {
		t.Error("the second Finish was accepted")
	}
	if _, err := x.Stream().Append(plain("late")); !errors.Is(err, mcp.ErrRequestEnded) {
		t.Errorf("Append after the terminal: %v, want ErrRequestEnded", err)
	}
	if _, err := x.Stream().Ask("ping", nil, nil); !errors.Is(err, mcp.ErrRequestEnded) {
		t.Errorf("Ask after the terminal: %v, want ErrRequestEnded", err)
	}
	if x.Cancel(errors.New("late")) {
		t.Error("Cancel after the terminal reports success")
	}
	wantTake(t, c, session.Ended, "first")
}

func TestCancelDropsQueuedMessages(t *testing.T) {
	why := errors.New("why")
	var stopped []error
	x := new(session.Stateless).Begin(jsonrpc.NumberID(1), rules(), func(err error) { stopped = append(stopped, err) })
	c := attach(x.Stream())
	mustAppend(t, x.Stream(), plain("a"))
	if !x.Cancel(why) || x.Cancel(why) {
		t.Error("Cancel must report true once")
	}
	if len(stopped) != 1 || !errors.Is(stopped[0], why) {
		t.Errorf("stopped with %v, want once with %v", stopped, why)
	}
	if x.Finish(plain("end")) {
		t.Error("Finish after Cancel was accepted")
	}
	wantTake(t, c, session.Ended)
}

// A client that disconnects before its answer is counted, and costs nothing more.
func TestTerminalOfALostStreamIsCounted(t *testing.T) {
	r := rules()
	x := stateless(t, r)
	attach(x.Stream()).Detach()
	mustAppend(t, x.Stream(), plain("a")) // dropped, not an error: the request continues
	x.Finish(plain("end"))
	if got := r.Counts.Undelivered.Load(); got != 1 {
		t.Errorf("undelivered = %d, want 1", got)
	}
	if got := r.Counts.Dropped.Load(); got != 1 {
		t.Errorf("dropped = %d, want 1", got)
	}
	wantTake(t, attach(x.Stream()), session.Ended)
}
