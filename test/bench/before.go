// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// measureBefore compares the gateway with another program of it, such as that of an older
// version, which is called in the same rounds and in front of the same backends.
func (b *bench) measureBefore(ctx context.Context, _ *rig) error {
	if b.before == "" {
		return errors.New("-before is missing: the program to compare with")
	}
	t := b.table(groupBefore, "tools/call beside another version", "The program against that of -before, in the same rounds.",
		"answer, cell", "CPU s per 1000", "CPU x before", "calls/s x before", "p50 x before", "allocations", "more than before")
	for _, p := range payloads() {
		if p.plotted {
			continue
		}
		for _, era := range eras() {
			if err := b.besideBefore(ctx, t, p, era); err != nil {
				return err
			}
		}
	}
	return nil
}

// besideBefore measures the calls of clients of an era.
func (b *bench) besideBefore(ctx context.Context, t *report.Table, p payload, era canned.Era) error {
	open := func(ctx context.Context, g *rig) ([]*entrant, error) {
		return b.enterBoth(ctx, g, era, asked{tool: p.tool})
	}
	got, err := b.measure(ctx, open, b.starts, b.amount(p.amount))
	if err != nil {
		return err
	}
	for _, backend := range eras() {
		cell := cellName(era, backend)
		now, before := got[cell], got[beforeName(cell)]
		prefix := groupBefore + "/" + p.name + "/" + cell
		b.put(prefix, now)
		values := []stats.Summary{
			stats.Each(now, cpuOf),
			stats.Ratio(now, before, cpuOf),
			stats.Ratio(now, before, func(s sample) float64 { return s.rate }),
			stats.Ratio(now, before, func(s sample) float64 { return s.at(0.5) }),
			stats.Each(now, func(s sample) float64 { return s.allocs }),
			beyond(now, before),
		}
		row := []string{p.name + ", " + cell}
		for _, v := range values {
			row = append(row, marks.Number(v.Median))
		}
		t.Add(row...)
	}
	return nil
}

// beforeName names the cell of the other program.
func beforeName(cell string) string { return cell + " before" }

// enterBoth starts a backend with gateways of both programs in front of it.
func (b *bench) enterBoth(ctx context.Context, g *rig, era canned.Era, call asked) ([]*entrant, error) {
	setup := canned.Setup{Tools: defaultTools}
	behind, err := g.start(ctx, "backend")
	if err != nil {
		return nil, err
	}
	var entrants []*entrant
	for _, backend := range eras() {
		setup.Era = backend
		cell := cellName(era, backend)
		for name, program := range map[string]string{beforeName(cell): b.before, cell: b.program} {
			p, err := g.gatewayOf(ctx, program, overHTTP(behind.Address, 1, setup), setup.Tools)
			if err != nil {
				return entrants, err
			}
			w := way{name, p, target(p, era, ""), toolAt(0, "")}
			if err := w.wearIn(ctx); err != nil {
				return entrants, err
			}
			e, err := enter(ctx, w.name, w.p, w.t, call.of(w.prefix), judgeText(call.tool))
			if err != nil {
				return entrants, err
			}
			entrants = append(entrants, e)
		}
	}
	return entrants, nil
}
