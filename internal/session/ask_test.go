// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func mustAsk(t *testing.T, s *session.Stream) *session.Ask {
	t.Helper()
	a, err := s.Ask("roots/list", nil, nil)
	if err != nil {
		t.Fatalf("Ask: %v", err)
	}
	return a
}

func isDone(a *session.Ask) bool {
	select {
	case <-a.Done():
		return true
	default:
		return false
	}
}

// M009: an ask and a request of the client may have the same id.
func TestAnswerCompletesItsAsk(t *testing.T) {
	s := newSession(rules())
	x := begin(t, s, 1)
	c := attach(x.Stream())
	a := mustAsk(t, x.Stream())
	wantTake(t, c, session.Open, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	res := &mcp.Result{}
	if !s.Answer(a.ID(), session.Terminal{Result: res}) {
		t.Fatal("the answer was not taken")
	}
	if !isDone(a) || a.Answer().Result != res {
		t.Error("the answer did not complete the ask")
	}
	if s.Answer(a.ID(), session.Terminal{}) {
		t.Error("a second answer was taken")
	}
	if !x.Finish(plain("end")) {
		t.Error("the answer ended the exchange")
	}
}

// M015: asks of two exchanges have different ids, so that their answers are not confused,
// in whatever order they arrive.
func TestAsksOfTwoExchanges(t *testing.T) {
	s := newSession(rules())
	x, y := begin(t, s, 1), begin(t, s, 2)
	ax, ay := mustAsk(t, x.Stream()), mustAsk(t, y.Stream())
	take(attach(x.Stream()))
	take(attach(y.Stream()))
	if ax.ID() == ay.ID() {
		t.Fatalf("both asks have id %v", ax.ID())
	}
	s.Answer(ay.ID(), session.Terminal{})
	if isDone(ax) || !isDone(ay) {
		t.Error("the answer went to the other ask")
	}
}

// I37: an answer counts only in the session of its ask.
func TestAnswerOfAnotherSessionIsAStray(t *testing.T) {
	r := rules()
	s, other := newSession(r), newSession(r)
	x := begin(t, s, 1)
	a := mustAsk(t, x.Stream())
	take(attach(x.Stream()))
	if other.Answer(a.ID(), session.Terminal{}) || isDone(a) {
		t.Error("another session answered the ask")
	}
	if got := r.Counts.Strays.Load(); got != 1 {
		t.Errorf("strays = %d, want 1", got)
	}
}

// An id that was never sent can only be guessed.
func TestAnswerBeforeTheAskIsSentIsAStray(t *testing.T) {
	s := newSession(rules())
	x := begin(t, s, 1)
	a := mustAsk(t, x.Stream())
	if s.Answer(a.ID(), session.Terminal{}) {
		t.Error("an ask that no consumer has taken was answered")
	}
}

// The asks that a client has received are withdrawn before the terminal. A client that
// cancelled the request receives nothing more.
func TestAskEndsWithItsExchange(t *testing.T) {
	withdrawn := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id)
	}
	for name, tt := range map[string]struct {
		end  func(*session.Exchange)
		want []string
	}{
		"finish": {func(x *session.Exchange) { x.Finish(plain("end")) }, []string{withdrawn(1), withdrawn(2), "end"}},
		"cancel": {func(x *session.Exchange) { x.Cancel(errors.New("why")) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := rules()
			r.Limits.Asks = 3
			s := newSession(r)
			x, y := begin(t, s, 1), begin(t, s, 2)
			c := attach(x.Stream())
			first, second := mustAsk(t, x.Stream()), mustAsk(t, x.Stream())
			take(c)
			waiting := mustAsk(t, x.Stream())
			tt.end(x)
			for _, a := range []*session.Ask{first, second, waiting} {
				if !isDone(a) || !errors.Is(a.Answer().Err, mcp.ErrRequestEnded) {
					t.Errorf("ask %v: done %v, %v; want ErrRequestEnded", a.ID(), isDone(a), a.Answer().Err)
				}
			}
			if got, _ := take(c); !slices.Equal(got, tt.want) {
				t.Errorf("at the end the client gets %q, want %q", got, tt.want)
			}
			mustAsk(t, y.Stream()) // the other exchange continues
		})
	}
}

func TestAskOfALostStreamFails(t *testing.T) {
	s := newSession(rules())
	x := begin(t, s, 1)
	c := attach(x.Stream())
	sent := mustAsk(t, x.Stream())
	take(c)
	unsent := mustAsk(t, x.Stream())
	c.Detach()
	if !isDone(unsent) || !errors.Is(unsent.Answer().Err, session.ErrNoReceiver) {
		t.Error("an ask that can never be sent did not fail")
	}
	if isDone(sent) {
		t.Error("an ask that the client has was failed: it may still answer")
	}
	if _, err := x.Stream().Ask("roots/list", nil, nil); !errors.Is(err, session.ErrNoReceiver) {
		t.Errorf("Ask on a lost stream: %v, want ErrNoReceiver", err)
	}
	if !s.Answer(sent.ID(), session.Terminal{}) {
		t.Error("the answer to a sent ask was rejected")
	}
}

func TestAsksAreBounded(t *testing.T) {
	s := newSession(rules())
	mustAsk(t, s.Standalone())
	mustAsk(t, s.Standalone())
	if _, err := s.Standalone().Ask("roots/list", nil, nil); !errors.Is(err, session.ErrTooMany) {
		t.Errorf("third ask: %v, want ErrTooMany", err)
	}
}

func TestWithdraw(t *testing.T) {
	why := errors.New("why")
	s := newSession(rules())
	s.Initialized()
	c := attach(s.Standalone())
	sent := mustAsk(t, s.Standalone())
	take(c)
	unsent := mustAsk(t, s.Standalone())
	if s.Standalone().Withdraw(unsent, why) {
		t.Error("Withdraw = true for an ask that the client never received")
	}
	wantTake(t, c, session.Open)
	if s.Standalone().WithdrawUntaken(sent, why) {
		t.Error("WithdrawUntaken withdrew an ask that was sent")
	}
	if !s.Standalone().Withdraw(sent, why) || s.Standalone().Withdraw(sent, why) {
		t.Error("Withdraw must be true once for an ask that the client has")
	}
	for _, a := range []*session.Ask{sent, unsent} {
		if !isDone(a) || !errors.Is(a.Answer().Err, why) {
			t.Errorf("ask %v ended with %v, want %v", a.ID(), a.Answer().Err, why)
		}
	}
}

func TestWithdrawUntaken(t *testing.T) {
	s := newSession(rules())
	a := mustAsk(t, s.Standalone())
	if !s.Standalone().WithdrawUntaken(a, session.ErrNoReceiver) {
		t.Error("WithdrawUntaken refused")
	}
	s.Initialized()
	wantTake(t, attach(s.Standalone()), session.Open)
}
