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
	descriptors int // that a process may have here

	mu     sync.Mutex // guards what follows, where groups are measured side by side
	out    io.Writer
	tables map[string][]*report.Table // by group
	plots  map[string]plot.Plot       // by group, which is the name of their file
	took   map[string]time.Duration   // by group
}

// group is a group of measurements, with processes of its own.
type group struct {
	name string
	long bool // left out of the short form unless it is asked for
	// waits says that nothing in it is a time, and that most of its own is spent waiting:
	// it is measured together with the one before it that waits, too.
	waits   bool
	measure func(b *bench, ctx context.Context, g *rig) error
}

// groups are all of them, in the order in which they are measured.
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
		{name: "ready", measure: (*bench).measureReady},
		{name: "idle", waits: true, measure: (*bench).measureIdle},
		{name: "growth", waits: true, measure: (*bench).measureGrowth},
		{name: "parts", long: true, measure: (*bench).measureParts},
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

// chosen are the groups that the options name.
func (o options) chosen() ([]group, error) {
	if o.groups == "" {
		return slices.DeleteFunc(groups(), func(g group) bool { return o.short && g.long }), nil
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

// together divides groups into those that are measured at a time.
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

// drive measures the groups, judges, and writes what it is to write. What has passed
// what it must not is an error.
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
	b.say("%s", machine())
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	start := time.Now()
	for _, turn := range together(some) {
		err := sideBySide(turn, func(g group) error {
			err := b.group(ctx, g)
			if err != nil {
				stop() // nobody needs the others either
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	b.took[whole] = time.Since(start)
	b.say("%s", b.times())
	return errors.Join(b.write(), b.judge())
}

// whole stands among the groups for all of them.
const whole = "all"

// group measures one group, says what it found, and how long that took.
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

// tookFor is how long a group took.
func (b *bench) tookFor(name string) string { return b.took[name].Round(time.Second).String() }

// times are how long the groups took, as a table.
func (b *bench) times() *report.Table {
	t := &report.Table{
		Title: "Time", Header: []string{"group", "time"},
		Before: "How long the measurements took. Those that wait most of the time, and measure none, are made side by side.",
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

// say prints a line. Who reads no more is not waited for.
func (b *bench) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.out, format+"\n", args...)
}

// table begins a table of a group.
func (b *bench) table(group, title, before string, header ...string) *report.Table {
	t := &report.Table{Title: title, Before: before, Header: header}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tables[group] = append(b.tables[group], t)
	return t
}

// draw puts down the plot of a group.
func (b *bench) draw(group string, p plot.Plot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plots[group] = p
}

// calls is a number of calls, of as many as the options want.
func (b *bench) calls(n int) int {
	if b.short {
		n /= 3
	}
	return b.share(n)
}

// share is a number, scaled as the options want it.
func (b *bench) share(n int) int { return max(1, int(float64(n)*b.scale)) }

// attempts is how often the short form measures what is red, each time with twice as many
// starts: what a machine does besides can spoil one measurement, and seldom all of them.
const attempts = 3

// attempt measures. In the short form, where red is an error that stops somebody, it
// does so again if something of what was measured, by a pattern of its keys, is red. What
// is far beyond its bound in all rounds is not measured again.
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
		b.say("measured once more, with %d starts:", 2*n)
		for _, v := range again {
			b.say("  %s", v)
		}
	}
	return nil
}

// red are the verdicts about keys of a pattern that are red.
func (b *bench) red(keys string) []marks.Verdict {
	return slices.DeleteFunc(marks.Red(marks.Judge(marks.All(), &b.found, b.short)), func(v marks.Verdict) bool {
		ok, err := path.Match(keys, v.Key)
		return !ok || err != nil
	})
}

// judge prints what was judged. It fails where a value is red, or nothing was measured
// for a mark; what misses its mark and is held is said, and is no error.
func (b *bench) judge() error {
	verdicts := marks.Judge(marks.All(), &b.found, b.short)
	if err := marks.Print(b.out, verdicts); err != nil {
		return err
	}
	unmeasured := b.unmeasured()
	for _, m := range unmeasured {
		b.say("RED    %s: nothing was measured", m.Name)
	}
	red := marks.Red(verdicts)
	b.say("%d values: %d keep their mark, %d miss it and are held, %d are red", len(verdicts),
		len(verdicts)-len(marks.Missed(verdicts)), len(marks.Missed(verdicts))-len(red), len(red))
	if len(red)+len(unmeasured) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d values are red, %d marks have none; again: %s", len(red), len(verdicts), len(unmeasured), b.command())
}

// unmeasured are the marks that the groups are to measure something for, and did not.
func (b *bench) unmeasured() []marks.Mark {
	some, err := b.chosen()
	if err != nil {
		return nil // nothing is measured of groups that there are not
	}
	var names []string
	for _, g := range some {
		names = append(names, g.name)
	}
	return marks.Unmeasured(marks.All(), &b.found, b.short, names)
}

// command is how to measure this again.
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

// write writes what the options want written.
func (b *bench) write() error {
	if b.json != "" {
		text, err := json.MarshalIndent(b.found.All(), "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.json, append(text, '\n'), 0o644); err != nil { //nolint:gosec // it is for everybody to read
			return err
		}
	}
	if b.update == "" {
		return nil
	}
	return b.writePage()
}
