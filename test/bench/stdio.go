// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
)

// measureStdio measures calls through the gateway to a backend that it started itself,
// against calls to such a program without anything between: what a client has that
// starts its server. It may start the gateway in the server's place, or reach it over
// HTTP. The yardstick is a program in that place that copies what it reads.
func (b *bench) measureStdio(ctx context.Context, g *rig) error {
	t := b.table("stdio", "tools/call to a backend on stdio",
		"CPU and calls/s with 8 clients where they come over HTTP, and with one on a pipe, which has no more; times with one. Added is what comes on top of the same call on the pipes of a program that the client started itself. A relay is a program in Go that stands between the two and only copies.",
		"answer, cell", "CPU s per 1000", "calls/s", "p50 us", "p99 us", "p99.9 us", "added p50 us", "x relay", "allocations", "peak MiB", "errors")
	for _, backend := range eras() {
		conf := g.overStdio(canned.Setup{Era: backend, Tools: defaultTools})
		gateway, err := g.gateway(ctx, conf, defaultTools)
		if err != nil {
			return err
		}
		for _, client := range eras() {
			for _, p := range payloads() {
				if p.plotted {
					continue
				}
				if err := b.measurePipes(ctx, g, stdioWays{gateway, conf, client, backend}, p); err != nil {
					return err
				}
			}
		}
	}
	for _, p := range payloads() {
		if p.plotted {
			continue
		}
		for _, way := range []string{onPipes, overNet} {
			for _, client := range eras() {
				for _, backend := range eras() {
					b.stdioRow(t, p, cellName(client, backend)+way)
				}
			}
		}
		for _, era := range eras() {
			b.stdioRow(t, p, relayName(era))
			b.stdioRow(t, p, pipeName(era))
		}
	}
	return nil
}

// How a client reaches the gateway.
const (
	onPipes = ", on pipes"
	overNet = ", over HTTP"
)

func pipeName(era canned.Era) string { return "direct " + string(era) }

func relayName(era canned.Era) string { return "relay " + string(era) }

func (b *bench) stdioRow(t *report.Table, p payload, name string) {
	b.row(t, p.name+", "+name, "stdio/"+p.name+"/"+name, "cpu", "rate", "p50", "p99", "p999", "added-p50", "added-p50-rp", "allocs", "peak", "errors")
}

// stdioWays is who is called how: a gateway that listens, and what another is to be
// configured with that is started for one client.
type stdioWays struct {
	gateway         *proc.Process
	conf            config
	client, backend canned.Era
}

func (b *bench) measurePipes(ctx context.Context, g *rig, w stdioWays, p payload) error {
	var entrants []*entrant
	defer func() { leave(entrants) }()
	direct, err := enterDirectly(ctx, g, w.backend, p.tool)
	if err != nil {
		return err
	}
	entrants = append(entrants, direct)
	relay, err := enterRelay(ctx, g, w.backend, p.tool)
	if err != nil {
		return err
	}
	entrants = append(entrants, relay)
	file, err := g.write(w.conf)
	if err != nil {
		return err
	}
	call := load.ToolCall(toolAt(0, p.tool), false)
	piped, err := enterPipe(ctx, cellName(w.client, w.backend)+onPipes, w.client, call, judgeText(p.tool),
		g.program, "serve", "--stdio", "--config", file)
	if err != nil {
		return err
	}
	entrants = append(entrants, piped)
	over, err := enter(ctx, cellName(w.client, w.backend)+overNet, w.gateway, target(w.gateway, w.client, ""), call, judgeText(p.tool))
	if err != nil {
		return err
	}
	entrants = append(entrants, over)
	return b.attempt("stdio/"+p.name+"/"+cellName(w.client, w.backend)+",*/*", func(n int) error {
		got, err := rounds(ctx, entrants, n, b.amount(p.amount.fewer()))
		if err != nil {
			return err
		}
		for _, e := range entrants {
			b.put("stdio/"+p.name+"/"+e.name, got[e.name])
		}
		for _, e := range entrants[1:] {
			b.compare("stdio/"+p.name+"/"+e.name, got[e.name], got[relay.name], got[direct.name])
		}
		return nil
	})
}

// enterDirectly starts a backend for a client.
func enterDirectly(ctx context.Context, g *rig, era canned.Era, tool string) (*entrant, error) {
	return enterPipe(ctx, pipeName(era), era, load.ToolCall(tool, false), judgeText(tool),
		g.self, "backend", "-stdio", "-setup", canned.Setup{Era: era, Tools: defaultTools}.Query())
}

// enterRelay starts a backend for a client, with a relay between the two.
func enterRelay(ctx context.Context, g *rig, era canned.Era, tool string) (*entrant, error) {
	return enterPipe(ctx, relayName(era), era, load.ToolCall(tool, false), judgeText(tool),
		g.self, "relay", "-setup", canned.Setup{Era: era, Tools: defaultTools}.Query())
}

// enterPipe starts a program that serves on pipes of our own. It has one client, as such
// a program has, and nobody counts what it uses.
func enterPipe(ctx context.Context, name string, era canned.Era, call load.Call, judge load.Judge, program string, args ...string) (*entrant, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // it is this program, or the one that is measured
	cmd.WaitDelay = 10 * time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e := &entrant{name: name, close: func() { endPipe(cmd, in) }}
	p, err := load.NewPipe(in, out, era, call, judge)
	if err != nil {
		e.close()
		return nil, fmt.Errorf("%s: %w\n%s", name, err, &log)
	}
	e.callers = []load.Caller{p}
	return e, nil
}

// endPipe ends a program by the end of its input.
func endPipe(cmd *exec.Cmd, in io.Closer) {
	in.Close()
	_ = cmd.Wait() // how it ended says nothing about what was measured
}
