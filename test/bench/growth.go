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

// measureGrowth measures what remains of sessions that were opened, used and ended, and of
// calls.
func (b *bench) measureGrowth(ctx context.Context, g *rig) error {
	// Idle connections to the backend are closed soon, so that before and after are
	// comparable. The timeout is that of most servers: an earlier one would more often close
	// a connection just when a call is sent.
	backend, err := g.start(ctx, "backend", "-idle", "5s")
	if err != nil {
		return err
	}
	t := b.table("growth", "Growth", "Before, and after: when it is idle and, for memory, when it has returned that to the system. "+
		"Each session calls a tool of a legacy and one of a modern backend before it ends.",
		"what", "RSS before, MiB", "after", "ratio", "goroutines before", "after", "descriptors before", "after")
	sessions, calls := b.share(100_000), b.share(1_000_000)
	if b.short {
		sessions, calls = b.share(2000), b.share(10_000)
	}
	all := []*growth{
		{what: fmt.Sprintf("%d sessions", sessions), era: canned.Legacy, visits: sessions},
		{what: fmt.Sprintf("%d calls", calls), era: canned.Modern, visits: calls / callsOfVisit},
	}
	for _, w := range all {
		if w.process, err = g.gateway(ctx, bothEras(backend), 2*defaultTools); err != nil {
			return err
		}
	}
	// Nothing here is a time, and most of the duration is waiting for memory.
	if err := sideBySide(all, func(w *growth) error { return b.grow(ctx, w) }); err != nil {
		return err
	}
	for _, w := range all {
		b.putGrowth(t, w)
	}
	return nil
}

// growth has the state of a gateway before and after very many visits.
type growth struct {
	what          string
	era           canned.Era
	visits        int
	process       *proc.Process
	before, after reading
}

// grow makes the visits and compares before with after. The pool of sessions with a legacy
// backend has as many as were ever in use at once, and one more may be needed at any time. So
// what has grown is measured again: what remains of each visit grows each time.
func (b *bench) grow(ctx context.Context, w *growth) error {
	// Enough of them for the pools to have as many as the load usually needs.
	if err := visit(ctx, w.process, w.era, max(500, w.visits/4)); err != nil {
		return err
	}
	for range attempts {
		_, err := atRest(ctx, w.process)
		if err != nil {
			return err
		}
		if w.before, err = b.cooled(ctx, w.process); err != nil {
			return err
		}
		if err := visit(ctx, w.process, w.era, w.visits); err != nil {
			return err
		}
		small := func(r reading) bool { return b.short || float64(r.RSS) <= 1.1*float64(w.before.RSS) }
		w.after, err = until(ctx, w.process, b.patience(), func(r reading) bool { return !w.grew(r) && small(r) })
		if err != nil || !w.grew(w.after) {
			return err
		}
	}
	return nil
}

// grew reports whether the process has more goroutines or descriptors than before.
func (w *growth) grew(r reading) bool {
	return r.Goroutines > w.before.Goroutines || r.Descriptors > w.before.Descriptors
}

// putGrowth stores the growth.
func (b *bench) putGrowth(t *report.Table, w *growth) {
	prefix := "growth/" + w.what + "/" + string(w.era) + "/"
	ratio := stats.Of(float64(w.after.RSS) / float64(w.before.RSS))
	b.found.Set(prefix+"rss", ratio)
	b.found.Set(prefix+"goroutines", stats.Of(float64(w.after.Goroutines-w.before.Goroutines)))
	b.found.Set(prefix+"descriptors", stats.Of(float64(w.after.Descriptors-w.before.Descriptors)))
	mib := func(bytes uint64) string { return marks.Number(float64(bytes) / (1 << 20)) }
	t.Add(w.what, mib(w.before.RSS), mib(w.after.RSS), marks.Number(ratio.Median),
		fmt.Sprint(w.before.Goroutines), fmt.Sprint(w.after.Goroutines), fmt.Sprint(w.before.Descriptors), fmt.Sprint(w.after.Descriptors))
}

// patience is how long a process may take to return to its former size.
func (b *bench) patience() time.Duration {
	if b.short {
		return 40 * time.Second
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

// callsOfVisit is the number of calls per visit.
const callsOfVisit = 2

// visit makes n visits, in the legacy era each in a session of its own.
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
