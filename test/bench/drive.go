// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/plot"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
)

// bench is one run of the bench.
type bench struct {
	options
	found       marks.Findings
	descriptors int // limit of a process on this machine

	mu     sync.Mutex // guards the fields below, if groups are measured in parallel
	out    io.Writer
	tables map[string][]*report.Table // by group
	plots  map[string]plot.Plot       // by group, which is also the file name
	took   map[string]time.Duration   // by group
}

// group is a group of measurements with processes of its own.
type group struct {
	name string
	long bool // left out of the short form unless requested
	// waits marks a group that measures no times and mostly waits. It runs in parallel with
	// the group before it if that waits too.
	waits   bool
	measure func(b *bench, ctx context.Context, g *rig) error
}

// groupBefore is the group that needs another program, and is left out without one.
const groupBefore = "before"

// groups returns all groups in the order of measurement.
func groups() []group {
	return []group{
		{name: "calls", measure: (*bench).measureCalls},
		{name: "requests", long: true, measure: (*bench).measureRequests},
		{name: "streams", long: true, measure: (*bench).measureStreams},
		{name: "stdio", long: true, measure: (*bench).measureStdio},
		{name: "backends", long: true, measure: (*bench).measureBackends},
		{name: "tools", long: true, measure: (*bench).measureTools},
		{name: "lists", measure: (*bench).measureLists},
		{name: "sessions", measure: (*bench).measureSessions},
		{name: "beside", long: true, measure: (*bench).measureBeside},
		{name: "flight", measure: (*bench).measureFlight},
		{name: "attach", long: true, measure: (*bench).measureAttach},
		{name: "ready", measure: (*bench).measureReady},
		{name: "idle", waits: true, measure: (*bench).measureIdle},
		{name: "growth", waits: true, measure: (*bench).measureGrowth},
		{name: "parts", long: true, measure: (*bench).measureParts},
		{name: "record", long: true, measure: (*bench).measureRecord},
		{name: "flood", long: true, measure: (*bench).measureFlood},
		{name: groupBefore, long: true, measure: (*bench).measureBefore},
		{name: "profile", long: true, measure: (*bench).measureProfile},
		{name: "peers", long: true, measure: (*bench).measurePeers},
	}
}

func groupNames() string {
	var names []string
	for _, g := range groups() {
		names = append(names, g.name)
	}
	return strings.Join(names, ", ")
}

// chosen returns the groups that the options select.
func (o options) chosen() ([]group, error) {
	if o.groups == "" {
		return slices.DeleteFunc(groups(), func(g group) bool { return o.short && g.long || g.name == groupBefore && o.before == "" }), nil
	}
	var some []group
	for name := range strings.SplitSeq(o.groups, ",") {
		i := slices.IndexFunc(groups(), func(g group) bool { return g.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no group %q; there are %s", name, groupNames())
		}
		some = append(some, groups()[i])
	}
	return some, nil
}

// together splits groups into sets that are measured in parallel.
func together(all []group) [][]group {
	var turns [][]group
	for i, g := range all {
		if last := len(turns) - 1; g.waits && i > 0 && all[i-1].waits {
			turns[last] = append(turns[last], g)
			continue
		}
		turns = append(turns, []group{g})
	}
	return turns
}

// drive measures the groups, judges the values, and writes the requested files. It returns
// an error if a value fails.
func drive(ctx context.Context, o options, out io.Writer) error {
	some, err := o.chosen()
	if err != nil {
		return err
	}
	b := &bench{
		options: o, out: out, tables: make(map[string][]*report.Table), plots: make(map[string]plot.Plot), took: make(map[string]time.Duration),
	}
	if b.descriptors, err = proc.Descriptors(); err != nil {
		return err
	}
	b.printf("%s", machine())
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	start := time.Now()
	for _, turn := range together(some) {
		err := sideBySide(turn, func(g group) error {
			err := b.group(ctx, g)
			if err != nil {
				stop() // the other results are not needed
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	b.took[whole] = time.Since(start)
	b.printf("%s", b.times())
	return errors.Join(b.write(), b.judge())
}

// whole is the name for all groups together.
const whole = "all"

// group measures one group and prints its tables and duration.
func (b *bench) group(ctx context.Context, g group) error {
	start := time.Now()
	if err := b.inRig(ctx, g); err != nil {
		return fmt.Errorf("%s: %w", g.name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.took[g.name] = time.Since(start)
	for _, t := range b.tables[g.name] {
		fmt.Fprintln(b.out, t)
	}
	fmt.Fprintf(b.out, "-- %s: %s\n\n", g.name, b.tookFor(g.name))
	return nil
}

// tookFor returns the duration of a group.
func (b *bench) tookFor(name string) string { return b.took[name].Round(time.Second).String() }

// times returns the durations of the groups as a table.
func (b *bench) times() *report.Table {
	t := &report.Table{
		Title: "Time", Header: []string{"group", "time"},
		Before: "How long the measurements took. Groups that mostly wait and measure no times run in parallel.",
	}
	for _, g := range groups() {
		if _, ok := b.took[g.name]; ok {
			t.Add(g.name, b.tookFor(g.name))
		}
	}
	t.Add(whole, b.tookFor(whole))
	return t
}

// inRig measures a group with processes of its own.
func (b *bench) inRig(ctx context.Context, g group) (err error) {
	r, err := newRig(b.program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return g.measure(b, ctx, r)
}

// printf prints a line. A write error is ignored.
func (b *bench) printf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.out, format+"\n", args...)
}

// table adds a table to a group.
func (b *bench) table(group, title, before string, header ...string) *report.Table {
	t := &report.Table{Title: title, Before: before, Header: header}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tables[group] = append(b.tables[group], t)
	return t
}

// draw sets the plot of a group.
func (b *bench) draw(group string, p plot.Plot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plots[group] = p
}

// calls scales a number of calls by the options.
func (b *bench) calls(n int) int {
	if b.short {
		n /= 3
	}
	return b.share(n)
}

// share scales a number by the options.
func (b *bench) share(n int) int { return max(1, int(float64(n)*b.scale)) }

// attempts is how often the short form measures a failing value, each time with twice as
// many starts. Other load on the machine can spoil one measurement, but seldom all of them.
const attempts = 3

// attempt measures. In the short form, where a failing value fails the check, attempt
// repeats the measurement if a value with a key that matches keys fails. A value that is
// far beyond its bound in all rounds is not measured again.
func (b *bench) attempt(keys string, measure func(starts int) error) error {
	for i := range attempts {
		n := b.starts << i
		if err := measure(n); err != nil || !b.short || i == attempts-1 {
			return err
		}
		again := slices.DeleteFunc(b.red(keys), func(v marks.Verdict) bool { return !v.IsNear() })
		if len(again) == 0 {
			return nil
		}
		b.printf("measured again, with %d starts:", 2*n)
		for _, v := range again {
			b.printf("  %s", v)
		}
	}
	return nil
}

// red returns the failing verdicts with keys that match a pattern.
func (b *bench) red(keys string) []marks.Verdict {
	return slices.DeleteFunc(marks.Red(marks.Judge(marks.All(), &b.found, b.short)), func(v marks.Verdict) bool {
		ok, err := path.Match(keys, v.Key)
		return !ok || err != nil
	})
}

// judge prints the verdicts. It returns an error if a value fails, or if a mark has no
// value. A value that misses its mark within its bound is printed and is no error.
func (b *bench) judge() error {
	verdicts := marks.Judge(marks.All(), &b.found, b.short)
	if marks.IsSlow(&b.found) {
		b.printf("a slow machine: some ratios have wider bounds")
	}
	if err := marks.Print(b.out, verdicts); err != nil {
		return err
	}
	unmeasured := b.unmeasured()
	for _, m := range unmeasured {
		b.printf("RED    %s: nothing was measured", m.Name)
	}
	red := marks.Red(verdicts)
	b.printf("%d values: %d keep their mark, %d miss it within their bound, %d fail", len(verdicts),
		len(verdicts)-len(marks.Missed(verdicts)), len(marks.Missed(verdicts))-len(red), len(red))
	if len(red)+len(unmeasured) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d values fail, %d marks have no value; run again: %s", len(red), len(verdicts), len(unmeasured), b.command())
}

// unmeasured returns the marks of the chosen groups without a value.
func (b *bench) unmeasured() []marks.Mark {
	some, err := b.chosen()
	if err != nil {
		return nil // unknown groups have no marks
	}
	var names []string
	for _, g := range some {
		names = append(names, g.name)
	}
	return marks.Unmeasured(marks.All(), &b.found, b.short, names)
}

// command returns the command that repeats this run.
func (b *bench) command() string {
	c := "make bench"
	if b.short {
		c = "make bench-check"
	}
	if b.groups != "" {
		c += " GROUP=" + b.groups
	}
	return c
}

// write writes the requested files.
func (b *bench) write() error {
	if b.json != "" {
		text, err := json.MarshalIndent(b.found.All(), "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.json, append(text, '\n'), 0o644); err != nil { //nolint:gosec // a public file
			return err
		}
	}
	if b.update == "" {
		return nil
	}
	return b.writePage()
}
