// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/wait"
)

// measureStdio measures calls through the gateway to a backend that it started itself,
// relative to direct calls to such a program by a client that starts its server. The client
// may start the gateway in the server's place, or use it over HTTP. The yardstick is a
// program in that place that forwards what it reads.
func (b *bench) measureStdio(ctx context.Context, _ *rig) error {
	t := b.table("stdio", "tools/call to a backend on stdio",
		"CPU and calls/s with 8 clients over HTTP, and with one on a pipe, which can have only one; times with one. Added is the difference to the same call on the pipes of a program that the client started itself. A relay is a Go program between the two: on pipes it only copies, and over HTTP it handles one request at a time, so that eight clients wait in turn. Rows of a relay, and direct ones, were measured together with modern clients.",
		"answer, cell", "CPU s per 1000", "calls/s", "p50 us", "p99 us", "p99.9 us", "added p50 us", "x relay", "allocations", "peak MiB", "errors")
	for _, backend := range eras() {
		for _, client := range eras() {
			for _, p := range payloads() {
				if p.plotted {
					continue
				}
				if err := b.measurePipes(ctx, client, backend, p); err != nil {
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
			b.stdioRow(t, p, relayName(era, onPipes))
			b.stdioRow(t, p, relayName(era, overNet))
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

// relayName returns a name unlike that of a pair of eras, because the marks for times do
// not apply to relays.
func relayName(era canned.Era, way string) string {
	if way == overNet {
		return "relay by HTTP, " + string(era)
	}
	return "relay, " + string(era)
}

func (b *bench) stdioRow(t *report.Table, p payload, name string) {
	b.row(t, p.name+", "+name, "stdio/"+p.name+"/"+name, "cpu", "rate", "p50", "p99", "p999", "added-p50", "added-p50-rp", "allocs", "peak", "errors")
}

// measurePipes measures one call on all ways of a pair of eras, and stores the values.
func (b *bench) measurePipes(ctx context.Context, client, backend canned.Era, p payload) error {
	cell, direct := cellName(client, backend), pipeName(backend)
	open := func(ctx context.Context, g *rig) ([]*entrant, error) {
		return enterPipes(ctx, g, client, backend, p.tool)
	}
	return b.attempt("stdio/"+p.name+"/"+cell+",*/*", func(n int) error {
		got, err := b.measure(ctx, open, n, b.amount(p.amount.fewer()))
		if err != nil {
			return err
		}
		b.put("stdio/"+p.name+"/"+direct, got[direct])
		for _, way := range []string{onPipes, overNet} {
			relay := relayName(backend, way)
			for _, name := range []string{relay, cell + way} {
				b.put("stdio/"+p.name+"/"+name, got[name])
				b.compare("stdio/"+p.name+"/"+name, got[name], got[relay], got[direct])
			}
		}
		return nil
	})
}

// enterPipes makes entrants of all ways to call a backend on pipes: directly, and through a
// relay and the gateway, each started by the client or listening.
func enterPipes(ctx context.Context, g *rig, client, backend canned.Era, tool string) ([]*entrant, error) {
	conf := g.overStdio(canned.Setup{Era: backend, Tools: defaultTools})
	file, err := g.write(conf)
	if err != nil {
		return nil, err
	}
	gateway, err := g.gateway(ctx, conf, defaultTools)
	if err != nil {
		return nil, err
	}
	call := load.ToolCall(toolAt(0, tool), false)
	var entrants []*entrant
	for _, enter := range []func() (*entrant, error){
		func() (*entrant, error) { return enterDirectly(ctx, g, backend, tool) },
		func() (*entrant, error) { return enterRelay(ctx, g, backend, tool) },
		func() (*entrant, error) { return enterRelayHTTP(ctx, g, backend, tool) },
		func() (*entrant, error) {
			return enterPipe(ctx, cellName(client, backend)+onPipes, client, call, judgeText(tool), g.program, "serve", "--stdio", "--config", file)
		},
		func() (*entrant, error) {
			return enter(ctx, cellName(client, backend)+overNet, gateway, target(gateway, client, ""), call, judgeText(tool))
		},
	} {
		e, err := enter()
		if err != nil {
			return entrants, err
		}
		entrants = append(entrants, e)
	}
	return entrants, nil
}

// enterDirectly starts a backend for a client.
func enterDirectly(ctx context.Context, g *rig, era canned.Era, tool string) (*entrant, error) {
	return enterPipe(ctx, pipeName(era), era, load.ToolCall(tool, false), judgeText(tool),
		g.self, "backend", "-stdio", "-setup", canned.Setup{Era: era, Tools: defaultTools}.Query())
}

// enterRelay starts a backend for a client, with a relay between the two.
func enterRelay(ctx context.Context, g *rig, era canned.Era, tool string) (*entrant, error) {
	return enterPipe(ctx, relayName(era, onPipes), era, load.ToolCall(tool, false), judgeText(tool),
		g.self, "relay", "-setup", canned.Setup{Era: era, Tools: defaultTools}.Query())
}

// enterRelayHTTP starts a relay that listens, and a backend behind it.
func enterRelayHTTP(ctx context.Context, g *rig, era canned.Era, tool string) (*entrant, error) {
	p, err := g.start(ctx, "relay", "-http", "-setup", canned.Setup{Era: era, Tools: defaultTools}.Query())
	if err != nil {
		return nil, err
	}
	return enter(ctx, relayName(era, overNet), p, target(p, era, ""), load.ToolCall(tool, false), judgeText(tool))
}

// enterPipe starts a program that serves on pipes. It has one client, as usual for such a
// program, and its usage is not counted.
func enterPipe(ctx context.Context, name string, era canned.Era, call load.Call, judge load.Judge, program string, args ...string) (*entrant, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // this program, or the measured one
	cmd.WaitDelay = 10 * time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	in, out, err := connect(cmd)
	if err != nil {
		return nil, err
	}
	e := &entrant{name: name, close: func() { endPipe(cmd, in, out) }}
	p, err := load.NewPipe(in, out, era, call, judge)
	if err != nil {
		e.close()
		return nil, fmt.Errorf("%s: %w\n%s", name, err, &log)
	}
	e.callers = []load.Caller{p}
	return e, nil
}

// connect starts a program on pipes and returns their other ends. The caller must close
// them.
func connect(cmd *exec.Cmd) (in, out *os.File, err error) {
	theirIn, in, err := wait.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := wait.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	defer theirOut.Close()
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, in.Close(), out.Close())
	}
	return in, out, nil
}

// endPipe ends a program by closing its input.
func endPipe(cmd *exec.Cmd, in, out io.Closer) {
	in.Close()
	out.Close()    // otherwise a program that is still writing would not end
	_ = cmd.Wait() // its exit status does not affect the measurement
}
