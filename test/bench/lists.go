// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/plot"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
)

// shelf is so many tools over so many backends.
type shelf struct {
	tools, backends int
	amount          amount
}

func (s shelf) name() string { return fmt.Sprintf("%d over %d", s.tools, s.backends) }

// shelves are what is listed. The last does not fit onto one page.
func shelves() []shelf {
	return []shelf{
		{10, 1, amount{12000, 3000}}, {100, 5, amount{4000, 1000}}, {1000, 20, amount{600, 200}}, {2500, 20, amount{200, 60}},
	}
}

// measureLists measures tools/list, the first page and all pages.
func (b *bench) measureLists(ctx context.Context, g *rig) error {
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return err
	}
	t := b.table("lists", "tools/list",
		"As for calls. RP and direct have all tools at one backend, with pages as long as the gateway's. Where there are several pages, first is the first of them and all is all, one after the other.",
		"tools, backends, client", "CPU s per 1000", "CPU x RP", "lists/s", "x RP", "p50 us", "p99 us", "allocations", "errors")
	for _, s := range shelves() {
		if b.short && s.tools > pageItems {
			continue
		}
		if err := b.list(ctx, g, backend, s); err != nil {
			return err
		}
		for _, thing := range s.things() {
			for _, name := range []string{"legacy", "modern", "RP legacy", "RP modern", "direct legacy", "direct modern"} {
				b.row(t, thing+", "+name, "lists/"+thing+"/"+name, "cpu", "cpu-rp", "rate", "rate-rp", "p50", "p99", "allocs", "errors")
			}
		}
	}
	b.plotLists()
	return nil
}

// things are what is measured of a shelf.
func (s shelf) things() []string {
	if s.tools <= pageItems {
		return []string{s.name()}
	}
	return []string{s.name() + " first", s.name() + " all"}
}

// list measures one shelf, with processes that end with it.
func (b *bench) list(ctx context.Context, g *rig, backend *proc.Process, s shelf) error {
	whole := canned.Setup{Tools: s.tools, Page: pageItems}
	proxy, err := g.start(ctx, "proxy", "-to", backend.Address+"/mcp?"+whole.Query())
	if err != nil {
		return err
	}
	each := canned.Setup{Era: canned.Modern, Tools: s.tools / s.backends}
	gateway, err := g.gateway(ctx, overHTTP(backend.Address, s.backends, each), s.tools)
	if err != nil {
		return err
	}
	for _, era := range eras() {
		for i, thing := range s.things() {
			if err := b.listBy(ctx, era, thing, s, i > 0, map[string]*proc.Process{"direct": backend, "RP": proxy, "": gateway}); err != nil {
				return err
			}
		}
	}
	return firstOf(g.end(gateway), g.end(proxy))
}

// listBy measures one thing of a shelf, by clients of an era.
func (b *bench) listBy(ctx context.Context, era canned.Era, thing string, s shelf, all bool, ways map[string]*proc.Process) error {
	var entrants []*entrant
	defer func() { leave(entrants) }()
	for _, way := range []string{"direct", "RP", ""} {
		t := target(ways[way], era, "")
		if way != "" {
			t = target(ways[way], era, canned.Setup{Tools: s.tools, Page: pageItems}.Query())
		}
		e, err := enterList(ctx, way, ways[way], t, s.tools, all)
		if err != nil {
			return fmt.Errorf("%s: %w", thing, err)
		}
		entrants = append(entrants, e)
	}
	return b.attempt("lists/"+thing+"/"+string(era)+"/*", func(n int) error {
		got, err := rounds(ctx, entrants, n, b.amount(s.amount))
		if err != nil {
			return err
		}
		prefix := "lists/" + thing + "/"
		b.put(prefix+"direct "+string(era), got["direct"])
		b.put(prefix+"RP "+string(era), got["RP"])
		b.put(prefix+string(era), got[""])
		b.compare(prefix+string(era), got[""], got["RP"], got["direct"])
		return nil
	})
}

// enterList makes an entrant whose clients list the first page of so many tools, or
// all pages.
func enterList(ctx context.Context, name string, p *proc.Process, t load.Target, tools int, all bool) (*entrant, error) {
	return newEntrant(ctx, name, p, func(int) (*load.Client, error) {
		var cursor string
		c, err := load.NewClient(ctx, t, load.Call{Method: "tools/list"}, judgeTools(min(tools, pageItems), &cursor))
		if err != nil {
			return nil, err
		}
		for left := tools - pageItems; all && left > 0; left -= pageItems {
			page := load.Call{Method: "tools/list", Params: fmt.Sprintf(`"cursor":%q`, cursor)}
			if err := c.Add(ctx, page, judgeTools(min(left, pageItems), &cursor)); err != nil {
				c.Close(ctx)
				return nil, err
			}
		}
		return c, nil
	})
}

func (b *bench) plotLists() {
	p := plot.Plot{Title: "CPU of a tools/list against the number of tools", X: "tools", Y: "CPU s per 1000 lists"}
	for _, name := range []string{"RP legacy", "RP modern", "legacy", "modern"} {
		l := plot.Line{Name: name}
		for _, s := range shelves() {
			if s.tools <= pageItems {
				b.point(&l, float64(s.tools), "lists/"+s.name()+"/"+name+"/cpu")
			}
		}
		p.Lines = append(p.Lines, l)
	}
	b.plots["lists"] = p
}
