// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/peer"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
)

// measurePeers measures servers built with other projects' libraries, without anything in
// between. The cost of a call there shows the relative cost of a hop.
func (b *bench) measurePeers(ctx context.Context, _ *rig) error {
	t := b.table("peers", "Servers of other projects",
		"The same calls made directly to servers built with other projects' libraries and default settings; canned is the backend of this bench, and x RP is the CPU relative to a hop through `httputil.ReverseProxy`.",
		"what, server", "CPU s per 1000", "CPU x RP", "calls/s", "p50 us", "p99 us", "p99.9 us", "allocations", "peak MiB", "errors")
	for _, p := range payloads() {
		if p.plotted {
			continue
		}
		call := load.ToolCall(p.tool, false)
		if err := b.against(ctx, p.name, defaultTools, call, judgeText(p.tool), b.amount(p.amount.few())); err != nil {
			return err
		}
		b.peerRows(t, p.name)
	}
	for _, s := range b.toolSets() {
		if s.tools > pageItems {
			continue
		}
		name := "list of " + strconv.Itoa(s.tools)
		call := load.Call{Method: "tools/list"}
		if err := b.against(ctx, name, s.tools, call, judgeTools(s.tools, nil), b.amount(s.amount.few())); err != nil {
			return err
		}
		b.peerRows(t, name)
	}
	return nil
}

// peerRows adds the rows of one measurement.
func (b *bench) peerRows(t *report.Table, thing string) {
	for _, name := range append([]string{"canned", "RP"}, peer.Names()...) {
		for _, era := range eras() {
			who := name + " " + string(era)
			b.row(t, thing+", "+who, "peers/"+thing+"/"+who, "cpu", "cpu-rp", "rate", "p50", "p99", "p999", "allocs", "peak", "errors")
		}
	}
}

// against measures one call at all peers, at the canned backend and through the yardstick.
func (b *bench) against(ctx context.Context, thing string, tools int, call load.Call, judge load.Judge, a amount) error {
	for _, era := range eras() {
		open := func(ctx context.Context, g *rig) ([]*entrant, error) {
			return enterPeers(ctx, g, era, tools, call, judge)
		}
		got, err := b.measure(ctx, open, b.starts, a)
		if err != nil {
			return fmt.Errorf("%s: %w", thing, err)
		}
		for name, samples := range got {
			prefix := "peers/" + thing + "/" + name + " " + string(era)
			b.put(prefix, samples)
			b.compare(prefix, samples, got["RP"], got["canned"])
		}
	}
	return nil
}

// enterPeers starts all servers and makes entrants of them, in one era.
func enterPeers(ctx context.Context, g *rig, era canned.Era, tools int, call load.Call, judge load.Judge) ([]*entrant, error) {
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return nil, err
	}
	query := canned.Setup{Tools: tools}.Query()
	names, programs := []string{"canned", "RP"}, []*proc.Process{backend}
	proxy, err := g.start(ctx, "proxy", "-to", backend.Address+"/mcp?"+query)
	if err != nil {
		return nil, err
	}
	programs = append(programs, proxy)
	for _, name := range peer.Names() {
		p, err := g.start(ctx, "peer", "-name", name, "-tools", strconv.Itoa(tools))
		if err != nil {
			return nil, err
		}
		names, programs = append(names, name), append(programs, p)
	}
	var entrants []*entrant
	for i, name := range names {
		e, err := enter(ctx, name, programs[i], target(programs[i], era, query), call, judge)
		if err != nil {
			return entrants, err
		}
		entrants = append(entrants, e)
	}
	return entrants, nil
}
