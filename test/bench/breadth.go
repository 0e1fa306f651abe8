// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/plot"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// breadth is a measurement of the same small call beside more and more of something
// that it does not need: its cost has to stay the same.
type breadth struct {
	group, what string
	sizes       []int
	// base is the measure that holds a size against the first: "cpu-1", say.
	base string
	// entrant opens the way of a cell with so much of it.
	entrant func(ctx context.Context, size int, client, backend canned.Era) (*entrant, error)
}

// measure measures all sizes in turns, cell by cell.
func (m breadth) measure(ctx context.Context, b *bench, a amount) error {
	t := b.table(m.group, "tools/call of 100 B beside many "+m.what, "All with 8 clients, whose calls are spread over what there is; against the first is the CPU in the same rounds.",
		m.what+", cell", "CPU s per 1000", "against the first", "calls/s", "p50 us", "p99 us", "p99.9 us", "allocations", "peak MiB", "errors")
	for _, client := range eras() {
		for _, backend := range eras() {
			if err := m.cell(ctx, b, a, client, backend); err != nil {
				return err
			}
		}
	}
	for _, client := range eras() {
		for _, backend := range eras() {
			m.rows(b, t, cellName(client, backend))
		}
	}
	m.plot(b)
	return nil
}

func (m breadth) cell(ctx context.Context, b *bench, a amount, client, backend canned.Era) error {
	var entrants []*entrant
	defer func() { leave(entrants) }()
	for _, size := range m.sizes {
		e, err := m.entrant(ctx, size, client, backend)
		if err != nil {
			return fmt.Errorf("%d %s: %w", size, m.what, err)
		}
		e.name = strconv.Itoa(size)
		entrants = append(entrants, e)
	}
	cell := cellName(client, backend)
	return b.attempt(m.group+"/*/"+cell+"/*", func(n int) error {
		got, err := rounds(ctx, entrants, n, a)
		if err != nil {
			return err
		}
		for _, e := range entrants {
			prefix := m.group + "/" + e.name + "/" + cell
			b.put(prefix, got[e.name])
			b.found.Set(prefix+"/"+m.base, stats.Ratio(got[e.name], got[entrants[0].name], cpuOf))
		}
		return nil
	})
}

func (m breadth) rows(b *bench, t *report.Table, cell string) {
	for _, size := range m.sizes {
		b.row(t, fmt.Sprintf("%d, %s", size, cell), fmt.Sprintf("%s/%d/%s", m.group, size, cell),
			"cpu", m.base, "rate", "p50", "p99", "p999", "allocs", "peak", "errors")
	}
}

func (m breadth) plot(b *bench) {
	p := plot.Plot{Title: "CPU of a tools/call of 100 B against the number of " + m.what, X: m.what, Y: "CPU s per 1000 calls", Label: m.label}
	for _, client := range eras() {
		for _, backend := range eras() {
			l := plot.Line{Name: cellName(client, backend)}
			for _, size := range m.sizes {
				// A logarithmic axis has no place for none, which stands where one would.
				b.point(&l, float64(max(1, size)), fmt.Sprintf("%s/%d/%s/cpu", m.group, size, l.Name))
			}
			p.Lines = append(p.Lines, l)
		}
	}
	b.draw(m.group, p)
}

// label writes a size below the plot.
func (m breadth) label(x float64) string {
	if x == 1 {
		return strconv.Itoa(m.sizes[0])
	}
	return strconv.Itoa(int(x))
}

// measureBackends measures calls that are spread over many backends.
func (b *bench) measureBackends(ctx context.Context, g *rig) error {
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return err
	}
	gateways := make(map[string]*proc.Process)
	m := breadth{group: "backends", what: "backends", sizes: []int{1, 20, 200}, base: "cpu-1"}
	m.entrant = func(ctx context.Context, size int, client, behind canned.Era) (*entrant, error) {
		p, err := once(gateways, fmt.Sprint(size, behind), func() (*proc.Process, error) {
			return g.gateway(ctx, overHTTP(backend.Address, size, canned.Setup{Era: behind, Tools: defaultTools}), size*defaultTools)
		})
		if err != nil {
			return nil, err
		}
		return enterSpread(ctx, p, client, size)
	}
	return m.measure(ctx, b, b.amount(amount{many: 8000}))
}

// once makes what a map does not have yet.
func once[T any](have map[string]T, key string, build func() (T, error)) (T, error) {
	if v, ok := have[key]; ok {
		return v, nil
	}
	v, err := build()
	if err == nil {
		have[key] = v
	}
	return v, err
}

// enterSpread makes an entrant whose clients have the backends shared out among
// them, each calling one of its own after the other.
func enterSpread(ctx context.Context, p *proc.Process, era canned.Era, backends int) (*entrant, error) {
	return newEntrant(ctx, "", p, func(i int) (*load.Client, error) {
		c, err := load.NewClient(ctx, target(p, era, ""), load.ToolCall(toolAt(i%backends, "text_100"), false), judgeText("text_100"))
		if err != nil {
			return nil, err
		}
		c.TakeTurns()
		for at := i + clients; at < backends; at += clients {
			if err := c.Add(ctx, load.ToolCall(toolAt(at, "text_100"), false), judgeText("text_100")); err != nil {
				c.Close(ctx)
				return nil, err
			}
		}
		return c, nil
	})
}

// measureTools measures calls of a backend that has many tools.
func (b *bench) measureTools(ctx context.Context, g *rig) error {
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return err
	}
	gateways := make(map[string]*proc.Process)
	m := breadth{group: "tools", what: "tools", sizes: []int{10, 100, 1000}, base: "cpu-10"}
	m.entrant = func(ctx context.Context, size int, client, behind canned.Era) (*entrant, error) {
		p, err := once(gateways, fmt.Sprint(size, behind), func() (*proc.Process, error) {
			return g.gateway(ctx, overHTTP(backend.Address, 1, canned.Setup{Era: behind, Tools: size}), size)
		})
		if err != nil {
			return nil, err
		}
		return enterSpread(ctx, p, client, 1)
	}
	return m.measure(ctx, b, b.amount(amount{many: 8000}))
}

// measureBeside measures calls beside sessions in which nothing happens.
func (b *bench) measureBeside(ctx context.Context, g *rig) error {
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return err
	}
	sizes := []int{0, 1000, 10000}
	if b.short {
		sizes = []int{0, 5000}
	}
	gateways := make(map[string]*proc.Process)
	m := breadth{group: "beside", what: "sessions", sizes: sizes, base: "cpu-0"}
	m.entrant = func(ctx context.Context, size int, client, behind canned.Era) (*entrant, error) {
		p, err := once(gateways, fmt.Sprint(size, behind), func() (*proc.Process, error) {
			p, err := g.gateway(ctx, overHTTP(backend.Address, 1, canned.Setup{Era: behind, Tools: defaultTools}), defaultTools)
			if err != nil {
				return nil, err
			}
			_, err = openSessions(ctx, target(p, canned.Legacy, ""), size)
			return p, err
		})
		if err != nil {
			return nil, err
		}
		return enterSpread(ctx, p, client, 1)
	}
	return m.measure(ctx, b, b.amount(amount{many: 8000}))
}
