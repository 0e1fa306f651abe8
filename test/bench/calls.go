// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/plot"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
)

// clients is the number of clients, except where one alone is measured.
const clients = 8

// eras returns both eras.
func eras() []canned.Era { return []canned.Era{canned.Legacy, canned.Modern} }

// payload is a tool with a result of a given size.
type payload struct {
	name, tool string
	size       int
	amount     amount
	plotted    bool // used for the plot only
}

// payloads returns the sizes of results, each with about one second of calls per start. One
// client alone makes so many calls that in total at least twenty are slower than the 99th
// percentile: fewer would be noise.
func payloads() []payload {
	return []payload{
		{name: "100 B", tool: "text_100", size: 100, amount: amount{12000, 2000}},
		{name: "1 KiB", tool: "text_1024", size: 1 << 10, amount: amount{many: 6000}, plotted: true},
		{name: "10 KiB", tool: "text_10240", size: 10 << 10, amount: amount{6000, 2000}},
		{name: "100 KiB", tool: "text_102400", size: 100 << 10, amount: amount{many: 1500}, plotted: true},
		{name: "1 MiB", tool: "text_1048576", size: 1 << 20, amount: amount{3600, 400}},
	}
}

// amount scales an amount by the options. The short form judges no times and therefore has
// no client alone.
func (b *bench) amount(a amount) amount {
	switch {
	case b.short:
		a.one = 0
	case a.one > 0:
		a.one = b.calls(a.one)
	}
	a.many = max(clients, b.calls(a.many))
	return a
}

// fewer is enough if no mark is about the slowest calls.
func (a amount) fewer() amount { return amount{a.many / 2, a.one / 4} }

// few is enough if there is no mark at all.
func (a amount) few() amount { return amount{a.many / 4, a.one / 4} }

// chain is a backend with everything in front of it.
type chain struct {
	backend, proxy, hop *proc.Process
	gateways            map[canned.Era]*proc.Process // by the era of the backend
}

// openChain starts a chain. All of its backends are one process.
func openChain(ctx context.Context, g *rig, setup canned.Setup) (*chain, error) {
	s := &chain{gateways: make(map[canned.Era]*proc.Process)}
	var err error
	if s.backend, err = g.start(ctx, "backend"); err != nil {
		return nil, err
	}
	behind := s.backend.Address + "/mcp?" + setup.Query()
	if s.proxy, err = g.start(ctx, "proxy", "-to", behind); err != nil {
		return nil, err
	}
	if s.hop, err = g.start(ctx, "hop", "-to", behind); err != nil {
		return nil, err
	}
	for _, era := range eras() {
		setup.Era = era
		if s.gateways[era], err = g.gateway(ctx, overHTTP(s.backend.Address, 1, setup), setup.Tools); err != nil {
			return nil, fmt.Errorf("gateway to a %s backend: %w", era, err)
		}
	}
	return s, nil
}

// target returns the target of calls to a process, in an era.
func target(p *proc.Process, era canned.Era, query string) load.Target {
	t := load.Target{URL: p.Address, Era: era}
	if query != "" {
		t.URL += "/mcp?" + query
	}
	return t
}

// enter makes an entrant with clients that all make the same call.
func enter(ctx context.Context, name string, p *proc.Process, t load.Target, call load.Call, judge load.Judge) (*entrant, error) {
	return newEntrant(ctx, name, p, func(int) (*load.Client, error) { return load.NewClient(ctx, t, call, judge) })
}

// cellName names a pair of eras.
func cellName(client, backend canned.Era) string { return string(client) + " to " + string(backend) }

// way is one way of calling a tool in a chain: the process, and the prefix of its tools.
type way struct {
	name   string
	p      *proc.Process
	t      load.Target
	prefix string
}

// ways returns all ways of a chain, for clients of an era. The direct way is needed for
// times, which the short form does not judge.
func (b *bench) ways(s *chain, era canned.Era, setup canned.Setup) []way {
	ways := []way{
		{name: "RP", p: s.proxy, t: target(s.proxy, era, "x")},
		{name: "hop", p: s.hop, t: target(s.hop, era, "x")},
	}
	for _, backend := range eras() {
		p := s.gateways[backend]
		ways = append(ways, way{cellName(era, backend), p, target(p, era, ""), toolAt(0, "")})
	}
	if b.short {
		return ways
	}
	return append(ways, way{name: "direct", p: s.backend, t: target(s.backend, era, setup.Query())})
}

// asked is the call that is made in a chain.
type asked struct {
	tool     string
	progress bool // requested
	text     int  // length of an additional argument, in bytes
}

// of returns the call for a tool with a prefix.
func (a asked) of(prefix string) load.Call {
	call := load.ToolCall(prefix+a.tool, a.progress)
	if a.text > 0 {
		return call.WithText(a.text)
	}
	return call
}

// enterChain starts a chain and makes entrants of all its ways.
func (b *bench) enterChain(ctx context.Context, g *rig, era canned.Era, call asked) ([]*entrant, error) {
	setup := canned.Setup{Tools: defaultTools}
	s, err := openChain(ctx, g, setup)
	if err != nil {
		return nil, err
	}
	var entrants []*entrant
	for _, w := range b.ways(s, era, setup) {
		if err := w.wearIn(ctx); err != nil {
			return entrants, err
		}
		e, err := enter(ctx, w.name, w.p, w.t, call.of(w.prefix), judgeText(call.tool))
		if err != nil {
			return entrants, err
		}
		entrants = append(entrants, e)
	}
	return entrants, nil
}

// wearIn makes some small calls. The first traffic of a connection affects for a long time
// how much the system accepts on it at once: on connections with nothing but large results,
// RP uses a third more CPU for each, and no proxy in use has such connections.
func (w way) wearIn(ctx context.Context) error {
	const tool, calls = "text_100", 50 * clients
	e, err := enter(ctx, w.name, w.p, w.t, load.ToolCall(w.prefix+tool, false), judgeText(tool))
	if err != nil {
		return err
	}
	defer e.close()
	if r := load.Run(ctx, e.callers, calls); r.Errors > 0 {
		return fmt.Errorf("%s: %w", w.name, r.First)
	}
	return nil
}

// leave closes entrants.
func leave(entrants []*entrant) {
	for _, e := range entrants {
		e.close()
	}
}

// alongChain measures one call on all ways, by clients of an era, and stores the values.
func (b *bench) alongChain(ctx context.Context, era canned.Era, group, thing string, call asked, a amount) error {
	open := func(ctx context.Context, g *rig) ([]*entrant, error) {
		return b.enterChain(ctx, g, era, call)
	}
	return b.attempt(group+"/"+thing+"/"+cellName(era, "*")+"/*", func(n int) error {
		got, err := b.measure(ctx, open, n, a)
		if err != nil {
			return err
		}
		prefix := group + "/" + thing + "/"
		for _, way := range []string{"direct", "RP", "hop"} {
			b.put(prefix+way+" "+string(era), got[way])
		}
		for _, backend := range eras() {
			cell := cellName(era, backend)
			b.put(prefix+cell, got[cell])
			b.compare(prefix+cell, got[cell], got["RP"], got["direct"])
			b.found.Set(prefix+cell+"/allocs-ours", beyond(got[cell], got["hop"]))
		}
		return nil
	})
}

// defaultTools is the number of tools of the backends in most groups.
const defaultTools = 10

// measureCalls measures calls with growing results, for all four pairs of eras.
func (b *bench) measureCalls(ctx context.Context, _ *rig) error {
	t := b.callTable("calls", "tools/call through one backend, JSON", "answer")
	for _, p := range payloads() {
		if p.plotted && b.short {
			continue
		}
		for _, era := range eras() {
			if err := b.alongChain(ctx, era, "calls", p.name, asked{tool: p.tool}, b.amount(p.amount)); err != nil {
				return err
			}
		}
		if !p.plotted {
			b.callRows(t, "calls", p.name)
		}
	}
	b.plotPayload()
	return nil
}

// measureRequests measures calls with growing arguments and small results.
func (b *bench) measureRequests(ctx context.Context, _ *rig) error {
	t := b.callTable("requests", "tools/call with large arguments, answers of 100 B", "arguments")
	for _, r := range []struct {
		name string
		size int
		amount
	}{{"10 KiB", 10 << 10, amount{6000, 800}}, {"100 KiB", 100 << 10, amount{2000, 400}}, {"1 MiB", 1 << 20, amount{480, 120}}} {
		for _, era := range eras() {
			if err := b.alongChain(ctx, era, "requests", r.name, asked{tool: "text_100", text: r.size}, b.amount(r.amount)); err != nil {
				return err
			}
		}
		b.callRows(t, "requests", r.name)
	}
	return nil
}

// callTable adds a table of calls in which one size grows.
func (b *bench) callTable(group, title, grows string) *report.Table {
	return b.table(group, title,
		fmt.Sprintf("CPU and calls/s with %d clients in a closed loop, times with one. RP is `httputil.ReverseProxy`; added is the difference to "+
			"the same call made directly. Allocations: all, and those beyond the minimum of net/http for a hop.", clients),
		grows+", cell", "CPU s per 1000", "CPU x RP", "calls/s", "x RP", "p50 us", "p99 us", "p99.9 us", "added p50 x RP", "added p99 x RP", "allocations", "ours", "peak MiB", "errors")
}

// callRows adds the rows of one size: the four pairs of eras, then the ones for comparison.
func (b *bench) callRows(t *report.Table, group, thing string) {
	var names []string
	for _, client := range eras() {
		for _, backend := range eras() {
			names = append(names, cellName(client, backend))
		}
	}
	for _, era := range eras() {
		for _, way := range []string{"RP", "direct"} {
			names = append(names, way+" "+string(era))
		}
	}
	for _, name := range names {
		b.row(t, thing+", "+name, group+"/"+thing+"/"+name, "cpu", "cpu-rp", "rate", "rate-rp", "p50", "p99", "p999", "added-p50-rp", "added-p99-rp", "allocs", "allocs-ours", "peak", "errors")
	}
}

// row adds a row of values. Missing values are empty.
func (b *bench) row(t *report.Table, title, prefix string, values ...string) {
	cells := []string{title}
	for _, v := range values {
		cell := ""
		if s, ok := b.found.Get(prefix + "/" + v); ok {
			cell = marks.Number(s.Median)
		}
		cells = append(cells, cell)
	}
	t.Add(cells...)
}

// plotPayload plots the cost of a call against the size of its result.
func (b *bench) plotPayload() {
	p := plot.Plot{Title: "CPU of a tools/call against the size of its answer", X: "answer", Y: "CPU s per 1000 calls", Label: byteLabel}
	for _, name := range []string{"RP legacy", "legacy to legacy", "legacy to modern", "modern to legacy", "modern to modern"} {
		l := plot.Line{Name: name}
		for _, size := range payloads() {
			b.point(&l, float64(size.size), "calls/"+size.name+"/"+name+"/cpu")
		}
		p.Lines = append(p.Lines, l)
	}
	b.draw("calls", p)
}

// point adds a point, if it was measured.
func (b *bench) point(l *plot.Line, x float64, key string) {
	if s, ok := b.found.Get(key); ok && s.Median > 0 {
		l.Points = append(l.Points, plot.Point{X: x, Y: s.Median})
	}
}

func byteLabel(x float64) string {
	switch {
	case x >= 1<<20:
		return fmt.Sprintf("%.0f MiB", x/(1<<20))
	case x >= 1<<10:
		return fmt.Sprintf("%.0f KiB", x/(1<<10))
	}
	return fmt.Sprintf("%.0f B", x)
}

// measureStreams measures calls with event streams as responses.
func (b *bench) measureStreams(ctx context.Context, _ *rig) error {
	t := b.table("streams", "tools/call, answers of 100 B as event streams after progress notifications",
		"As above. Delivered is the number of notifications that a client got per call: if they arrive faster than they can be written, newer ones replace older ones.",
		"notifications, cell", "CPU s per 1000", "CPU x RP", "calls/s", "x RP", "p50 us", "p99 us", "p99.9 us", "allocations", "peak MiB", "delivered", "errors")
	for _, m := range []struct {
		events int
		amount
	}{{0, amount{6000, 800}}, {5, amount{3000, 500}}, {100, amount{400, 100}}} {
		thing := fmt.Sprintf("%d events", m.events)
		for _, era := range eras() {
			call := asked{tool: fmt.Sprintf("sse_%d", m.events), progress: m.events > 0}
			if err := b.alongChain(ctx, era, "streams", thing, call, b.amount(m.amount)); err != nil {
				return err
			}
		}
		for _, name := range []string{"legacy to legacy", "legacy to modern", "modern to legacy", "modern to modern", "RP legacy", "RP modern", "direct legacy", "direct modern"} {
			b.row(t, thing+", "+name, "streams/"+thing+"/"+name, "cpu", "cpu-rp", "rate", "rate-rp", "p50", "p99", "p999", "allocs", "peak", "progress", "errors")
		}
	}
	return nil
}
