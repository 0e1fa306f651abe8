// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// measureGrowth measures what is left of sessions that were opened, used and ended, and
// of calls.
func (b *bench) measureGrowth(ctx context.Context, g *rig) error {
	// Connections to the backend that nobody uses end soon, so that before and after
	// are alike.
	backend, err := g.start(ctx, "backend", "-idle", "1s")
	if err != nil {
		return err
	}
	t := b.table("growth", "Growth", "Before, and after: once it is at rest and, for its memory, once it has given that back. "+
		"Each session calls a tool of a legacy and one of a modern backend before it is ended.",
		"what", "RSS before, MiB", "after", "ratio", "goroutines before", "after", "descriptors before", "after")
	sessions, calls := 100_000, 1_000_000
	if b.short {
		sessions, calls = 2000, 20_000
	}
	for _, era := range eras() {
		what, n := "sessions", sessions
		if era == canned.Modern {
			what, n = "calls", calls/2
		}
		if err := b.grow(ctx, g, backend, t, fmt.Sprintf("%d %s", n, what), era, n); err != nil {
			return err
		}
	}
	return nil
}

// grow makes so many visits and compares before with after.
func (b *bench) grow(ctx context.Context, g *rig, backend *proc.Process, t *report.Table, thing string, era canned.Era, n int) error {
	p, err := g.gateway(ctx, bothEras(backend), 2*defaultTools)
	if err != nil {
		return err
	}
	if err := visit(ctx, p, era, max(500, n/100)); err != nil {
		return err
	}
	before, err := atRest(ctx, p)
	if err != nil {
		return err
	}
	if before, err = b.cooled(ctx, p); err != nil {
		return err
	}
	if err := visit(ctx, p, era, n); err != nil {
		return err
	}
	after, err := until(ctx, p, b.patience(), func(r reading) bool {
		return r.Goroutines == before.Goroutines && r.Descriptors == before.Descriptors &&
			(b.short || float64(r.RSS) <= 1.1*float64(before.RSS))
	})
	if err != nil {
		return err
	}
	prefix := "growth/" + thing + "/" + string(era) + "/"
	ratio := stats.Of(float64(after.RSS) / float64(before.RSS))
	b.found.Set(prefix+"rss", ratio)
	b.found.Set(prefix+"goroutines", stats.Of(float64(after.Goroutines-before.Goroutines)))
	b.found.Set(prefix+"descriptors", stats.Of(float64(after.Descriptors-before.Descriptors)))
	mib := func(bytes uint64) string { return marks.Number(float64(bytes) / (1 << 20)) }
	t.Add(thing, mib(before.RSS), mib(after.RSS), marks.Number(ratio.Median),
		fmt.Sprint(before.Goroutines), fmt.Sprint(after.Goroutines), fmt.Sprint(before.Descriptors), fmt.Sprint(after.Descriptors))
	return g.end(p)
}

// patience is how long a process may take to get back to what it was.
func (b *bench) patience() time.Duration {
	if b.short {
		return 20 * time.Second
	}
	return 5 * time.Minute
}

// bothEras configures a backend of each era.
func bothEras(backend *proc.Process) config {
	c := overHTTP(backend.Address, 2, canned.Setup{Era: canned.Legacy, Tools: defaultTools})
	modern := canned.Setup{Era: canned.Modern, Tools: defaultTools, Name: backendName(1)}
	c.Servers[modern.Name] = server{URL: backend.Address + "/mcp?" + modern.Query()}
	return c
}

// visit makes so many visits with two calls each: in the legacy era each in a session of
// its own.
func visit(ctx context.Context, p *proc.Process, era canned.Era, n int) error {
	t := target(p, era, "")
	conns, hang, err := dial(ctx, t, clients)
	if err != nil {
		return err
	}
	defer hang()
	calls := []load.Call{load.ToolCall(toolAt(0, "text_100"), false), load.ToolCall(toolAt(1, "text_100"), false)}
	judge := judgeText("text_100")
	var callers []load.Caller
	for _, conn := range conns {
		callers = append(callers, load.CallerFunc(func(ctx context.Context) error {
			return load.Visit(ctx, conn, t, calls, judge)
		}))
	}
	if r := load.Run(ctx, callers, n); r.Errors > 0 {
		return fmt.Errorf("%d of %d visits: %w", r.Errors, n, r.First)
	}
	return ctx.Err()
}
