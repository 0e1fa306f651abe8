// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package marks

import (
	"path"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

func found(values map[string]float64) *Findings {
	f := new(Findings)
	for key, v := range values {
		f.Set(key, stats.Of(v))
	}
	return f
}

func TestJudge(t *testing.T) {
	all := []Mark{
		{Name: "at most", Keys: "calls/*/*/cpu", Limit: 2, Short: true},
		{Name: "at least", Keys: "calls/*/*/rate", Limit: 2, Least: true},
	}
	f := found(map[string]float64{
		"calls/a/x/cpu": 2, "calls/b/x/cpu": 2.1, "calls/a/x/rate": 2, "calls/b/x/rate": 1.9,
		"lists/a/x/cpu": 9, "calls/a/x/y/cpu": 9,
	})
	var missed []string
	for _, v := range Missed(Judge(all, f, false)) {
		missed = append(missed, v.Key)
	}
	if got := strings.Join(missed, " "); got != "calls/b/x/cpu calls/b/x/rate" {
		t.Errorf("missed %s", got)
	}
	if got := Judge(all, f, true); len(got) != 2 || got[0].Name != "at most" {
		t.Errorf("the short form judges %v, want its mark alone", got)
	}
}

func TestUnmeasuredAreOfChosenGroups(t *testing.T) {
	all := []Mark{
		{Name: "measured", Keys: "calls/*/*/cpu", Short: true},
		{Name: "renamed", Keys: "calls/*/*/cost", Short: true},
		{Name: "long", Keys: "calls/*/*/p50"},
		{Name: "of another group", Keys: "lists/*/*/cpu", Short: true},
		{Name: "of all", Keys: "*/*/*/errors", Short: true},
	}
	f := found(map[string]float64{"calls/a/x/cpu": 2})
	for short, want := range map[bool]string{true: "renamed", false: "renamed long"} {
		var names []string
		for _, m := range Unmeasured(all, f, short, []string{"calls"}) {
			names = append(names, m.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("short %v: got %s, want %s", short, got, want)
		}
	}
}

func TestRedNamesMarkValueAndKey(t *testing.T) {
	var b strings.Builder
	all := []Mark{{Name: "cost", Keys: "*/*/*/cpu", Limit: 1.3, Unit: " s"}, {Name: "speed", Keys: "*/*/*/rate", Limit: 5, Least: true}}
	f := found(map[string]float64{"g/a/x/cpu": 1.5, "g/b/x/cpu": 1, "g/a/x/rate": 7, "g/b/x/rate": 6})
	if err := Print(&b, Judge(all, f, false)); err != nil {
		t.Fatal(err)
	}
	want := "RED    cost: g/a/x/cpu = 1.50 s (1.50 to 1.50 in 1 rounds), mark <= 1.30 s\n" +
		"kept   speed: g/b/x/rate = 6 (6 to 6 in 1 rounds), mark >= 5 (the worst of 2)\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// TestBoundedIsMissedAndNotRed checks that a missed mark is never reported as kept, and
// that a regression beyond the bound is detected.
func TestBoundedIsMissedAndNotRed(t *testing.T) {
	most, least := Mark{Limit: 1.1, Bound: 2.6}, Mark{Limit: 0.85, Bound: 0.5, Least: true}
	for _, tt := range []struct {
		mark  Mark
		value float64
		word  string
	}{
		{most, 1.1, "kept"}, {most, 2.2, "MISSED"}, {most, 2.6, "MISSED"}, {most, 2.7, "RED"},
		{least, 0.9, "kept"}, {least, 0.6, "MISSED"}, {least, 0.4, "RED"},
		{Mark{Limit: 1.1}, 1.2, "RED"},
	} {
		v := Verdict{Mark: tt.mark, Value: stats.Of(tt.value)}
		if got := v.Word(); got != tt.word {
			t.Errorf("%v is %s, want %s: %s", tt.value, got, tt.word, v)
		}
		if got := len(Missed([]Verdict{v})); (got == 0) != (tt.word == "kept") {
			t.Errorf("%v, which is %s, is %d times missed", tt.value, tt.word, got)
		}
		if got := len(Red([]Verdict{v})); (got == 1) != (tt.word == "RED") {
			t.Errorf("%v, which is %s, is %d times red", tt.value, tt.word, got)
		}
	}
	var b strings.Builder
	all := []Mark{{Name: "cost", Keys: "*/*/*/cpu", Limit: 1.1, Bound: 2.6}}
	if err := Print(&b, Judge(all, found(map[string]float64{"g/a/x/cpu": 1, "g/b/x/cpu": 2.2}), false)); err != nil {
		t.Fatal(err)
	}
	want := "MISSED cost: g/b/x/cpu = 2.20 (2.20 to 2.20 in 1 rounds), mark <= 1.10, bound <= 2.60 (the worst of 2)\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// TestBoundBesideAMarkThatIsKept checks that a value much better than its mark cannot
// regress unnoticed, and is not reported to miss the mark.
func TestBoundBesideAMarkThatIsKept(t *testing.T) {
	for value, red := range map[float64]bool{9: false, 11: false, 11.1: true, 24: true} {
		v := Verdict{Mark: Mark{Name: "count", Limit: 25, Bound: 11}, Key: "g/a/x/count", Value: stats.Of(value)}
		if !v.Kept() || v.Red() != red {
			t.Errorf("%v: kept %v, red %v; want true, %v", value, v.Kept(), v.Red(), red)
		}
		if got := strings.Contains(v.String(), "bound <= 11"); got != red {
			t.Errorf("%q names the bound: %v, want %v", v, got, red)
		}
	}
}

// TestSlowMachine checks that the wider bounds apply on a slow machine only, and to those
// marks alone that have them.
func TestSlowMachine(t *testing.T) {
	all := []Mark{
		{Name: "cost", Keys: "*/*/*/cost", Limit: 1.2, Bound: 1.4, Slow: 1.7},
		{Name: "speed", Keys: "*/*/*/speed", Limit: 0.9, Slow: 0.7, Least: true},
		{Name: "count", Keys: "*/*/*/count", Limit: 1, Bound: 2},
	}
	const key = "calls/100 B/RP legacy/cpu"
	for _, tt := range []struct {
		yardstick, value float64
		red              string
	}{
		{0, 1.5, "cost"}, {slowFrom, 1.5, "cost"}, {slowFrom + 0.001, 1.5, ""}, {slowFrom + 0.001, 1.8, "cost"},
		{0, 0.8, "speed"}, {slowFrom, 0.8, "speed"}, {slowFrom + 0.001, 0.8, ""}, {slowFrom + 0.001, 0.6, "speed"},
		{slowFrom + 0.001, 2.1, "cost count"},
	} {
		f := found(map[string]float64{"g/a/x/cost": tt.value, "g/a/x/speed": tt.value, "g/a/x/count": tt.value})
		if tt.yardstick != 0 {
			f.Set(key, stats.Of(tt.yardstick))
		}
		var red []string
		for _, v := range Red(Judge(all, f, false)) {
			red = append(red, v.Name)
		}
		if got := strings.Join(red, " "); got != tt.red {
			t.Errorf("%v at a yardstick of %v: %q fail, want %q", tt.value, tt.yardstick, got, tt.red)
		}
	}
}

func TestFindingsOfNoRoundsAreNone(t *testing.T) {
	f := new(Findings)
	f.Set("a", stats.Summary{})
	if _, ok := f.Get("a"); ok {
		t.Error("a value of no rounds was found")
	}
	if got := Judge([]Mark{{Keys: "a"}}, f, false); len(got) != 0 {
		t.Errorf("judged %v of nothing", got)
	}
}

func TestNearIsByTheBestRound(t *testing.T) {
	for _, tt := range []struct {
		limit  float64
		bound  float64
		least  bool
		values []float64
		want   bool
	}{
		{limit: 1, bound: 2, values: []float64{2.1, 3, 3}, want: true},
		{limit: 1, bound: 2, values: []float64{2.5, 3, 3}},
		{limit: 1, values: []float64{1.1, 3, 3}, want: true},
		{limit: 1, values: []float64{1.3, 3, 3}},
		{limit: 1, least: true, values: []float64{0.1, 0.1, 0.9}, want: true},
		{limit: 1, least: true, values: []float64{0.1, 0.1, 0.7}},
		{limit: 0, values: []float64{1}},
		{limit: 25, bound: -10, values: []float64{-8.5, -7, -7}, want: true},
		{limit: 25, bound: -10, values: []float64{-7, -7, -7}},
	} {
		v := Verdict{Mark: Mark{Limit: tt.limit, Bound: tt.bound, Least: tt.least}, Value: stats.Of(tt.values...)}
		if !v.Red() || v.IsNear() != tt.want {
			t.Errorf("%+v: red %v, near %v", tt, v.Red(), v.IsNear())
		}
	}
}

// TestTable checks common mistakes in the table: a pattern that does not compile matches
// nothing, a time in the short form fails on a slow machine, and a bound that is hardly
// better than the mark moves the mark.
func TestTable(t *testing.T) {
	for _, m := range All() {
		if _, err := path.Match(m.Keys, "a/b/c/d"); err != nil || strings.Count(m.Keys, "/") != 3 {
			t.Errorf("%s: the pattern %q", m.Name, m.Keys)
		}
		if m.Short && (strings.HasSuffix(m.Unit, "s") || strings.Contains(m.Keys, "p50") || strings.Contains(m.Keys, "p99")) {
			t.Errorf("%s: the short form judges a time", m.Name)
		}
		if v := (Verdict{Mark: m, Value: stats.Of(m.Bound)}); m.Bound != 0 && v.Kept() && v.margin() < 0.4*m.Limit {
			t.Errorf("%s: the bound %v is hardly better than the mark", m.Name, m.Bound)
		}
		ordinary, slow := Verdict{Mark: m, Value: stats.Of(m.bound())}, Verdict{Mark: m, Value: stats.Of(m.Slow)}
		if m.Slow != 0 && slow.margin() >= ordinary.margin() {
			t.Errorf("%s: the bound %v on a slow machine is not wider than %v", m.Name, m.Slow, m.bound())
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 3: "3", 0.0371: "0.037", 1.256: "1.26", 12.34: "12.3", 1234.5: "1234", -2.5: "-2.50"} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %s, want %s", v, got, want)
		}
	}
}
