// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

var errEnd = errors.New("the end")

func openCall(t testing.TB, calls *session.Calls, method string) *session.Call {
	t.Helper()
	c, err := calls.Open(method)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func notice(t testing.TB, method, params string) *mcp.Message {
	t.Helper()
	m, err := mcp.Parse(jsonrpc.AppendNotification(nil, method, []byte(params)), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

func callResult(t testing.TB, raw string) session.Terminal {
	t.Helper()
	res, err := mcp.NewResult([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return session.Terminal{Result: res}
}

// taken takes everything from a call: its messages, and its terminal as text.
func taken(c *session.Call) (msgs []string, end string) {
	for {
		m, term := c.Next()
		switch {
		case m != nil:
			msgs = append(msgs, string(m.Params.Bytes()))
		case term == nil:
			return msgs, ""
		case term.Err != nil:
			return msgs, term.Err.Error()
		default:
			return msgs, string(term.Result.Bytes())
		}
	}
}

func callIsDone(c *session.Call) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// Only the first terminal counts; later ones are counted and have no effect (I1, I2).
func TestI1OneTerminal(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	if callIsDone(c) {
		t.Error("done before any terminal")
	}
	if !calls.Respond(c.ID(), callResult(t, `{"n":1}`)) {
		t.Error("the response was not taken")
	}
	if calls.Respond(c.ID(), callResult(t, `{"n":2}`)) || c.Finish(session.Terminal{Err: errEnd}) {
		t.Error("a second terminal was taken")
	}
	calls.End(errEnd)
	if _, end := taken(c); end != `{"n":1}` || !callIsDone(c) {
		t.Errorf("terminal %s, done %v", end, callIsDone(c))
	}
	if got := calls.Stats(); got.Late != 1 || got.Open != 0 {
		t.Errorf("stats %+v", got)
	}
}

// Responses are matched by the bytes of the id (I4).
func TestI4IdsAreMatchedByTheirBytes(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	for _, raw := range []string{`"1"`, `10`, `0`, `-1`, `18446744073709551616`, `"x"`} {
		id, err := mcp.ParseID([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if calls.Respond(id, callResult(t, "{}")) {
			t.Errorf("id %s was taken for %s", raw, c.ID())
		}
	}
	if got := calls.Stats(); got.Unknown != 6 || got.Late != 0 || got.Open != 1 {
		t.Errorf("stats %+v", got)
	}
	if calls.Find(c.ID()) != c || calls.Find(jsonrpc.NumberID(2)) != nil {
		t.Error("Find does not find by id")
	}
}

// shifted are Numbers with ids far from 1.
type shifted struct{}

func (shifted) ID(n uint64) uint64  { return n + 1000 }
func (shifted) Of(id uint64) uint64 { return id - 1000 }

// Whether an id was used is decided by its number.
func TestStraysOfOtherNumbers(t *testing.T) {
	calls := session.Calls{Numbers: shifted{}}
	c := openCall(t, &calls, "tools/call")
	c.Finish(session.Terminal{Err: errEnd})
	for _, id := range []uint64{5, 1000, 1001, 1002} {
		if calls.Respond(jsonrpc.NumberID(id), callResult(t, "{}")) {
			t.Errorf("id %d was taken", id)
		}
	}
	if got := calls.Stats(); got.Late != 1 || got.Unknown != 3 {
		t.Errorf("stats %+v, want one late response, the one with the id %s", got, c.ID())
	}
}

// End ends every open call, and makes Open fail (I3).
func TestI3EndOfTheConnection(t *testing.T) {
	var calls session.Calls
	var open []*session.Call
	for range 5 {
		open = append(open, openCall(t, &calls, "tools/call"))
	}
	calls.End(errEnd)
	calls.End(errors.New("another end"))
	for _, c := range open {
		if _, end := taken(c); end != "the end" {
			t.Errorf("call %s ended with %q", c.ID(), end)
		}
	}
	if _, err := calls.Open("tools/call"); !errors.Is(err, errEnd) || !errors.Is(calls.Err(), errEnd) {
		t.Errorf("Open after End: %v", err)
	}
}

// Messages are taken in order, and the terminal after them (I10).
func TestI10OrderWithinACall(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	for i := range 3 {
		if got := c.Offer(notice(t, "notifications/message", fmt.Sprintf(`{"n":%d}`, i))); got != session.Queued {
			t.Fatalf("Offer = %v", got)
		}
	}
	calls.Respond(c.ID(), callResult(t, "{}"))
	if got := c.Offer(notice(t, "notifications/message", `{"n":9}`)); got != session.Dropped {
		t.Errorf("a message after the terminal: %v", got)
	}
	if got := c.Push(notice(t, "notifications/message", `{"n":9}`)); got != session.Dropped {
		t.Errorf("a message after the terminal: %v", got)
	}
	msgs, end := taken(c)
	if strings.Join(msgs, " ") != `{"n":0} {"n":1} {"n":2}` || end != "{}" {
		t.Errorf("took %q, then %s", msgs, end)
	}
	if got := calls.Stats().Late; got != 2 {
		t.Errorf("%d messages were late, want 2", got)
	}
}

// Offer returns Full; Push drops progress, then log messages, then the new message (I21,
// I30).
func TestI30Bounds(t *testing.T) {
	fill := func(t *testing.T, c *session.Call, method string) int {
		for n := 0; ; n++ {
			if c.Offer(notice(t, method, fmt.Sprintf(`{"n":%d}`, n))) == session.Full {
				return n
			}
		}
	}
	for _, method := range []string{"notifications/progress", "notifications/message", "notifications/vendor"} {
		t.Run(method, func(t *testing.T) {
			var calls session.Calls
			c := openCall(t, &calls, "tools/call")
			n := fill(t, c, method)
			want := session.Queued
			if method == "notifications/vendor" {
				want = session.Dropped
			}
			if got := c.Push(notice(t, "notifications/message", `{"last":true}`)); got != want {
				t.Errorf("Push into a full inbox = %v, want %v", got, want)
			}
			msgs, _ := taken(c)
			if last := msgs[len(msgs)-1]; (last == `{"last":true}`) != (want == session.Queued) || len(msgs) != n {
				t.Errorf("%d messages, the last is %s", len(msgs), last)
			}
			if calls.Stats().Dropped != 1 {
				t.Errorf("stats %+v", calls.Stats())
			}
			<-c.Space()
			if got := c.Offer(notice(t, method, "{}")); got != session.Queued {
				t.Errorf("Offer after everything was taken = %v", got)
			}
		})
	}
}

// One message larger than the limit is queued if it is alone.
func TestLargeMessage(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "tools/call")
	big := notice(t, "notifications/vendor", `{"x":"`+strings.Repeat("x", 2<<20)+`"}`)
	if c.Offer(big) != session.Queued || c.Offer(big) != session.Full || c.Push(big) != session.Dropped {
		t.Error("want the first large message kept and the others not")
	}
}

// An inbox holds 256 messages, and 1 MiB of them.
func TestInboxIsFull(t *testing.T) {
	sized := func(n int) *mcp.Message {
		empty := notice(t, "notifications/vendor", `{"x":""}`)
		return notice(t, "notifications/vendor", `{"x":"`+strings.Repeat("x", n-len(empty.Raw))+`"}`)
	}
	for name, tt := range map[string]struct {
		queued []*mcp.Message
		last   *mcp.Message
		want   session.Delivery
	}{
		"the last message":     {slices.Repeat([]*mcp.Message{sized(100)}, 255), sized(100), session.Queued},
		"one message too many": {slices.Repeat([]*mcp.Message{sized(100)}, 256), sized(100), session.Full},
		"the last byte":        {[]*mcp.Message{sized(1 << 19)}, sized(1 << 19), session.Queued},
		"one byte too many":    {[]*mcp.Message{sized(1 << 19)}, sized(1<<19 + 1), session.Full},
	} {
		var calls session.Calls
		c := openCall(t, &calls, "tools/call")
		for _, m := range tt.queued {
			if got := c.Offer(m); got != session.Queued {
				t.Fatalf("%s: Offer = %v before it", name, got)
			}
		}
		if got := c.Offer(tt.last); got != tt.want {
			t.Errorf("%s: Offer = %v, want %v", name, got, tt.want)
		}
		taken(c)
		if got := c.Offer(tt.last); got != session.Queued {
			t.Errorf("%s: Offer = %v after all were taken", name, got)
		}
	}
}

// Equal changes that were not taken are merged; different ones are not (I33).
func TestI33ChangesMerge(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "subscriptions/listen")
	for range 1000 {
		c.Push(notice(t, "notifications/tools/list_changed", ""))
		c.Push(notice(t, "notifications/resources/updated", `{"uri":"a"}`))
		c.Offer(notice(t, "notifications/resources/updated", `{"uri":"b"}`))
	}
	if msgs, _ := taken(c); len(msgs) != 3 {
		t.Errorf("%d messages, want 3", len(msgs))
	}
	c.Push(notice(t, "notifications/tools/list_changed", ""))
	if msgs, _ := taken(c); len(msgs) != 1 {
		t.Errorf("a change after the last Next was lost")
	}
	if got := calls.Stats().Merged; got != 2997 {
		t.Errorf("%d merged", got)
	}
}

// Of the states of a task that were not taken only the newest is kept, and it is not
// dropped.
func TestNewestTaskStatusIsKept(t *testing.T) {
	var calls session.Calls
	c := openCall(t, &calls, "subscriptions/listen")
	c.Push(notice(t, "notifications/tasks", `{"taskId":"b","n":0}`))
	for n := range 1000 {
		c.Push(notice(t, "notifications/tasks", fmt.Sprintf(`{"taskId":"a","n":%d}`, n)))
	}
	msgs, _ := taken(c)
	if len(msgs) != 2 || !strings.Contains(msgs[0], `"b"`) || !strings.Contains(msgs[1], `"n":999}`) {
		t.Errorf("took %q", msgs)
	}
	if got := calls.Stats().Merged; got != 999 {
		t.Errorf("%d merged, want 999", got)
	}
}

func TestPlus(t *testing.T) {
	got := session.CallStats{Open: 1, Late: 2, Unknown: 3, Dropped: 4, Merged: 5}.
		Plus(session.CallStats{Open: 10, Late: 20, Unknown: 30, Dropped: 40, Merged: 50})
	if want := (session.CallStats{Open: 11, Late: 22, Unknown: 33, Dropped: 44, Merged: 55}); got != want {
		t.Errorf("the sum is %+v, want %+v", got, want)
	}
}

// A response belongs to the request of its id; one without an id is taken for that of the
// oldest open call that has a request.
func TestReceiver(t *testing.T) {
	var calls session.Calls
	if calls.Receiver(mcp.ID{}) != nil || calls.Receiver(jsonrpc.NumberID(1)) != nil {
		t.Error("a request of none")
	}
	openCall(t, &calls, "ping")
	var open []*session.Call
	var reqs []*mcp.Request
	for range 20 {
		c, req := openCall(t, &calls, "tools/call"), new(mcp.Request)
		c.SetRequest(req)
		open, reqs = append(open, c), append(reqs, req)
	}
	for i, c := range open {
		if calls.Receiver(c.ID()) != reqs[i] {
			t.Errorf("the request of %s is another", c.ID())
		}
		if calls.Receiver(mcp.ID{}) != reqs[i] {
			t.Errorf("without an id: not the request of the oldest call %s", c.ID())
		}
		c.Finish(session.Terminal{Err: errEnd})
		if calls.Receiver(c.ID()) != nil {
			t.Errorf("call %s has ended and still receives", c.ID())
		}
	}
	if calls.Receiver(mcp.ID{}) != nil {
		t.Error("a call without a request receives")
	}
}

func TestOnly(t *testing.T) {
	var calls session.Calls
	if calls.Only("") != nil {
		t.Error("one of none")
	}
	a := openCall(t, &calls, "tools/call")
	l := openCall(t, &calls, "subscriptions/listen")
	if calls.Only("") != nil || calls.Only("subscriptions/listen") != a {
		t.Error("want the one call that is not a listen")
	}
	if l.Method() != "subscriptions/listen" {
		t.Errorf("method %q", l.Method())
	}
	b := openCall(t, &calls, "tools/call")
	if calls.Only("subscriptions/listen") != nil {
		t.Error("one of two")
	}
	a.Finish(session.Terminal{Err: errEnd})
	if calls.Only("subscriptions/listen") != b {
		t.Error("want the one that is left")
	}
}

// Two responses and a cancellation race: the call has one terminal, which all observers see
// (I1, C5).
//
// C5+ 2026-07-28 basic/patterns/cancellation: "Both parties MUST handle these race
// conditions gracefully"
func TestC5TerminalsRace(t *testing.T) {
	for range 2000 {
		var calls session.Calls
		c := openCall(t, &calls, "tools/call")
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		count := func(ok bool) {
			mu.Lock()
			defer mu.Unlock()
			if ok {
				won++
			}
		}
		res := callResult(t, "{}")
		wg.Go(func() { count(calls.Respond(c.ID(), res)) })              // waited for below
		wg.Go(func() { count(calls.Respond(c.ID(), res)) })              // likewise
		wg.Go(func() { count(c.Finish(session.Terminal{Err: errEnd})) }) // likewise
		wg.Wait()
		if _, end := taken(c); won != 1 || end == "" || !callIsDone(c) {
			t.Fatalf("%d winners, terminal %q", won, end)
		}
	}
}

// FuzzCalls performs arbitrary steps and compares the calls with a model: one terminal per
// call, nothing after it, bounded inboxes.
func FuzzCalls(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte{0, 0, 0, 2, 12, 22, 3, 13, 5, 5, 5, 6})
	f.Fuzz(func(t *testing.T, steps []byte) {
		var calls session.Calls
		var open []*session.Call
		ended := map[*session.Call]bool{}
		over := false
		progress := notice(t, "notifications/progress", "{}")
		change := notice(t, "notifications/tools/list_changed", "")
		for _, s := range steps {
			if s%10 == 0 {
				c, err := calls.Open("m")
				if (err != nil) != over {
					t.Fatalf("Open: %v", err)
				}
				if err == nil {
					open = append(open, c)
				}
				continue
			}
			if len(open) == 0 {
				continue
			}
			c := open[int(s/10)%len(open)]
			switch s % 10 {
			case 1:
				if calls.Respond(c.ID(), callResult(t, "{}")) == ended[c] {
					t.Fatal("Respond disagrees with the model")
				}
				ended[c] = true
			case 2:
				if c.Finish(session.Terminal{Err: errEnd}) == ended[c] {
					t.Fatal("Finish disagrees with the model")
				}
				ended[c] = true
			case 3:
				if (c.Push(progress) == session.Dropped) != ended[c] {
					t.Fatal("Push disagrees with the model")
				}
			case 4:
				if (c.Offer(change) == session.Dropped) != ended[c] {
					t.Fatal("Offer disagrees with the model")
				}
			case 5:
				if m, end := c.Next(); m == nil && (end != nil) != ended[c] {
					t.Fatal("Next disagrees with the model")
				}
			case 6:
				calls.End(errEnd)
				over = true
				for _, c := range open {
					ended[c] = true
				}
			case 7:
				if (calls.Find(c.ID()) != nil) == ended[c] {
					t.Fatal("Find disagrees with the model")
				}
			}
		}
		left := 0
		for _, c := range open {
			if !ended[c] {
				left++
			}
			if callIsDone(c) != ended[c] {
				t.Fatal("Done disagrees with the model")
			}
		}
		if calls.Stats().Open != left {
			t.Fatalf("%d open, want %d", calls.Stats().Open, left)
		}
	})
}

// A call counts as dispatched unless Hold was called. A held call can be withdrawn until it
// is dispatched.
func TestCallWithdraw(t *testing.T) {
	withdrawn := session.Terminal{Err: errors.New("withdrawn")}
	tests := []struct {
		name string
		do   func(*session.Call)
		want bool
	}{
		{"never held", func(*session.Call) {}, false},
		{"held", (*session.Call).Hold, true},
		{"held and dispatched", func(c *session.Call) { c.Hold(); c.Dispatch() }, false},
		{"dispatched twice", func(c *session.Call) { c.Hold(); c.Dispatch(); c.Dispatch() }, false},
		{"ended", func(c *session.Call) { c.Hold(); c.Finish(session.Terminal{}) }, false},
		{"withdrawn already", func(c *session.Call) { c.Hold(); c.Withdraw(session.Terminal{}) }, false},
	}
	for _, tt := range tests {
		var calls session.Calls
		c := openCall(t, &calls, "m")
		tt.do(c)
		if got := c.Withdraw(withdrawn); got != tt.want {
			t.Errorf("%s: withdrawn %v, want %v", tt.name, got, tt.want)
		}
		_, end := c.Next()
		if tt.want && (end == nil || !errors.Is(end.Err, withdrawn.Err) || c.Dispatch() || calls.Stats().Open != 0) {
			t.Errorf("%s: ends with %v, %d open; want that it has ended and is not sent", tt.name, end, calls.Stats().Open)
		}
	}
}

// If Withdraw and Dispatch race, exactly one of them succeeds.
func TestWithdrawRacesDispatch(t *testing.T) {
	for range 500 {
		var calls session.Calls
		c := openCall(t, &calls, "m")
		c.Hold()
		sent := make(chan bool)
		go func() { sent <- c.Dispatch() }() // ends when the result is received below
		withdrawn := c.Withdraw(session.Terminal{})
		if left := <-sent; left == withdrawn {
			t.Fatalf("sent %v, withdrawn %v; want one of the two", left, withdrawn)
		}
	}
}

// After Close, open calls still receive their answers, or the error of End.
func TestCloseLeavesOpenCalls(t *testing.T) {
	var calls session.Calls
	errLast := errors.New("the last line was read")
	answered, lost := openCall(t, &calls, "a"), openCall(t, &calls, "b")
	calls.Close(errLast)
	if _, err := calls.Open("c"); !errors.Is(err, errLast) || !errors.Is(calls.Err(), errLast) {
		t.Errorf("Open: %v, Err: %v; want %v", err, calls.Err(), errLast)
	}
	if !calls.Respond(answered.ID(), session.Terminal{Result: &mcp.Result{}}) {
		t.Error("an open call got no answer")
	}
	calls.End(errEnd)
	calls.Close(errLast)
	if _, end := lost.Next(); end == nil || !errors.Is(end.Err, errEnd) || !errors.Is(calls.Err(), errEnd) {
		t.Errorf("ended with %v, Err: %v; want %v", end, calls.Err(), errEnd)
	}
}
