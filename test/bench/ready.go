// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// measureReady measures the time from the start of a gateway to the first complete list,
// and its memory then.
func (b *bench) measureReady(ctx context.Context, g *rig) error {
	t := b.table("ready", "Start", "From the start of the process to the end of the first tools/list, with the tools of all 20 backends; and the resident memory when it is idle after that. The median of the starts.",
		"backends", "ready ms", "resident MiB")
	if err := b.weighProgram(t); err != nil || b.short {
		return err // the rest are times, and memory counted by the system
	}
	const backends = 20
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return err
	}
	for _, era := range eras() {
		var took, resident []float64
		for range b.starts {
			p, err := g.launch(ctx, overHTTP(backend.Address, backends, canned.Setup{Era: era, Tools: defaultTools}))
			if err != nil {
				return err
			}
			err = firstList(ctx, load.Target{URL: p.Address, Era: canned.Modern}, backends*defaultTools)
			took = append(took, float64(time.Since(p.Started).Microseconds())/1e3)
			if err != nil {
				return err
			}
			used, err := leftAlone(ctx, p)
			if err != nil {
				return err
			}
			resident = append(resident, float64(used.RSS)/(1<<20))
			if err := g.end(p); err != nil {
				return err
			}
		}
		prefix := fmt.Sprintf("ready/%d backends/%s/", backends, era)
		b.found.Set(prefix+"ready", stats.Of(took...))
		b.found.Set(prefix+"rss", stats.Of(resident...))
		t.Add(fmt.Sprintf("%d, %s", backends, era), marks.Number(stats.Of(took...).Median), marks.Number(stats.Of(resident...).Median))
	}
	return nil
}

// weighProgram stores the size of the gateway's program.
func (b *bench) weighProgram(t *report.Table) error {
	program, err := os.Stat(b.program)
	if err != nil {
		return err
	}
	size := float64(program.Size()) / (1 << 20)
	b.found.Set("ready/program/size/bytes", stats.Of(size))
	t.Remark("The program file has %s MiB.", marks.Number(size))
	return nil
}
