// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strconv"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/peer"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
)

// measurePeers measures servers made with other projects' libraries that answer
// themselves, without anything between: what a call costs there, to see what a hop
// adds to it.
func (b *bench) measurePeers(ctx context.Context, g *rig) error {
	t := b.table("peers", "Servers that answer themselves",
		"The same calls, made directly to servers made with other projects' libraries, with their defaults; canned is the backend of this bench, and x RP the CPU against that of a hop through `httputil.ReverseProxy`.",
		"what, server", "CPU s per 1000", "CPU x RP", "calls/s", "p50 us", "p99 us", "p99.9 us", "allocations", "peak MiB", "errors")
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return err
	}
	for _, p := range payloads() {
		if p.plotted {
			continue
		}
		call := load.ToolCall(p.tool, false)
		if err := b.against(ctx, g, backend, p.name, defaultTools, call, judgeText(p.tool), b.amount(p.amount.few())); err != nil {
			return err
		}
		b.peerRows(t, p.name)
	}
	for _, s := range b.shelves() {
		if s.tools > pageItems {
			continue
		}
		name := "list of " + strconv.Itoa(s.tools)
		call := load.Call{Method: "tools/list"}
		if err := b.against(ctx, g, backend, name, s.tools, call, judgeTools(s.tools, nil), b.amount(s.amount.few())); err != nil {
			return err
		}
		b.peerRows(t, name)
	}
	return nil
}

// peerRows adds the rows of one thing.
func (b *bench) peerRows(t *report.Table, thing string) {
	for _, name := range append([]string{"canned", "RP"}, peer.Names()...) {
		for _, era := range eras() {
			who := name + " " + string(era)
			b.row(t, thing+", "+who, "peers/"+thing+"/"+who, "cpu", "cpu-rp", "rate", "p50", "p99", "p999", "allocs", "peak", "errors")
		}
	}
}

// against measures one thing at all peers, at the canned backend and through the
// yardstick.
func (b *bench) against(ctx context.Context, g *rig, backend *proc.Process, thing string, tools int, call load.Call, judge load.Judge, a amount) error {
	query := canned.Setup{Tools: tools}.Query()
	proxy, err := g.start(ctx, "proxy", "-to", backend.Address+"/mcp?"+query)
	if err != nil {
		return err
	}
	servers := map[string]*proc.Process{"canned": backend, "RP": proxy}
	names := append([]string{"canned", "RP"}, peer.Names()...)
	for _, name := range peer.Names() {
		if servers[name], err = g.start(ctx, "peer", "-name", name, "-tools", strconv.Itoa(tools)); err != nil {
			return err
		}
	}
	for _, era := range eras() {
		if err := b.among(ctx, thing, era, names, servers, query, call, judge, a); err != nil {
			return err
		}
	}
	for _, name := range names[1:] {
		err = firstOf(err, g.end(servers[name]))
	}
	return err
}

// among measures one thing in one era.
func (b *bench) among(ctx context.Context, thing string, era canned.Era, names []string, servers map[string]*proc.Process, query string, call load.Call, judge load.Judge, a amount) error {
	var entrants []*entrant
	defer func() { leave(entrants) }()
	for _, name := range names {
		e, err := enter(ctx, name, servers[name], target(servers[name], era, query), call, judge)
		if err != nil {
			return err
		}
		entrants = append(entrants, e)
	}
	got, err := rounds(ctx, entrants, b.rounds, a)
	if err != nil {
		return err
	}
	for _, name := range names {
		prefix := "peers/" + thing + "/" + name + " " + string(era)
		b.put(prefix, got[name])
		b.compare(prefix, got[name], got["RP"], got["canned"])
	}
	return nil
}
