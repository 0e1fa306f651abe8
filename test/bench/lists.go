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
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// toolSet is a number of tools, spread over few or many backends.
type toolSet struct {
	tools  int
	over   []int // numbers of backends
	amount amount
}

// name returns the name of the set spread over the given number of backends.
func (s toolSet) name(backends int) string { return fmt.Sprintf("%d over %d", s.tools, backends) }

// most returns the largest number of backends.
func (s toolSet) most() int { return s.over[len(s.over)-1] }

// toolSets returns what is listed. The last one does not fit on one page.
func (b *bench) toolSets() []toolSet {
	if b.short {
		return []toolSet{{10, []int{1}, amount{many: 12000}}, {1000, []int{1, 20}, amount{many: 600}}}
	}
	return []toolSet{
		{10, []int{1, 5}, amount{8000, 2000}},
		{100, []int{1, 5, 20}, amount{3000, 600}},
		{1000, []int{1, 5, 20}, amount{400, 200}},
		{2500, []int{20}, amount{100, 40}},
	}
}

// measureLists measures tools/list, the first page and all pages.
func (b *bench) measureLists(ctx context.Context, _ *rig) error {
	t := b.table("lists", "tools/list",
		"As for calls. RP and direct have all tools at one backend, with pages as long as the gateway's. If there are several pages, first is the first page and all is all pages, one after the other.",
		"tools, client", "CPU s per 1000", "CPU x RP", "against 1 backend", "lists/s", "x RP", "p50 us", "p99 us", "p99.9 us", "allocations", "peak MiB", "errors")
	for _, s := range b.toolSets() {
		if err := b.list(ctx, s); err != nil {
			return err
		}
		for _, page := range s.pages() {
			for _, name := range s.ways() {
				for _, era := range eras() {
					b.row(t, name+page+", "+string(era), listPrefix(name, page, era),
						"cpu", "cpu-rp", "cpu-1", "rate", "rate-rp", "p50", "p99", "p999", "allocs", "peak", "errors")
				}
			}
		}
	}
	b.perTool()
	b.plotLists()
	return nil
}

// pages returns the suffixes of the measured pages of a set.
func (s toolSet) pages() []string {
	if s.tools <= pageItems {
		return []string{""}
	}
	return []string{" first", " all"}
}

// ways returns the names of all ways to list a set.
func (s toolSet) ways() []string {
	var names []string
	for _, n := range s.over {
		names = append(names, s.name(n))
	}
	return append(names, fmt.Sprintf("%d by RP", s.tools), fmt.Sprintf("%d direct", s.tools))
}

// listPrefix returns the prefix of the keys of a list.
func listPrefix(name, page string, era canned.Era) string {
	return "lists/" + name + page + "/" + string(era)
}

// list measures one set, page by page.
func (b *bench) list(ctx context.Context, s toolSet) error {
	return b.attempt(fmt.Sprintf("lists/%d */*/*", s.tools), func(n int) error {
		for _, era := range eras() {
			for i, page := range s.pages() {
				if err := b.listBy(ctx, era, page, s, i > 0, n); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// listBy measures one page or all pages of a set, by clients of an era, on all ways.
func (b *bench) listBy(ctx context.Context, era canned.Era, page string, s toolSet, all bool, n int) error {
	open := func(ctx context.Context, g *rig) ([]*entrant, error) { return b.enterLists(ctx, g, era, s, all) }
	got, err := b.measure(ctx, open, n, b.amount(s.amount))
	if err != nil {
		return fmt.Errorf("%d tools%s: %w", s.tools, page, err)
	}
	names := s.ways()
	for _, name := range names {
		b.put(listPrefix(name, page, era), got[name])
	}
	proxy, direct := names[len(s.over)], names[len(s.over)+1]
	for _, name := range names[:len(s.over)] {
		b.compare(listPrefix(name, page, era), got[name], got[proxy], got[direct])
		b.found.Set(listPrefix(name, page, era)+"/cpu-1", stats.Ratio(got[name], got[names[0]], cpuOf))
	}
	return nil
}

// enterLists starts all servers of a set and makes entrants of them. The direct way is
// needed for times, which the short form does not judge.
func (b *bench) enterLists(ctx context.Context, g *rig, era canned.Era, s toolSet, all bool) ([]*entrant, error) {
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return nil, err
	}
	query := canned.Setup{Tools: s.tools, Page: pageItems}.Query()
	proxy, err := g.start(ctx, "proxy", "-to", backend.Address+"/mcp?"+query)
	if err != nil {
		return nil, err
	}
	names, programs, queries := s.ways(), []*proc.Process(nil), make([]string, len(s.over), len(s.over)+2)
	for _, n := range s.over {
		each := canned.Setup{Era: canned.Modern, Tools: s.tools / n}
		p, err := g.gateway(ctx, overHTTP(backend.Address, n, each), s.tools)
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	programs, queries = append(programs, proxy, backend), append(queries, query, query)
	if b.short {
		names = names[:len(names)-1]
	}
	var entrants []*entrant
	for i, name := range names {
		e, err := enterList(ctx, name, programs[i], target(programs[i], era, queries[i]), s.tools, all)
		if err != nil {
			return entrants, err
		}
		entrants = append(entrants, e)
	}
	return entrants, nil
}

// perTool stores the cost per tool in a list of 1000 relative to a list of 100. A list is
// bytes, so ten times as many may cost at most ten times as much.
func (b *bench) perTool() {
	for _, backends := range []int{1, 5, 20} {
		for _, era := range eras() {
			few, ok := b.found.Get(listPrefix(toolSet{tools: 100}.name(backends), "", era) + "/cpu")
			many := listPrefix(toolSet{tools: 1000}.name(backends), "", era)
			if all, also := b.found.Get(many + "/cpu"); ok && also {
				b.found.Set(many+"/cpu-tool", stats.Of(all.Median/10/few.Median))
			}
		}
	}
}

// enterList makes an entrant with clients that list the first page of a number of tools, or all
// pages.
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
	for _, era := range eras() {
		through, proxy := plot.Line{Name: string(era)}, plot.Line{Name: "RP " + string(era)}
		for _, s := range b.toolSets() {
			if s.tools > pageItems {
				continue
			}
			names := s.ways()
			b.point(&through, float64(s.tools), listPrefix(s.name(s.most()), "", era)+"/cpu")
			b.point(&proxy, float64(s.tools), listPrefix(names[len(s.over)], "", era)+"/cpu")
		}
		p.Lines = append(p.Lines, proxy, through)
	}
	b.draw("lists", p)
}
