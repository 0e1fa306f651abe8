// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// dial opens the connections of several clients.
func dial(ctx context.Context, t load.Target, n int) ([]*load.Conn, func(), error) {
	var conns []*load.Conn
	hang := func() {
		for _, c := range conns {
			c.Close()
		}
	}
	host, err := t.Host()
	for range n {
		var c *load.Conn
		if err == nil {
			c, err = load.Dial(ctx, host, t.Local)
		}
		if err != nil {
			hang()
			return nil, nil, err
		}
		conns = append(conns, c)
	}
	return conns, hang, nil
}

// openSessions opens n legacy sessions, which stay open, and returns their ids, oldest
// first apart from the order among parallel clients.
func openSessions(ctx context.Context, t load.Target, n int) ([]string, error) {
	conns, hang, err := dial(ctx, t, clients)
	if err != nil {
		return nil, err
	}
	defer hang()
	ids := make(chan string, n)
	var callers []load.Caller
	for _, conn := range conns {
		callers = append(callers, load.CallerFunc(func(ctx context.Context) error {
			id, err := load.OpenSession(ctx, conn, t)
			if err == nil {
				ids <- id
			}
			return err
		}))
	}
	if r := load.Run(ctx, callers, n); r.Errors > 0 {
		return nil, fmt.Errorf("%d of %d sessions did not open: %w", r.Errors, n, r.First)
	}
	close(ids)
	opened := make([]string, 0, n)
	for id := range ids {
		opened = append(opened, id)
	}
	return opened, ctx.Err()
}

// opening is a way to open and end sessions.
type opening struct {
	name    string
	process *proc.Process
	target  load.Target
}

// round opens n sessions and ends them.
func (o opening) round(ctx context.Context, n int) (open, end sample, err error) {
	conns, hang, err := dial(ctx, o.target, clients)
	if err != nil {
		return open, end, err
	}
	defer hang()
	openers := &entrant{name: o.name, process: o.process}
	var made []*load.Opener
	for _, conn := range conns {
		opener, err := load.NewOpener(conn, o.target)
		if err != nil {
			return open, end, err
		}
		made = append(made, opener)
		openers.callers = append(openers.callers, opener)
	}
	if open, err = openers.measure(ctx, amount{many: n}); err != nil {
		return open, end, err
	}
	ids := make(chan string, n)
	for _, opener := range made {
		for _, id := range opener.Sessions {
			ids <- id
		}
	}
	enders := &entrant{name: o.name, process: o.process}
	for _, conn := range conns {
		enders.callers = append(enders.callers, load.CallerFunc(func(ctx context.Context) error {
			return load.CloseSession(ctx, conn, o.target, <-ids)
		}))
	}
	end, err = enders.measure(ctx, amount{many: len(ids)})
	return open, end, err
}

// measureSessions measures opening and ending sessions.
func (b *bench) measureSessions(ctx context.Context, g *rig) error {
	ways, err := openings(ctx, g)
	if err != nil {
		return err
	}
	// Less than limits.sessions, at which the oldest sessions are evicted.
	n := b.calls(8000)
	err = b.attempt("sessions/*/*/*", func(times int) error { return b.openAndEnd(ctx, ways, n, times) })
	if err != nil {
		return err
	}
	t := b.table("sessions", "Opening and ending sessions",
		"initialize with 8 clients, then DELETE; times are of all clients. mint is a bare handler on net/http that creates an id and keeps nothing; RP forwards both to the canned backend.",
		"backends, request", "CPU s per 1000", "against 1 backend", "requests/s", "x mint", "p50 us", "p99 us", "p99.9 us", "allocations", "peak MiB", "errors")
	for _, what := range []string{"initialize", "DELETE"} {
		for _, w := range ways {
			b.row(t, w.name+", "+what, "sessions/"+w.name+"/"+what, "cpu", "cpu-1", "rate", "rate-mint", "p50", "p99", "p999", "allocs", "peak", "errors")
		}
	}
	return nil
}

// openings returns the ways that are compared.
func openings(ctx context.Context, g *rig) ([]opening, error) {
	mint, err := g.start(ctx, "mint")
	if err != nil {
		return nil, err
	}
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return nil, err
	}
	proxy, err := g.start(ctx, "proxy", "-to", backend.Address+"/mcp?"+canned.Setup{}.Query())
	if err != nil {
		return nil, err
	}
	ways := []opening{
		{"mint", mint, target(mint, canned.Legacy, "x")}, {"RP", proxy, target(proxy, canned.Legacy, "x")},
	}
	for _, n := range []int{1, 5, 20} {
		p, err := g.gateway(ctx, overHTTP(backend.Address, n, canned.Setup{Era: canned.Legacy, Tools: defaultTools}), n*defaultTools)
		if err != nil {
			return nil, err
		}
		ways = append(ways, opening{strconv.Itoa(n) + " backends", p, target(p, canned.Legacy, "")})
	}
	return ways, nil
}

func (b *bench) openAndEnd(ctx context.Context, ways []opening, n, times int) error {
	opened, ended := make(map[string][]sample), make(map[string][]sample)
	for i := range times + 1 {
		for j := range ways {
			w := ways[(i+j)%len(ways)]
			open, end, err := w.round(ctx, n)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if i > 0 { // the first round is warm-up
				opened[w.name] = append(opened[w.name], open)
				ended[w.name] = append(ended[w.name], end)
			}
		}
	}
	for _, w := range ways {
		for what, all := range map[string]map[string][]sample{"initialize": opened, "DELETE": ended} {
			prefix := "sessions/" + w.name + "/" + what
			b.put(prefix, all[w.name])
			if w.name == "mint" || w.name == "RP" {
				continue
			}
			b.found.Set(prefix+"/rate-mint", stats.Ratio(all[w.name], all["mint"], func(s sample) float64 { return s.rate }))
			b.found.Set(prefix+"/cpu-1", stats.Ratio(all[w.name], all["1 backends"], cpuOf))
		}
	}
	return nil
}
