// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// flowing returns an exchange with a consumer that accepts a ResultStream.
func streaming(t *testing.T, r *session.Rules) (*session.Exchange, *session.Consumer) {
	t.Helper()
	x := new(session.Stateless).Begin(jsonrpc.NumberID(7), r, func(error) {})
	c := attach(x.Stream())
	c.AcceptResultStreams(nil)
	isWoken(c)
	return x, c
}

// wantFlowEnd checks how a ResultStream ended; nil means that it has not.
func wantResultEnd(t *testing.T, f *session.ResultStream, want error) {
	t.Helper()
	select {
	case <-f.Done():
		if !errors.Is(f.Err(), want) || want == nil {
			t.Errorf("the flow ended with %v, want %v", f.Err(), want)
		}
	default:
		if want != nil {
			t.Errorf("the flow goes on, want %v", want)
		}
	}
}

// A ResultStream decides the form, wakes the consumer, is taken once, and the last message
// written is the terminal.
func TestResultStream(t *testing.T) {
	r := rules()
	x, c := streaming(t, r)
	f := &session.ResultStream{Source: "source"}
	if !x.OfferResultStream(f) || !isWoken(c) {
		t.Fatal("the ResultStream was refused, or the consumer was not woken")
	}
	if got := x.Form(true); got != session.JSON {
		t.Errorf("Form = %v, want JSON", got)
	}
	if x.OfferResultStream(new(session.ResultStream)) {
		t.Error("a second flow was taken")
	}
	if got := c.TakeResultStream(); got != f || got.Source != "source" {
		t.Fatalf("TakeFlow = %v, want the one that was offered", got)
	}
	if c.TakeResultStream() != nil {
		t.Error("the flow was taken twice")
	}
	if x.WithdrawResultStream(f, errors.New("late")) {
		t.Error("a flow that was taken was withdrawn")
	}
	wantResultEnd(t, f, nil)
	c.EndResultStream(f, nil)
	if <-f.Done(); f.Err() != nil {
		t.Errorf("a flow that was written ended with %v", f.Err())
	}
	x.Finish(session.Message{Head: []byte("}"), Rest: true})
	if ms, state := c.Take(nil); len(ms) != 1 || !ms[0].Rest || !ms[0].IsTerminal() || state != session.Ended {
		t.Errorf("took %v, %v; want the rest, and the end", ms, state)
	}
}

// After the beginning of one JSON object the client gets nothing else.
func TestResultStreamExcludesOtherMessages(t *testing.T) {
	r := rules()
	r.Limits.Progress = session.RateLimit{Burst: 1, Every: time.Hour}
	x, c := streaming(t, r)
	x.OfferResultStream(new(session.ResultStream))
	mustAppend(t, x.Stream(), plain("a"))
	for i := range 2 {
		if due, full, err := x.Report(progress(i+1), someTime()); !due.IsZero() || full != nil || err != nil {
			t.Errorf("Report %d: due %v, full %v, %v; want it dropped", i, due, full != nil, err)
		}
	}
	if _, err := x.Stream().Ask("ping", nil, nil); !errors.Is(err, session.ErrNoReceiver) {
		t.Errorf("Ask: %v, want ErrNoReceiver", err)
	}
	if got := r.Counts.Dropped.Load(); got != 3 {
		t.Errorf("dropped %d, want 3", got)
	}
	x.Finish(plain("end"))
	wantTake(t, c, session.Ended, "end")
}

func progress(n int) session.Message {
	return session.Message{Class: session.Progress, Key: "t", Value: []byte{byte('0' + n)}, Head: []byte("p")}
}

// A ResultStream is refused if the answer has begun in another way, or no consumer accepts
// it; then nothing has changed.
func TestOfferResultStreamRefused(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(x *session.Exchange, c *session.Consumer)
		want  session.Form
	}{
		{"a message waits", func(x *session.Exchange, _ *session.Consumer) { _, _ = x.Stream().Append(plain("a")) }, session.SSE},
		{"a message was taken", func(x *session.Exchange, c *session.Consumer) { _, _ = x.Stream().Append(plain("a")); take(c) }, session.Undecided},
		{"patience is over", func(x *session.Exchange, _ *session.Consumer) { x.Form(true) }, session.SSE},
		{"the client is gone", func(_ *session.Exchange, c *session.Consumer) { c.Detach() }, session.Undecided},
		{"another consumer, which accepts none", func(x *session.Exchange, _ *session.Consumer) { attach(x.Stream()) }, session.Undecided},
		{"it is held", func(x *session.Exchange, _ *session.Consumer) { x.HoldUntilOpening() }, session.Undecided},
		{"the terminal is there", func(x *session.Exchange, _ *session.Consumer) { x.Finish(plain("end")) }, session.JSON},
		{"cancelled", func(x *session.Exchange, _ *session.Consumer) { x.Cancel(errors.New("why")) }, session.SSE},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, c := streaming(t, rules())
			tt.spoil(x, c)
			f := new(session.ResultStream)
			if x.OfferResultStream(f) {
				t.Error("the flow was taken")
			}
			wantResultEnd(t, f, nil)
			if c.TakeResultStream() != nil {
				t.Error("the consumer has a ResultStream")
			}
			if got := x.Form(false); got != tt.want {
				t.Errorf("Form = %v, want %v", got, tt.want)
			}
		})
	}
}

// A ResultStream that no consumer will take ends, in every way in which that happens (I3).
func TestResultStreamWithoutConsumer(t *testing.T) {
	why := errors.New("why")
	tests := []struct {
		name string
		end  func(x *session.Exchange, c *session.Consumer, f *session.ResultStream)
		want error
	}{
		{"the client goes", func(_ *session.Exchange, c *session.Consumer, _ *session.ResultStream) { c.Detach() }, session.ErrNoReceiver},
		{"another consumer", func(x *session.Exchange, _ *session.Consumer, _ *session.ResultStream) { attach(x.Stream()) }, session.ErrNoReceiver},
		{"withdrawn", func(x *session.Exchange, _ *session.Consumer, f *session.ResultStream) {
			x.WithdrawResultStream(f, why)
		}, why},
		{"withdrawn twice", func(x *session.Exchange, _ *session.Consumer, f *session.ResultStream) {
			x.WithdrawResultStream(f, why)
			x.WithdrawResultStream(f, errors.New("again"))
		}, why},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, c := streaming(t, rules())
			f := new(session.ResultStream)
			x.OfferResultStream(f)
			tt.end(x, c, f)
			wantResultEnd(t, f, tt.want)
			if c.TakeResultStream() != nil {
				t.Error("the flow can still be taken")
			}
		})
	}
}

// A ResultStream that was taken is ended by its writer only: neither a disconnect nor the
// end of the exchange means that it is no longer written.
func TestResultStreamIsEndedByItsWriter(t *testing.T) {
	for name, end := range map[string]func(*session.Exchange, *session.Consumer){
		"the client goes":       func(_ *session.Exchange, c *session.Consumer) { c.Detach() },
		"cancelled":             func(x *session.Exchange, _ *session.Consumer) { x.Cancel(errors.New("why")) },
		"the session has ended": func(x *session.Exchange, _ *session.Consumer) { x.Finish(plain("sorry")) },
	} {
		t.Run(name, func(t *testing.T) {
			x, c := streaming(t, rules())
			f := new(session.ResultStream)
			x.OfferResultStream(f)
			c.TakeResultStream()
			end(x, c)
			wantResultEnd(t, f, nil)
			broken := errors.New("broken")
			c.EndResultStream(f, broken)
			wantResultEnd(t, f, broken)
		})
	}
}

// An exchange that has ended has its terminal, and a ResultStream that was not taken by
// then is not written.
func TestResultStreamOfEndedExchange(t *testing.T) {
	x, c := streaming(t, rules())
	f := new(session.ResultStream)
	x.OfferResultStream(f)
	x.Finish(plain("sorry"))
	if c.TakeResultStream() != nil {
		t.Error("the flow was taken")
	}
	wantTake(t, c, session.Ended, "sorry")
	if !x.WithdrawResultStream(f, errors.New("why")) {
		t.Error("the ResultStream cannot be withdrawn, and has not ended")
	}
}

// After Finish a request cannot ask, and stays in its exchange until it ends.
func TestParkedRequestFinish(t *testing.T) {
	l := newRequests()
	p := register(l, new("a"), new(1))
	q := ask(t, p)
	if at := p.Finish(); at == nil || *at != 1 {
		t.Fatalf("Land = %v, want the first exchange", at)
	}
	if end, ok := ended(q); !ok || !errors.Is(end.Err, mcp.ErrRequestEnded) {
		t.Errorf("the open question: %v, %v; want ErrRequestEnded", end.Err, ok)
	}
	if _, err := p.Ask("roots/list", nil); !errors.Is(err, mcp.ErrRequestEnded) {
		t.Errorf("Ask: %v, want ErrRequestEnded", err)
	}
	if _, ok := p.Park("id", owner("p"), someTime()); ok {
		t.Error("it was parked")
	}
	if at, err := p.Exchange(); at == nil || err != nil {
		t.Errorf("At = %v, %v; want where it landed", at, err)
	}
	if at, kept := p.End(); at == nil || *at != 1 || kept {
		t.Errorf("End = %v, %v; want the first exchange", at, kept)
	}
	if p.Finish() != nil {
		t.Error("it landed after its end")
	}
}

// A parked request has no exchange to finish in.
func TestFinishWhileParked(t *testing.T) {
	p, q := parkedOf(t, newRequests(), "a", owner("p"), someTime())
	if at := p.Finish(); at != nil {
		t.Errorf("Land = %v, want none", *at)
	}
	if _, ok := ended(q); ok {
		t.Error("the question has ended")
	}
}
