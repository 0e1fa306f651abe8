// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os/exec"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
)

// measureStdio measures calls through the gateway to a backend that it started itself,
// against calls to such a program without anything between: what a client has that
// starts its server.
func (b *bench) measureStdio(ctx context.Context, g *rig) error {
	t := b.table("stdio", "tools/call to a backend on stdio",
		"CPU and calls/s with 8 clients, times with one; added is what comes on top of the same call on the pipes of a program that the client started itself.",
		"answer, cell", "CPU s per 1000", "calls/s", "p50 us", "p99 us", "p99.9 us", "added p50 us", "allocations", "peak MiB", "errors")
	for _, backend := range eras() {
		gateway, err := g.gateway(ctx, g.overStdio(canned.Setup{Era: backend, Tools: defaultTools}), defaultTools)
		if err != nil {
			return err
		}
		for _, client := range eras() {
			for _, p := range payloads() {
				if p.plotted {
					continue
				}
				pipe, err := enterPipe(ctx, g, backend, p.tool)
				if err != nil {
					return err
				}
				through, err := enter(ctx, cellName(client, backend), gateway, target(gateway, client, ""),
					load.ToolCall(toolAt(0, p.tool), false), judgeText(p.tool))
				if err != nil {
					pipe.close()
					return err
				}
				err = b.attempt("stdio/"+p.name+"/"+through.name+"/*", func(n int) error {
					got, err := rounds(ctx, []*entrant{pipe, through}, n, b.amount(p.amount.fewer()))
					if err != nil {
						return err
					}
					b.put("stdio/"+p.name+"/"+pipe.name, got[pipe.name])
					b.put("stdio/"+p.name+"/"+through.name, got[through.name])
					b.compare("stdio/"+p.name+"/"+through.name, got[through.name], nil, got[pipe.name])
					return nil
				})
				leave([]*entrant{pipe, through})
				if err != nil {
					return err
				}
			}
		}
	}
	for _, p := range payloads() {
		if p.plotted {
			continue
		}
		for _, name := range []string{"legacy to legacy", "legacy to modern", "modern to legacy", "modern to modern", "pipe legacy", "pipe modern"} {
			b.row(t, p.name+", "+name, "stdio/"+p.name+"/"+name, "cpu", "rate", "p50", "p99", "p999", "added-p50", "allocs", "peak", "errors")
		}
	}
	return nil
}

// enterPipe starts a backend on pipes of our own. It has one client, as such a program
// has.
func enterPipe(ctx context.Context, g *rig, era canned.Era, tool string) (*entrant, error) {
	setup := canned.Setup{Era: era, Tools: defaultTools}
	cmd := exec.CommandContext(ctx, g.self, "backend", "-stdio", "-setup", setup.Query()) //nolint:gosec // it is this program
	cmd.WaitDelay = 10 * time.Second
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
	e := &entrant{name: "pipe " + string(era), close: func() { endPipe(cmd, in) }}
	p, err := load.NewPipe(in, out, era, load.ToolCall(tool, false), judgeText(tool))
	if err != nil {
		e.close()
		return nil, err
	}
	e.callers = []load.Caller{p}
	return e, nil
}

// endPipe ends a program by the end of its input.
func endPipe(cmd *exec.Cmd, in io.Closer) {
	in.Close()
	_ = cmd.Wait() // how it ended says nothing about what was measured
}
