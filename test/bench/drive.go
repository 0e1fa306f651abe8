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
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/plot"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
)

// bench is one run of the bench.
type bench struct {
	options
	out         io.Writer
	found       marks.Findings
	tables      map[string][]*report.Table // by group
	plots       map[string]plot.Plot       // by group, which is the name of their file
	descriptors int                        // that a process may have here
}

// group is a group of measurements, with processes of its own.
type group struct {
	name    string
	long    bool // left out of the short form unless it is asked for
	measure func(b *bench, ctx context.Context, g *rig) error
}

// groups are all of them, in the order in which they are measured.
func groups() []group {
	return []group{
		{name: "calls", measure: (*bench).measureCalls},
		{name: "streams", long: true, measure: (*bench).measureStreams},
		{name: "stdio", long: true, measure: (*bench).measureStdio},
		{name: "backends", long: true, measure: (*bench).measureBackends},
		{name: "tools", long: true, measure: (*bench).measureTools},
		{name: "lists", measure: (*bench).measureLists},
		{name: "sessions", measure: (*bench).measureSessions},
		{name: "beside", long: true, measure: (*bench).measureBeside},
		{name: "idle", measure: (*bench).measureIdle},
		{name: "flight", measure: (*bench).measureFlight},
		{name: "ready", measure: (*bench).measureReady},
		{name: "growth", measure: (*bench).measureGrowth},
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

// drive measures the groups, judges, and writes what it is to write. What misses its
// mark is an error.
func drive(ctx context.Context, o options, out io.Writer) error {
	some, err := o.chosen()
	if err != nil {
		return err
	}
	b := &bench{options: o, out: out, tables: make(map[string][]*report.Table), plots: make(map[string]plot.Plot)}
	if b.descriptors, err = proc.Descriptors(); err != nil {
		return err
	}
	b.say("%s", machine())
	for _, g := range some {
		start := time.Now()
		if err := b.group(ctx, g); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		b.say("-- %s: %v\n", g.name, time.Since(start).Round(time.Second))
	}
	return errors.Join(b.write(), b.judge())
}

// group measures one group.
func (b *bench) group(ctx context.Context, g group) (err error) {
	r, err := newRig(b.program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := g.measure(b, ctx, r); err != nil {
		return err
	}
	for _, t := range b.tables[g.name] {
		b.say("%s", t)
	}
	return nil
}

// say prints a line. Who reads no more is not waited for.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// table begins a table of a group.
func (b *bench) table(group, title, before string, header ...string) *report.Table {
	t := &report.Table{Title: title, Before: before, Header: header}
	b.tables[group] = append(b.tables[group], t)
	return t
}

// calls is a number of calls, of as many as the options want.
func (b *bench) calls(n int) int {
	if b.short {
		n /= 4
	}
	return b.share(n)
}

// share is a number, scaled as the options want it.
func (b *bench) share(n int) int { return max(1, int(float64(n)*b.scale)) }

// attempt measures, and does so once more with twice the rounds if something of what
// was measured, by a pattern of its keys, misses its mark: what a machine does besides
// can spoil one measurement, and seldom two. What is far from its mark in all rounds is
// not measured again.
func (b *bench) attempt(keys string, measure func(rounds int) error) error {
	if err := measure(b.rounds); err != nil {
		return err
	}
	missed := slices.DeleteFunc(b.missed(keys), func(v marks.Verdict) bool { return !v.IsNear() })
	if len(missed) == 0 {
		return nil
	}
	b.say("measured once more, in %d rounds:", 2*b.rounds)
	for _, v := range missed {
		b.say("  %s", v)
	}
	return measure(2 * b.rounds)
}

// missed are the verdicts about keys of a pattern that are not as they have to be.
func (b *bench) missed(keys string) []marks.Verdict {
	return slices.DeleteFunc(marks.Missed(marks.Judge(marks.All(), &b.found, b.short)), func(v marks.Verdict) bool {
		ok, err := path.Match(keys, v.Key)
		return !ok || err != nil
	})
}

// judge prints what was judged, and fails where a mark is missed, or nothing was
// measured for it.
func (b *bench) judge() error {
	verdicts := marks.Judge(marks.All(), &b.found, b.short)
	if err := marks.Print(b.out, verdicts); err != nil {
		return err
	}
	unmeasured := b.unmeasured()
	for _, m := range unmeasured {
		b.say("RED %s: nothing was measured", m.Name)
	}
	missed := marks.Missed(verdicts)
	if len(missed)+len(unmeasured) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d values miss their mark, %d marks have none; again: %s",
		len(missed), len(verdicts), len(unmeasured), b.command())
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
