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
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// idleGroup is a number of idle sessions.
type idleGroup struct {
	sessions int
	wanted   int // more than sessions if the machine does not allow them
	who      string

	process *proc.Process
	ids     []string
	open    []interface{ Close() }
	before  reading
	live    float64
}

// The kinds of groups.
const (
	silent    = "without a stream"
	listening = "with its stream"
	sharing   = "with its stream, of shared connections" // HTTP/2
)

func (c *idleGroup) prefix() string { return fmt.Sprintf("idle/%d sessions/%s", c.sessions, c.who) }

// projection returns the prefix of the keys for the projected number of sessions.
func (c *idleGroup) projection() string {
	return fmt.Sprintf("idle/%d sessions projected/%s", c.wanted, c.who)
}

// descriptors returns the descriptors needed in the gateway, and the same number in this
// process.
func (c *idleGroup) descriptors() int {
	switch c.who {
	case listening:
		return c.sessions
	case sharing:
		return c.sessions / perConnection
	default:
		return 0
	}
}

// perConnection is the minimum number of streams on an HTTP/2 connection.
const perConnection = 200

// spare is the number of descriptors that a process needs besides those of streams.
const spare = 500

// idleGroups returns the groups to measure. If the machine has too few descriptors for the
// streams, their number is reduced.
func (b *bench) idleGroups(t *report.Table) []*idleGroup {
	sizes := []int{1000, 10_000, 100_000}
	if b.short {
		sizes = []int{5000}
	}
	var all []*idleGroup
	for _, who := range []string{silent, sharing, listening} {
		for _, n := range sizes {
			n = b.share(n)
			c := &idleGroup{sessions: n, wanted: n, who: who}
			if most := b.descriptors - spare; c.descriptors() > most {
				t.Remark("%d sessions with their streams, with one connection each, need as many descriptors and %d more in the gateway and in the load generator; this machine allows %d, so there are %d. "+
					"The resident memory of %[1]d is projected: the memory before, plus that of one of these for each of them.",
					n, spare, b.descriptors, most)
				c.sessions = most
			}
			all = append(all, c)
		}
	}
	return all
}

// measureIdle measures the cost of idle sessions.
func (b *bench) measureIdle(ctx context.Context, g *rig) error {
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return err
	}
	t := b.table("idle", "Idle sessions",
		"The increase of the gateway's memory, goroutines and descriptors, per session; all resident is its memory with them. Live is heap and stacks after a collection, resident is counted by the system once the process has returned unused memory. "+
			"Serves is 1 if the oldest and the newest session answered a call after that.",
		"sessions", "live KiB", "resident KiB", "goroutines", "descriptors", "all resident, MiB", "serves")
	all := b.idleGroups(t)
	for _, c := range all {
		if err := c.start(ctx, g, backend); err != nil {
			return err
		}
	}
	if err := sideBySide(all, func(c *idleGroup) error { return b.settle(ctx, c) }); err != nil {
		return err
	}
	for left := all; len(left) > 0; {
		var wave []*idleGroup
		wave, left = b.wave(left)
		if err := b.measureWave(ctx, g, wave); err != nil {
			return err
		}
	}
	for _, c := range all {
		values := []string{"live", "rss", "goroutines", "descriptors", "total", "serves"}
		b.row(t, fmt.Sprintf("%d, each %s", c.sessions, c.who), c.prefix(), values...)
		if c.wanted > c.sessions {
			b.row(t, fmt.Sprintf("%d, each %s, projected", c.wanted, c.who), c.projection(), values...)
		}
	}
	b.plotIdle(all)
	t.Remark("Shared connections are HTTP/2 connections with up to 250 streams each. The gateway accepts HTTP/2 with prior knowledge, for example from a proxy in front of it.")
	t.Remark("More sessions than limits.sessions allows (20,000) are measured with that limit raised; everything else is as shipped.")
	return nil
}

// wave takes as many groups as this process has descriptors for at a time. They cool down
// in parallel.
func (b *bench) wave(left []*idleGroup) (wave, rest []*idleGroup) {
	need := 0
	for i, c := range left {
		if need += c.descriptors(); i > 0 && need > b.descriptors-spare {
			return left[:i], left[i:]
		}
	}
	return left, nil
}

func (b *bench) measureWave(ctx context.Context, g *rig, wave []*idleGroup) error {
	for _, step := range []func(*idleGroup) error{
		func(c *idleGroup) error { return c.fill(ctx) },
		func(c *idleGroup) error { return b.count(ctx, c) },
		func(c *idleGroup) error { return b.weigh(ctx, c) },
	} {
		if err := sideBySide(wave, step); err != nil {
			return err
		}
	}
	for _, c := range wave {
		for _, s := range c.open {
			s.Close()
		}
		if err := g.end(c.process); err != nil {
			return err
		}
	}
	return nil
}

// start starts the gateway of the group.
func (c *idleGroup) start(ctx context.Context, g *rig, backend *proc.Process) error {
	cfg := overHTTP(backend.Address, 1, canned.Setup{Era: canned.Modern, Tools: defaultTools})
	if c.sessions > 15_000 {
		cfg.Limits = map[string]int{"sessions": c.sessions + 1000}
	}
	var err error
	c.process, err = g.gateway(ctx, cfg, defaultTools)
	return err
}

// settle measures the gateway before the group opens its sessions.
func (b *bench) settle(ctx context.Context, c *idleGroup) error {
	// What the first sessions allocate once is not counted as theirs.
	t := target(c.process, canned.Legacy, "")
	warm, err := enter(ctx, "warm", c.process, t, load.ToolCall(toolAt(0, "text_100"), false), judgeText("text_100"))
	if err != nil {
		return err
	}
	load.Run(ctx, warm.callers, 2000)
	warm.close()
	if c.live, err = settled(ctx, c.process, canned.Legacy); err != nil {
		return err
	}
	c.before, err = b.cooled(ctx, c.process)
	return err
}

// perAddress is the number of connections from one loopback address, which has some 28,000
// ports.
const perAddress = 20_000

// fill opens the sessions and their streams.
func (c *idleGroup) fill(ctx context.Context) error {
	t := target(c.process, canned.Legacy, "")
	var err error
	if c.ids, err = openSessions(ctx, t, c.sessions); err != nil || c.who == silent {
		return err
	}
	if c.who == sharing {
		return c.share(ctx, t)
	}
	for i, id := range c.ids {
		t.Local = fmt.Sprintf("127.0.0.%d", 2+i/perAddress)
		s, err := load.OpenStream(ctx, t, id)
		if err != nil {
			return fmt.Errorf("stream %d: %w", i+1, err)
		}
		c.open = append(c.open, s)
	}
	return nil
}

// share opens the streams on as few connections as possible.
func (c *idleGroup) share(ctx context.Context, t load.Target) error {
	s := load.NewShared(t)
	c.open = append(c.open, s)
	for i, id := range c.ids {
		if err := s.Open(ctx, id); err != nil {
			return fmt.Errorf("stream %d: %w", i+1, err)
		}
	}
	return nil
}

// count measures the gateway with the group, after it has cooled down.
func (b *bench) count(ctx context.Context, c *idleGroup) error {
	after, err := b.cooled(ctx, c.process)
	if err != nil {
		return err
	}
	n := float64(c.sessions)
	// Before weigh, which makes calls.
	each := (float64(after.RSS) - float64(c.before.RSS)) / n
	b.found.Set(c.prefix()+"/rss", stats.Of(each/1024))
	b.found.Set(c.prefix()+"/total", stats.Of(float64(after.RSS)/(1<<20)))
	if c.wanted > c.sessions {
		b.found.Set(c.projection()+"/total", stats.Of((float64(c.before.RSS)+each*float64(c.wanted))/(1<<20)))
	}
	b.found.Set(c.prefix()+"/goroutines", stats.Of(float64(after.Goroutines-c.before.Goroutines)/n))
	b.found.Set(c.prefix()+"/descriptors", stats.Of(float64(after.Descriptors-c.before.Descriptors)/n))
	return nil
}

// weigh measures the live memory, and checks that the oldest and the newest session serve.
func (b *bench) weigh(ctx context.Context, c *idleGroup) error {
	serves := 1.0
	for _, id := range []string{c.ids[0], c.ids[len(c.ids)-1]} {
		t := target(c.process, canned.Legacy, "")
		client, err := load.Resume(ctx, t, id, load.ToolCall(toolAt(0, "text_100"), false), judgeText("text_100"))
		if err != nil {
			b.printf("%s: a session does not serve: %v", c.prefix(), err)
			serves = 0
			continue
		}
		client.Leave()
	}
	b.found.Set(c.prefix()+"/serves", stats.Of(serves))
	now, err := live(ctx, c.process, canned.Legacy)
	if err != nil {
		return err
	}
	b.found.Set(c.prefix()+"/live", stats.Of((now-c.live)/float64(c.sessions)/1024))
	return nil
}

func (b *bench) plotIdle(all []*idleGroup) {
	p := plot.Plot{Title: "Memory of an idle session against the number of sessions", X: "sessions", Y: "KiB of a session"}
	for _, who := range []string{silent, sharing, listening} {
		for _, what := range []struct{ name, value string }{{"live", "live"}, {"resident", "rss"}} {
			l := plot.Line{Name: who + ", " + what.name}
			for _, c := range all {
				if c.who == who {
					b.point(&l, float64(c.sessions), c.prefix()+"/"+what.value)
				}
			}
			p.Lines = append(p.Lines, l)
		}
	}
	b.draw("idle", p)
}

// sideBySide calls do for all in parallel and returns the first error.
func sideBySide[T any](all []T, do func(T) error) error {
	errs := make(chan error, len(all))
	for _, one := range all {
		// Ends with do; the receives below wait for it.
		go func() { errs <- do(one) }()
	}
	var first error
	for range all {
		first = firstOf(first, <-errs)
	}
	return first
}

// measureFlight measures the memory of results that clients do not read yet.
func (b *bench) measureFlight(ctx context.Context, g *rig) error {
	s, err := openChain(ctx, g, canned.Setup{Tools: defaultTools})
	if err != nil {
		return err
	}
	t := b.table("flight", "Results in flight", fmt.Sprintf("%d results of 8 MiB each, and clients that have read only the header: the increase of the gateway's heap, per result. "+
		"The content of the system's buffers belongs to no process.", flights), "cell", "live KiB")
	for _, client := range eras() {
		for _, backend := range eras() {
			cell := cellName(client, backend)
			each, err := inFlight(ctx, s.gateways[backend], client)
			if err != nil {
				return fmt.Errorf("%s: %w", cell, err)
			}
			b.found.Set("flight/8 MiB/"+cell+"/live", stats.Of(each/1024))
			t.Add(cell, marks.Number(each/1024))
		}
	}
	return nil
}

// flights is the number of results in flight.
const flights = 8

// inFlight returns the bytes per result in flight.
func inFlight(ctx context.Context, p *proc.Process, era canned.Era) (float64, error) {
	const tool = "text_8388608"
	var all []*load.Client
	defer func() {
		for _, c := range all {
			c.Close(ctx)
		}
	}()
	for range flights {
		c, err := load.NewClient(ctx, target(p, era, ""), load.ToolCall(toolAt(0, tool), false), judgeText(tool))
		if err != nil {
			return 0, err
		}
		all = append(all, c)
	}
	before, err := settled(ctx, p, era)
	if err != nil {
		return 0, err
	}
	if err := sideBySide(all, func(c *load.Client) error { return c.Begin(ctx) }); err != nil {
		return 0, err
	}
	during, err := live(ctx, p, era)
	if err != nil {
		return 0, err
	}
	return (during - before) / flights, sideBySide(all, (*load.Client).Finish)
}
