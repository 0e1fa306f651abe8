// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
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

// breadth measures the same small call beside a growing number of things that it does not
// need. Its cost must stay the same.
type breadth struct {
	group, what string
	remark      string // on additional variants
	sizes       []int
	// more are additional variants, measured and not drawn.
	more []variant
	// base is the name of the ratio of a size to the first: for example "cpu-1".
	base string
	// entrant opens the way of a pair of eras with one variant, in front of a process that
	// has all backends.
	entrant func(ctx context.Context, w *stage, v variant, client, backend canned.Era) (*entrant, error)
}

// variant is one of the things measured in turns.
type variant struct {
	name    string
	size    int
	alone   bool   // only the last of all is called
	proxied bool   // through the yardstick
	against string // the name of the variant for comparison; empty is the first
}

// stage has the processes of one start: a backend, and those in front of it.
type stage struct {
	*rig
	backend *proc.Process
	started map[string]*proc.Process
}

// once starts a process unless it is running already.
func (w *stage) once(key string, start func() (*proc.Process, error)) (*proc.Process, error) {
	if p, ok := w.started[key]; ok {
		return p, nil
	}
	p, err := start()
	if err == nil {
		w.started[key] = p
	}
	return p, err
}

func (m breadth) variants() []variant {
	var all []variant
	for _, size := range m.sizes {
		all = append(all, variant{name: strconv.Itoa(size), size: size})
	}
	return append(all, m.more...)
}

// measure measures all sizes in turns, for each pair of eras.
func (m breadth) measure(ctx context.Context, b *bench, a amount) error {
	t := b.table(m.group, "tools/call of 100 B beside many "+m.what, "All with 8 clients that spread their calls over what exists; against the first is the CPU in the same rounds."+m.remark,
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
	open := func(ctx context.Context, g *rig) ([]*entrant, error) { return m.open(ctx, g, client, backend) }
	first, cell := m.variants()[0].name, cellName(client, backend)
	return b.attempt(m.group+"/*/"+cell+"/*", func(n int) error {
		got, err := b.measure(ctx, open, n, a)
		if err != nil {
			return err
		}
		for _, v := range m.variants() {
			prefix := m.group + "/" + v.name + "/" + cell
			b.put(prefix, got[v.name])
			b.found.Set(prefix+"/"+m.base, stats.Ratio(got[v.name], got[cmp.Or(v.against, first)], cpuOf))
			if v.proxied && v.against != v.name {
				size := strconv.Itoa(v.size)
				ours, theirs := dearer(got[size], got[first]), dearer(got[v.name], got[v.against])
				b.found.Set(m.group+"/"+size+"/"+cell+"/"+m.base+"-rp", stats.Ratio(ours, theirs, func(x float64) float64 { return x }))
			}
		}
		return nil
	})
}

// open starts the processes of a pair of eras, and opens the ways of all sizes.
func (m breadth) open(ctx context.Context, g *rig, client, behind canned.Era) ([]*entrant, error) {
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return nil, err
	}
	w := &stage{g, backend, make(map[string]*proc.Process)}
	var entrants []*entrant
	for _, v := range m.variants() {
		e, err := m.entrant(ctx, w, v, client, behind)
		if err != nil {
			return entrants, fmt.Errorf("%s %s: %w", v.name, m.what, err)
		}
		e.name = v.name
		entrants = append(entrants, e)
	}
	return entrants, nil
}

// dearer returns the ratio of the cost of a call in the second to that in the first, round
// by round.
func dearer(to, from []sample) (x []float64) {
	for i := range min(len(to), len(from)) {
		x = append(x, to[i].cpu/from[i].cpu)
	}
	return x
}

func (m breadth) rows(b *bench, t *report.Table, cell string) {
	for _, v := range m.variants() {
		b.row(t, v.name+", "+cell, m.group+"/"+v.name+"/"+cell,
			"cpu", m.base, "rate", "p50", "p99", "p999", "allocs", "peak", "errors")
	}
}

func (m breadth) plot(b *bench) {
	p := plot.Plot{Title: "CPU of a tools/call of 100 B against the number of " + m.what, X: m.what, Y: "CPU s per 1000 calls", Label: m.label}
	for _, client := range eras() {
		for _, backend := range eras() {
			l := plot.Line{Name: cellName(client, backend)}
			for _, size := range m.sizes {
				// A logarithmic axis has no zero; it is drawn in the place of one.
				b.point(&l, float64(max(1, size)), fmt.Sprintf("%s/%d/%s/cpu", m.group, size, l.Name))
			}
			p.Lines = append(p.Lines, l)
		}
	}
	b.draw(m.group, p)
}

// label formats a size for the axis.
func (m breadth) label(x float64) string {
	if x == 1 {
		return strconv.Itoa(m.sizes[0])
	}
	return strconv.Itoa(int(x))
}

// measureBackends measures calls that are spread over many backends, and calls of one
// beside many. Spread calls use more connections, each less often; so do those of the
// yardstick.
func (b *bench) measureBackends(ctx context.Context, _ *rig) error {
	m := breadth{group: "backends", what: "backends", sizes: []int{1, 20, 200}, base: "cpu-1", remark: " RP reaches the backend through as many transports, in turns, and is compared with itself with one.", more: []variant{
		{name: "one of 200", size: 200, alone: true},
		{name: "1 by RP", size: 1, proxied: true, against: "1 by RP"},
		{name: "200 by RP", size: 200, proxied: true, against: "1 by RP"},
	}}
	m.entrant = func(ctx context.Context, w *stage, v variant, client, behind canned.Era) (*entrant, error) {
		if v.proxied {
			behind = "" // the backend supports both
		}
		setup := canned.Setup{Era: behind, Tools: defaultTools}
		p, err := w.once(fmt.Sprint(v.size, behind), func() (*proc.Process, error) {
			if v.proxied {
				return w.start(ctx, "proxy", "-ways", strconv.Itoa(v.size), "-to", w.backend.Address+"/mcp?"+setup.Query())
			}
			return w.gateway(ctx, overHTTP(w.backend.Address, v.size, setup), v.size*defaultTools)
		})
		switch {
		case err != nil:
			return nil, err
		case v.proxied:
			return enter(ctx, "", p, target(p, client, "x"), load.ToolCall("text_100", false), judgeText("text_100"))
		case v.alone:
			return enter(ctx, "", p, target(p, client, ""), load.ToolCall(toolAt(v.size-1, "text_100"), false), judgeText("text_100"))
		default:
			return enterSpread(ctx, p, client, v.size)
		}
	}
	return m.measure(ctx, b, b.amount(amount{many: 8000}))
}

// enterSpread makes an entrant with clients that divide the backends among them. Each client
// calls its own backends in turn.
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

// measureTools measures calls of a backend with many tools.
func (b *bench) measureTools(ctx context.Context, _ *rig) error {
	m := breadth{group: "tools", what: "tools", sizes: []int{10, 100, 1000}, base: "cpu-10"}
	m.entrant = func(ctx context.Context, w *stage, v variant, client, behind canned.Era) (*entrant, error) {
		p, err := w.gateway(ctx, overHTTP(w.backend.Address, 1, canned.Setup{Era: behind, Tools: v.size}), v.size)
		if err != nil {
			return nil, err
		}
		return enterSpread(ctx, p, client, 1)
	}
	return m.measure(ctx, b, b.amount(amount{many: 8000}))
}

// measureBeside measures calls beside idle sessions.
func (b *bench) measureBeside(ctx context.Context, _ *rig) error {
	sizes := []int{0, 1000, 10000}
	if b.short {
		sizes = []int{0, 5000}
	}
	m := breadth{group: "beside", what: "sessions", sizes: sizes, base: "cpu-0"}
	m.entrant = func(ctx context.Context, w *stage, v variant, client, behind canned.Era) (*entrant, error) {
		p, err := w.gateway(ctx, overHTTP(w.backend.Address, 1, canned.Setup{Era: behind, Tools: defaultTools}), defaultTools)
		if err != nil {
			return nil, err
		}
		if _, err := openSessions(ctx, target(p, canned.Legacy, ""), v.size); err != nil {
			return nil, err
		}
		return enterSpread(ctx, p, client, 1)
	}
	return m.measure(ctx, b, b.amount(amount{many: 8000}))
}
