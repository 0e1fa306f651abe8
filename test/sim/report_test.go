// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

func leftoversOf(machine any) string {
	return leftovers(reflect.ValueOf(machine), make(map[uintptr]bool))
}

// Leftovers are found in each kind of object.
func TestLeftoversAreFound(t *testing.T) {
	rules := &session.Rules{Limits: session.DefaultLimits(), Counts: new(session.Counters)}
	s := session.New("id", "", peer(), rules)
	if at := leftoversOf(s); at != "" {
		t.Errorf("a new session holds something: %s", at)
	}
	x, err := s.Begin(jsonrpc.NumberID(1), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	if at := leftoversOf(s); !strings.Contains(at, ".exchanges") {
		t.Errorf("a running request is at %q", at)
	}
	if _, err := x.Stream().Append(session.Message{Head: []byte("m1")}); err != nil {
		t.Fatal(err)
	}
	if at := leftoversOf(x); !strings.Contains(at, ".stream.queue") {
		t.Errorf("a queued message is at %q", at)
	}
	x.Cancel(errCancel)
	if at := leftoversOf(x) + leftoversOf(s); at != "" {
		t.Errorf("after the end something is held: %s", at)
	}

	table := session.NewTable(session.DefaultTableLimits())
	if _, err := table.Add(s, epoch()); err != nil {
		t.Fatal(err)
	}
	if leftoversOf(table) == "" {
		t.Error("a table with a session holds nothing")
	}
	table.Remove(s)
	if at := leftoversOf(table); at != "" {
		t.Errorf("an empty table holds something: %s", at)
	}
}

func TestMessagesAreIdentifiedByText(t *testing.T) {
	if n := readMark(mark(1234).text()); n != 1234 {
		t.Errorf("readMark = %d, want 1234", n)
	}
	for text, want := range map[string]struct {
		kind kind
		no   int
	}{
		string(jsonrpc.AppendRequest(nil, jsonrpc.NumberID(17), "ask", nil)):              {question, 17},
		string(jsonrpc.AppendError(nil, jsonrpc.NumberID(3), mcp.Errorf(-1, "it ended"))): {terminal, 0},
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`:   {withdrawal, 5},
	} {
		if readMark([]byte(text)) != 0 {
			t.Errorf("%s has a mark", text)
		}
		if kind, no := parseGenerated([]byte(text)); kind != want.kind || no != want.no {
			t.Errorf("%s is %d of %d, want %d of %d", text, kind, no, want.kind, want.no)
		}
	}
}

// A violation ends its run, and the report has a smaller run that breaks the same rule,
// with the command that repeats it.
func TestFailureIsShrunk(t *testing.T) {
	r := newRunner()
	r.sabotage = func(w *world) {
		if len(w.requests) > 0 && w.requests[0].ended {
			w.fail("I0", "a request is over")
		}
	}
	var broken *violation
	seed := uint64(0)
	for broken == nil {
		if seed++; seed > 100 {
			t.Fatal("nothing is broken")
		}
		r.src.Random(seed, maxSteps)
		broken = r.run(nil)
	}
	before := r.src.Steps()
	f := r.explain(seed, broken)
	if f.Rule != "I0" || f.Steps != before {
		t.Errorf("rule %s in %d steps, want I0 in %d", f.Rule, f.Steps, before)
	}
	if n := len(f.Transcript); n == 0 || n > 15 {
		t.Errorf("the smallest transcript has %d lines:\n%s", n, f)
	}
	if text := f.String(); !strings.Contains(text, fmt.Sprintf("go run ./test/sim/... -seed %d\n", seed)) || !strings.Contains(text, "I0 is broken: a request is over") {
		t.Errorf("report:\n%s", text)
	}
}

// A panic breaks a rule like any other failure.
func TestPanicIsAFailure(t *testing.T) {
	r := newRunner()
	r.src.Again(choice.Schedule{{}, {}, {}})
	r.sabotage = func(*world) { panic("out of order") }
	if broken := r.run(nil); broken == nil || broken.rule != "I29" || !strings.Contains(broken.text, "out of order") {
		t.Errorf("broken: %+v", broken)
	}
}
