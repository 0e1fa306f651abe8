// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/plot"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/shares"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// TestMain lets the test binary act as the programs that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && isProgram(os.Args[1]) {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// bench1 returns a run that writes into b.
func bench1(b *strings.Builder, o options) *bench {
	o.scale = 1
	return &bench{
		options: o, out: b, descriptors: 20000,
		tables: make(map[string][]*report.Table), plots: make(map[string]plot.Plot), took: make(map[string]time.Duration),
	}
}

func openRig(t *testing.T) *rig {
	t.Helper()
	g, err := newRig("none")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// TestProgramsInRounds starts real programs and measures them like a run, with new
// processes for each start, which end with it. A proxy in front of a backend has a cost
// above zero.
func TestProgramsInRounds(t *testing.T) {
	query := canned.Setup{}.Query()
	var out strings.Builder
	b := bench1(&out, options{program: "none"})
	for _, era := range eras() {
		var started []*proc.Process
		open := func(ctx context.Context, g *rig) ([]*entrant, error) {
			backend, err := g.start(ctx, "backend")
			if err != nil {
				return nil, err
			}
			proxy, err := g.start(ctx, "proxy", "-to", backend.Address+"/mcp?"+query)
			if err != nil {
				return nil, err
			}
			started = append(started, backend, proxy)
			direct, err := enter(ctx, "direct", backend, target(backend, era, query), load.ToolCall("sse_5", true), judgeText("sse_5"))
			if err != nil {
				return nil, err
			}
			through, err := enter(ctx, "RP", proxy, target(proxy, era, "x"), load.ToolCall("sse_5", true), judgeText("sse_5"))
			return []*entrant{direct, through}, err
		}
		// The runtime counts allocations by the page: fewer are not visible.
		got, err := b.measure(t.Context(), open, 2, amount{many: 1000 * perStart, one: 20 * perStart})
		if err != nil {
			t.Fatal(err)
		}
		if len(started) != 4 {
			t.Errorf("%s: %d processes were started, want others for each round", era, len(started))
		}
		for _, p := range started {
			if _, err := p.Usage(); err == nil {
				t.Errorf("%s: a process outlived its round", era)
			}
		}
		for _, name := range []string{"direct", "RP"} {
			for _, s := range got[name] {
				if s.rate <= 0 || s.cpu <= 0 || s.at(0.5) <= 0 || s.at(0.5) > s.at(0.99) || s.at(0.99) > s.at(0.999) || s.allocs <= 1 || s.peak <= 1 || s.errors != 0 || s.progress != 5 {
					t.Errorf("%s, %s: %+v", era, name, s)
				}
			}
		}
		if len(got["RP"]) != 2*perStart || len(got["direct"]) != 2*perStart {
			t.Errorf("%d and %d rounds, want %d", len(got["RP"]), len(got["direct"]), 2*perStart)
		}
	}
}

func TestErrorsAreCounted(t *testing.T) {
	fail := errors.New("an odd call")
	n := 0
	e := &entrant{name: "e", callers: []load.Caller{load.CallerFunc(func(context.Context) error {
		if n++; n%2 == 1 {
			return fail
		}
		return nil
	})}}
	s, err := e.measure(t.Context(), amount{many: 10})
	if err != nil || s.errors == 0 || !errors.Is(s.first, fail) {
		t.Errorf("got %+v and %v, want the errors counted and the first of them", s, err)
	}
	if err := rounds(t.Context(), []*entrant{e}, 0, amount{many: 10}, nil); !errors.Is(err, fail) {
		t.Errorf("got %v, want an error where not even the first calls work", err)
	}
}

func TestSessionsOpenAndEnd(t *testing.T) {
	ctx := t.Context()
	g := openRig(t)
	mint, err := g.start(ctx, "mint")
	if err != nil {
		t.Fatal(err)
	}
	open, end, err := opening{"mint", mint, target(mint, canned.Legacy, "x")}.round(ctx, 100)
	if err != nil || open.rate <= 0 || end.rate <= 0 || open.errors+end.errors != 0 {
		t.Errorf("opening %+v, ending %+v, %v", open, end, err)
	}
	ids, err := openSessions(ctx, target(mint, canned.Legacy, "x"), 50)
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); err != nil || n != 50 {
		t.Errorf("%d sessions, %v", n, err)
	}
}

// took returns the result of one client alone with calls of the given times in
// microseconds.
func took(t *testing.T, micros ...int64) load.Result {
	t.Helper()
	r := load.Pool()
	for _, n := range micros {
		if err := r.Latency.RecordValue(n * 1000); err != nil {
			t.Fatal(err)
		}
		r.Calls++
	}
	return r
}

func TestCompareIsAgainstTheSameRounds(t *testing.T) {
	var out strings.Builder
	b := bench1(&out, options{})
	direct := []sample{{times: took(t, 10)}, {times: took(t, 10)}}
	proxy := []sample{{cpu: 1, rate: 100, times: took(t, 20)}, {cpu: 2, rate: 50, times: took(t, 20)}}
	ours := []sample{
		{counted: true, cpu: 1.5, rate: 90, times: took(t, 25), alone: true, allocs: 30}, {cpu: 3, rate: 45, times: took(t, 25), alone: true, allocs: 34},
	}
	b.put("g/t/w", ours)
	b.compare("g/t/w", ours, proxy, direct)
	for key, want := range map[string]float64{
		"cpu": 2.25, "cpu-rp": 1.5, "rate-rp": 0.9, "p50": 25, "added-p50": 15, "added-p50-rp": 1.5, "added-p99-rp": 1.5, "allocs": 32,
	} {
		// A histogram has a precision of a thousandth.
		if got, ok := b.found.Get("g/t/w/" + key); !ok || math.Abs(got.Median/want-1) > 0.005 || got.Rounds != 2 {
			t.Errorf("%s = %+v, want %v in 2 rounds", key, got, want)
		}
	}
	b.put("g/t/pipe", direct)
	if got, ok := b.found.Get("g/t/pipe/cpu"); ok {
		t.Errorf("CPU %+v of no process", got)
	}
	b.compare("g/t/alone", ours, nil, direct)
	for _, key := range []string{"cpu-rp", "added-p50-rp"} {
		if got, ok := b.found.Get("g/t/alone/" + key); ok {
			t.Errorf("%s = %+v without a yardstick", key, got)
		}
	}
	ours[0].alone = false
	b.compare("g/t/many", ours, proxy, direct)
	if got, ok := b.found.Get("g/t/many/added-p50-rp"); ok {
		t.Errorf("added %+v where nobody was alone", got)
	}
}

// TestSlowCallsAreThoseOfAllRounds checks that a quantile is over all calls: one slow call
// in a single round means nothing.
func TestSlowCallsAreThoseOfAllRounds(t *testing.T) {
	quick := slices.Repeat([]int64{100}, 9)
	rounds := []sample{
		{times: took(t, append(quick, 9000)...)}, {times: took(t, append(quick, 100)...)}, {times: took(t, append(quick, 100)...)},
	}
	got := quantile(rounds, 0.95)
	if math.Abs(got.Median/100-1) > 0.005 || math.Abs(got.Most/9000-1) > 0.005 || got.Rounds != 3 {
		t.Errorf("got %+v, want 100 over all rounds, and 9000 as the most of one", got)
	}
	if got := quantile(nil, 0.95); got != (stats.Summary{}) {
		t.Errorf("got %+v of no rounds", got)
	}
}

func TestAttemptMeasuresAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64 // of each attempt
		starts []int
		red    int
	}{
		{"kept at once", []float64{1}, []int{3}, 0},
		{"kept the second time", []float64{1.2, 1}, []int{3, 6}, 0},
		{"kept the third time", []float64{1.2, 1.15, 1}, []int{3, 6, 12}, 0},
		{"red each time", []float64{1.2, 1.2, 1.2}, []int{3, 6, 12}, 1},
		{"red by far in the end", []float64{1.2, 9}, []int{3, 6}, 1},
		{"red by far", []float64{9}, []int{3}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			b := bench1(&out, options{short: true, starts: 3})
			var asked []int
			const key = "tools/1000/legacy to modern/cpu-10"
			// A failure of another measurement is no reason to repeat this one.
			b.found.Set("tools/1000/modern to modern/cpu-10", stats.Of(9))
			err := b.attempt("tools/*/legacy to */*", func(n int) error {
				b.found.Set(key, stats.Of(tt.values[len(asked)]))
				asked = append(asked, n)
				return nil
			})
			if err != nil || !slices.Equal(asked, tt.starts) {
				t.Errorf("asked for %v starts, %v; want %v", asked, err, tt.starts)
			}
			if got := len(b.red("tools/*/legacy to */*")); got != tt.red {
				t.Errorf("%d are red in the end, want %d", got, tt.red)
			}
			if said := strings.Contains(out.String(), "measured again"); said != (len(tt.starts) > 1) {
				t.Errorf("printed: %v", said)
			}
		})
	}
}

// TestWholeFormMeasuresOnce checks that the duration of the whole form does not depend on
// the values.
func TestWholeFormMeasuresOnce(t *testing.T) {
	var out strings.Builder
	b := bench1(&out, options{starts: 5})
	times := 0
	err := b.attempt("tools/*/*/*", func(int) error {
		times++
		b.found.Set("tools/1000/legacy to modern/cpu-10", stats.Of(1.2))
		return nil
	})
	if err != nil || times != 1 || len(b.red("tools/*/*/*")) != 1 {
		t.Errorf("measured %d times, %v", times, err)
	}
}

// TestGroupsThatWaitDoSoTogether checks that groups with times have the machine for
// themselves.
func TestGroupsThatWaitDoSoTogether(t *testing.T) {
	var got []string
	for _, turn := range together(groups()) {
		var names []string
		for _, g := range turn {
			names = append(names, g.name)
			if len(turn) > 1 && !g.waits {
				t.Errorf("%s is not alone", g.name)
			}
		}
		got = append(got, strings.Join(names, "+"))
	}
	if all := strings.Join(got, " "); !strings.Contains(all, "ready idle+growth parts") || !strings.HasPrefix(all, "calls requests streams ") {
		t.Errorf("got %s", all)
	}
}

func TestRedIsAnErrorWithItsCommand(t *testing.T) {
	var out strings.Builder
	b := bench1(&out, options{short: true, groups: "sessions"})
	const open, flat = "sessions/20 backends/initialize/rate-mint", "sessions/20 backends/initialize/cpu-1"
	b.found.Set(open, stats.Of(1))
	b.found.Set(flat, stats.Of(1))
	if err := b.judge(); err != nil || !strings.Contains(out.String(), "2 values: 2 keep their mark, 0 miss it within their bound, 0 fail") {
		t.Errorf("got %v where the marks are kept; printed %s", err, out.String())
	}
	b.found.Set(flat, stats.Summary{})
	if err := b.judge(); err == nil || !strings.Contains(out.String(), "RED    initialize, CPU with 20 backends against 1: nothing was measured") {
		t.Errorf("got %v where nothing was measured for a mark; printed %s", err, out.String())
	}
	b.found.Set(flat, stats.Of(5))
	err := b.judge()
	if err == nil || !strings.Contains(err.Error(), "1 of 2") || !strings.Contains(err.Error(), "make bench-check GROUP=sessions") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "RED    initialize, CPU with 20 backends against 1: "+flat+" = 5") {
		t.Errorf("printed %s", out.String())
	}
}

// TestMissWithinBoundIsPrintedAndNoError checks that a run prints missed marks, and fails
// only for values beyond their bound.
func TestMissWithinBoundIsPrintedAndNoError(t *testing.T) {
	bounded := slices.IndexFunc(marks.All(), func(m marks.Mark) bool { return m.Short && m.Bound != 0 && !m.Least })
	if bounded < 0 {
		return // all marks are kept
	}
	m := marks.All()[bounded]
	key := strings.Replace(m.Keys, "*", "legacy to modern", 1)
	for value, red := range map[float64]bool{m.Bound: false, m.Bound * 1.01: true} {
		var out strings.Builder
		b := bench1(&out, options{short: true, groups: "parts"}) // the short form has no marks in it
		b.found.Set(key, stats.Of(value))
		if err := b.judge(); (err != nil) != red {
			t.Errorf("%v: got %v", value, err)
		}
		if missed := strings.Contains(out.String(), "MISSED "+m.Name); missed == red {
			t.Errorf("%v: printed %s", value, out.String())
		}
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-short", "-group", "idle,calls"}, io.Discard)
	if err != nil || o.starts != 5 {
		t.Fatalf("%+v, %v", o, err)
	}
	some, err := o.chosen()
	if err != nil || len(some) != 2 || some[0].name != "idle" {
		t.Errorf("%d groups, %v", len(some), err)
	}
	o.groups = ""
	short, err := o.chosen()
	if err != nil || len(short) >= len(groups()) {
		t.Errorf("the short form has %d of %d groups", len(short), len(groups()))
	}
	o.short, o.before = false, ""
	without, err := o.chosen()
	if err != nil || len(without) != len(groups())-1 {
		t.Errorf("%d of %d groups without another program, %v", len(without), len(groups()), err)
	}
	o.before = "bin/before"
	if with, err := o.chosen(); err != nil || len(with) != len(groups()) {
		t.Errorf("%d of %d groups with another program, %v", len(with), len(groups()), err)
	}
	o.groups = "nothing"
	if _, err := o.chosen(); err == nil {
		t.Error("no error for a group that is not there")
	}
	for _, args := range [][]string{{"extra"}, {"-starts", "x"}} {
		if _, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestIdleGroupsFitTheMachine(t *testing.T) {
	var out strings.Builder
	b := bench1(&out, options{})
	table := &report.Table{}
	all := b.idleGroups(table)
	for _, c := range all {
		want := c.wanted
		if c.who == listening {
			want = min(want, 20000-spare)
		}
		if c.sessions != want {
			t.Errorf("%d sessions, each %s, where 20000 descriptors are allowed; want %d", c.sessions, c.who, want)
		}
	}
	if len(table.After) != 1 || !strings.Contains(table.After[0], "this machine allows 20000") {
		t.Errorf("printed %q", table.After)
	}
	for left := all; len(left) > 0; {
		var wave []*idleGroup
		wave, left = b.wave(left)
		need := 0
		for _, c := range wave {
			need += c.descriptors()
		}
		if len(wave) == 0 || need > b.descriptors-spare {
			t.Fatalf("a wave of %d with %d descriptors", len(wave), need)
		}
	}
}

// TestShortFormHasNoTimes checks that times are not even measured if they are not judged.
func TestShortFormHasNoTimes(t *testing.T) {
	var out strings.Builder
	b := bench1(&out, options{short: true})
	if a := b.amount(amount{many: 300, one: 100}); a != (amount{many: 100}) {
		t.Errorf("measures %+v", a)
	}
	some := []sample{{counted: true, cpu: 1, times: took(t, 1, 2), alone: true}}
	b.put("g/t/w", some)
	b.compare("g/t/w", some, some, some)
	for key := range b.found.All() {
		if _, ok := b.found.Get(key); ok && (strings.Contains(key, "/p") || strings.Contains(key, "added")) && !strings.HasSuffix(key, "/peak") && !strings.HasSuffix(key, "/progress") {
			t.Errorf("%s was put down", key)
		}
	}
	if _, ok := b.found.Get("g/t/w/cpu-rp"); !ok {
		t.Error("no ratio was put down")
	}
}

// TestTurns checks that the first entrant changes from round to round, and from start to
// start.
func TestTurns(t *testing.T) {
	for start, want := range []string{"ab ba ab ba ab ba", "ba ab ba ab ba ab"} {
		var calls strings.Builder
		var entrants []*entrant
		for _, name := range []string{"a", "b"} {
			caller := load.CallerFunc(func(context.Context) error {
				calls.WriteString(name)
				return nil
			})
			entrants = append(entrants, &entrant{name: name, callers: []load.Caller{caller}})
		}
		samples := make(map[string][]sample)
		if err := rounds(t.Context(), entrants, start, amount{many: clients * perStart}, samples); err != nil {
			t.Fatal(err)
		}
		warm := 2 * (clients*perStart/5 + 1)
		turns := strings.NewReplacer(strings.Repeat("a", clients), "a", strings.Repeat("b", clients), "b").Replace(calls.String()[warm:])
		if got := strings.ReplaceAll(want, " ", ""); turns != got {
			t.Errorf("start %d: turns %s, want %s", start, turns, got)
		}
		if len(samples["a"]) != perStart || len(samples["b"]) != perStart {
			t.Errorf("start %d: %d and %d samples, want %d", start, len(samples["a"]), len(samples["b"]), perStart)
		}
	}
}

// TestAmountOverRounds checks that rounds divide the amount, and that none is empty.
func TestAmountOverRounds(t *testing.T) {
	for _, tt := range []struct{ all, want amount }{
		{amount{1200, 60}, amount{200, 10}},
		{amount{1200, 0}, amount{200, 0}},
		{amount{7, 1}, amount{clients, 1}},
	} {
		if got := tt.all.over(6); got != tt.want {
			t.Errorf("%+v over 6 rounds: %+v, want %+v", tt.all, got, tt.want)
		}
	}
}

// TestComparedInEachRoundOfEachStart checks that values that differ only by noise are
// measured close to each other in time, with each start.
func TestComparedInEachRoundOfEachStart(t *testing.T) {
	var out strings.Builder
	b := bench1(&out, options{program: "none", starts: 2, scale: 1})
	m := breadth{group: "g", what: "things", sizes: []int{1, 2}, base: "cpu-1"}
	m.entrant = func(ctx context.Context, w *stage, _ variant, client, _ canned.Era) (*entrant, error) {
		return enter(ctx, "", w.backend, target(w.backend, client, canned.Setup{}.Query()), load.ToolCall("text_100", false), judgeText("text_100"))
	}
	if err := m.measure(t.Context(), b, amount{many: 100 * perStart}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"g/1/legacy to modern/cpu", "g/2/modern to modern/cpu-1"} {
		if s, ok := b.found.Get(key); !ok || s.Rounds != 2*perStart {
			t.Errorf("%s was measured in %d rounds, want %d", key, s.Rounds, 2*perStart)
		}
	}
	if s, _ := b.found.Get("g/1/legacy to modern/errors"); s.Most != 0 {
		t.Errorf("%v errors", s.Most)
	}
}

// TestListsAreLinear checks the names in the marks of lists.
func TestListsAreLinear(t *testing.T) {
	var out strings.Builder
	b := bench1(&out, options{})
	b.found.Set("lists/100 over 5/legacy/cpu", stats.Of(0.25))
	b.found.Set("lists/1000 over 5/legacy/cpu", stats.Of(5))
	b.perTool()
	if got, ok := b.found.Get("lists/1000 over 5/legacy/cpu-tool"); !ok || got.Median != 2 {
		t.Errorf("a tool of many costs %v as much as one of few, want 2", got.Median)
	}
	if n := len(b.red("lists/*/*/cpu-tool")); n != 1 {
		t.Errorf("%d marks are missed by that, want 1", n)
	}
	for _, short := range []bool{true, false} {
		b.short = short
		i := slices.IndexFunc(b.toolSets(), func(s toolSet) bool { return s.tools == 1000 })
		if s := b.toolSets()[i]; s.over[0] != 1 || s.name(s.most()) != "1000 over 20" {
			t.Errorf("short %v: %+v", short, s)
		}
	}
}

func TestPage(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "performance.md")
	text := "# P\n<!-- begin calls -->\n<!-- end -->\n<!-- begin marks -->\nold\n<!-- end -->\n<!-- begin times -->\n<!-- end -->\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	b := bench1(&out, options{update: page, starts: 5, json: filepath.Join(dir, "all.json")})
	b.found.Set("calls/100 B/legacy to modern/cpu", stats.Of(0.1))
	b.found.Set("calls/100 B/legacy to modern/cpu-rp", stats.Of(1.5))
	b.found.Set("sessions/20 backends/initialize/cpu-1", stats.Of(1.05))
	b.took["calls"], b.took[whole] = 4*time.Minute, 34*time.Minute
	b.callRows(b.callTable("calls", "Calls", "answer"), "calls", "100 B")
	b.plotPayload()
	if err := b.write(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 100 B, legacy to modern | 0.100 | 1.50 |", "`make bench GROUP=calls`, 5 starts in 4m0s; ", "`make bench`, 5 starts in 34m0s; ", "| calls | 4m0s |", "](performance/calls.svg)", " cores of ",
		"| tools/call, CPU x RP, 100 B | <= 1.20 | 1.50 | 100 B, legacy to modern | 0 of 1 | ", " | **missed** |",
		"| initialize, CPU with 20 backends against 1 | <= 1.10 | 1.05 | 20 backends, initialize | 1 of 1 |  | kept |",
		"| tools/call, CPU x RP, 10 KiB | <= 1.20 |  | not measured |  | ",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the page has no %q:\n%s", want, got)
		}
	}
	for _, name := range []string{"performance/calls.svg", "all.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigNamesItsBackends(t *testing.T) {
	c := overHTTP("http://127.0.0.1:1", 3, canned.Setup{Era: canned.Legacy, Tools: 7})
	if len(c.Servers) != 3 || toolAt(2, "text_100") != "b002__text_100" {
		t.Errorf("%+v", c)
	}
	_, query, _ := strings.Cut(c.Servers["b002"].URL, "?")
	if s, err := canned.ParseSetup(query); err != nil || s != (canned.Setup{Era: canned.Legacy, Tools: 7, Name: "b002"}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestMarksAreMeasured compares the table of marks with the groups: a mark of a group that
// does not exist would always be kept.
func TestMarksAreMeasured(t *testing.T) {
	for _, m := range marks.All() {
		name, _, _ := strings.Cut(m.Keys, "/")
		if name != "*" && !slices.ContainsFunc(groups(), func(g group) bool { return g.name == name }) {
			t.Errorf("%s is for the group %q, which there is not", m.Name, name)
		}
	}
}

func TestUnchangedForAWhile(t *testing.T) {
	at := unchanged(func(v int) int { return v })
	said := 0
	for i, v := range append([]int{1, 1, 1, 2}, slices.Repeat([]int{3}, still+1)...) {
		if at(v) {
			said = i
			break
		}
	}
	if want := 4 + still; said != want {
		t.Errorf("at rest at reading %d, want %d", said, want)
	}
}

func TestLowIsWhatIsLive(t *testing.T) {
	var l low
	for _, r := range []proc.Runtime{
		{Heap: 10, Stacks: 1, Collections: 4}, // unknown how much of it is garbage
		{Heap: 30, Stacks: 1, Collections: 4},
		{Heap: 15, Stacks: 1, Collections: 5},
		{Heap: 12, Stacks: 2, Collections: 6},
		{Heap: 40, Stacks: 2, Collections: 6},
	} {
		l.add(r)
	}
	if l.bytes != 14 || l.enough() {
		t.Errorf("%v, enough %v; want 14, and not yet", l.bytes, l.enough())
	}
	l.add(proc.Runtime{Heap: 20, Collections: 7})
	if l.bytes != 14 || !l.enough() {
		t.Errorf("%v, enough %v after the third", l.bytes, l.enough())
	}
}

func TestSharesStandInATable(t *testing.T) {
	var out strings.Builder
	b := bench1(&out, options{})
	b.shareTable([]string{"a", "b"}, map[string][]shares.Share{
		"a": {{Part: "allocation", Of: 0.2361}, {Part: "dust", Of: 0.001}}, "b": {{Part: "mcp", Of: 1}},
	})
	got := b.tables["profile"][0].String()
	for _, want := range []string{"| allocation | 23.6 |  |\n", "| mcp |  | 100.0 |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "dust") {
		t.Errorf("less than a hundredth stands in\n%s", got)
	}
}

// TestPageHasAPlaceForEachGroup compares the page of the repository with the groups: a
// measurement of an hour must not fail because a marker is missing.
func TestPageHasAPlaceForEachGroup(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"marks", "times"}
	for _, g := range groups() {
		names = append(names, g.name)
	}
	for _, name := range names {
		if _, err := report.Put(string(text), name, "x"); err != nil {
			t.Error(err)
		}
	}
}

func TestPartsAreRead(t *testing.T) {
	const out = `goos: linux
pkg: github.com/signalbox-mcp/signalbox/mcp
BenchmarkParse/text_10_KiB-2   	    1000	      5000 ns/op	2048.00 MB/s	       0 B/op	       0 allocs/op
BenchmarkParse/text_10_KiB-2   	    1000	      7000 ns/op	1462.86 MB/s	       0 B/op	       0 allocs/op
BenchmarkEdit-2                	     200	       384.5 ns/op	     384 B/op	       1 allocs/op
PASS
ok  	github.com/signalbox-mcp/signalbox/mcp	2.869s
pkg: github.com/signalbox-mcp/signalbox/internal/session
BenchmarkStep/a_call-2         	    1000	      5273 ns/op	     504 B/op	       5 allocs/op
`
	order, found := byName(parseParts(out))
	if got := strings.Join(order, "; "); got != "mcp/Parse, text 10 KiB; mcp/Edit; session/Step, a call" {
		t.Fatalf("got %s", got)
	}
	if got := rated(found["mcp/Parse, text 10 KiB"]); got.Rounds != 2 || got.Least != 1462.86 {
		t.Errorf("the scanner: %+v", got)
	}
	if got := rated(found["mcp/Edit"]); got.Rounds != 0 {
		t.Errorf("a rate of what has none: %+v", got)
	}
	if got := found["session/Step, a call"][0]; got != (part{"session", "Step, a call", 5273, 0, 504, 5}) {
		t.Errorf("got %+v", got)
	}
	// The marks use these names.
	for _, m := range marks.All() {
		if m.Name == "scanner, 10 KiB of typical JSON" && m.Keys != "parts/mcp/Parse, text 10 KiB/rate" {
			t.Errorf("the mark is for %s", m.Keys)
		}
	}
}

func TestProcessor(t *testing.T) {
	if got := processor("processor\t: 0\nmodel name\t: A  Processor\nmodel name\t: Another\n"); got != "A Processor" {
		t.Errorf("got %q", got)
	}
	if got := processor(""); got != "an unknown processor" {
		t.Errorf("got %q of nothing", got)
	}
}
