// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// This file pins the tools that a server lists otherwise for clients that render apps (io.modelcontextprotocol/ui).
// They have the face pins.UI: the lock file may have a second line for such a tool.

// faceOf returns the face of the items of a kind that clients get which render apps, or do not.
func faceOf(k catalog.Kind, renders bool) pins.Face {
	if renders && k == catalog.Tools {
		return pins.UI
	}
	return pins.Plain
}

// judgeAppItem is judgeItem for the catalog of clients that render apps.
func (p *pinsInUse) judgeAppItem(backend string, k catalog.Kind, item json.RawMessage) catalog.Pin {
	return p.judgeListed(backend, k, faceOf(k, true), item)
}

// pinKey is the function pinKey for the lists of the view.
func (v *view) pinKey(backend string, k catalog.Kind, item []byte) (pins.Key, bool) {
	key, ok := pinKey(backend, k, item)
	key.Face = faceOf(k, v.rendered)
	return key, ok
}

// faceTools are tools of one list, by their own names. Of several with one name the first counts, as in the catalog.
type faceTools map[string]json.RawMessage

func faceToolsOf(backend string, tools []json.RawMessage) faceTools {
	all := make(faceTools, len(tools))
	for _, item := range tools {
		if key, ok := pinKey(backend, catalog.Tools, item); ok && all[key.Name] == nil {
			all[key.Name] = item
		}
	}
	return all
}

// differ returns the names of the tools that are not listed so in plain.
func (t faceTools) differ(plain faceTools, p *pinsInUse) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t)), func(name string) bool {
		other, ok := plain[name]
		return ok && p.digests.Of(other) == p.digests.Of(t[name])
	})
}

// otherTools returns the keys of the tools that servers list for clients that render apps, which have the view ui,
// and not so for the clients of this view.
func (v *view) otherTools(ui *view) map[pins.Key]bool {
	var other map[pins.Key]bool
	for i, b := range v.backends {
		plain, tools := v.offered[i].Lists[catalog.Tools].Items, ui.offerOf(b).Lists[catalog.Tools].Items
		if b.isOwn(v.offered[i]) || len(tools) == 0 || len(plain) == len(tools) && &plain[0] == &tools[0] {
			continue
		}
		for _, name := range faceToolsOf(b.Name(), tools).differ(faceToolsOf(b.Name(), plain), v.pins) {
			if other == nil {
				other = make(map[pins.Key]bool)
			}
			other[pins.Key{Server: b.Name(), Kind: pins.Tool, Name: name, Face: pins.UI}] = true
		}
	}
	return other
}

// appLists returns the lists of clients that render apps, of those that have made a request.
func (g *Gateway) appLists() (lists []*clientLists) {
	all := &g.perClient
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, p := range slices.Sorted(maps.Keys(all.byFeatures)) {
		if p.Has(backend.RendersApps) {
			lists = append(lists, all.byFeatures[p])
		}
	}
	return lists
}

// appViews returns the views of these clients, built on this one.
func (g *Gateway) appViews(v *view) (views []*view) {
	for _, l := range g.appLists() {
		views = append(views, l.view(v))
	}
	return views
}

// appProblems returns what becomes of the tools that ui, a view of clients that render apps, has otherwise, as far as
// it is decided by the lock file or by hidden text.
func (v *view) appProblems(ui *view) (problems []catalog.Problem) {
	isOfPins := func(c string) bool { return c == code.ItemHeld || c == code.ItemFrozen || c == code.ItemHiddenText }
	var other map[pins.Key]bool
	for _, p := range ui.catalog.Problems() {
		if p.Kind != catalog.Tools || p.Item == "" || !isOfPins(p.Code) {
			continue
		}
		if other == nil {
			if other = v.otherTools(ui); other == nil {
				return nil
			}
		}
		if other[pins.Key{Server: p.Backend, Kind: pins.Tool, Name: p.Item, Face: pins.UI}] {
			p.Text = "for clients that render apps: " + p.Text
			problems = append(problems, p)
		}
	}
	return problems
}

// allAppProblems returns the problems of all clients that render apps, of those that have made a request.
func (g *Gateway) allAppProblems(v *view) (problems []catalog.Problem) {
	for _, ui := range g.appViews(v) {
		for _, p := range v.appProblems(ui) {
			if !slices.Contains(problems, p) {
				problems = append(problems, p)
			}
		}
	}
	return problems
}

// AwaitAppLists requests what servers with an app list for clients that render apps, and waits for it, at most
// limits.firstList. The problems of these lists are in Status and ListProblems then, and Explain explains them.
func (g *Gateway) AwaitAppLists(ctx context.Context) {
	backends := g.view.Load().backends
	if len(backends) == 0 {
		return
	}
	g.awaitFeatureLists(ctx, &mcp.Request{Client: backends[0].PeerOf(backend.AllFeatures | backend.RendersApps)})
}

// logAppProblems logs each problem of a view of clients that render apps once in a configuration.
func (g *Gateway) logAppProblems(v, ui *view) {
	for _, p := range v.appProblems(ui) {
		if v.pins.noteApp(p) {
			g.log.Warn("not offered as listed", slog.String("backend", p.Backend), slog.String("code", p.Code), slog.String("problem", p.String()))
		}
	}
}

// maxAppProblems bounds the problems that are known to have been logged.
const maxAppProblems = 10_000

// noteApp reports whether a problem of the clients that render apps is new.
func (p *pinsInUse) noteApp(problem catalog.Problem) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.apps[problem] {
		return false
	}
	if p.apps == nil || len(p.apps) >= maxAppProblems {
		p.apps = make(map[catalog.Problem]bool)
	}
	p.apps[problem] = true
	return true
}

// ReadAppTools requests the tools that servers list for clients that render apps, and adds those that are not listed so
// for other clients, compared with the lock file. A server whose list cannot be read is no longer Known. Call it before ReadPages.
// It makes the gateway request again what it offers to such clients, since not all servers notify of a change.
func (g *Gateway) ReadAppTools(ctx context.Context, all *Definitions) {
	ctx, cancel := context.WithTimeout(ctx, pagesTimeout)
	defer cancel()
	v := g.view.Load()
	if v.rendered {
		return // the lists are those for the only client, which renders apps
	}
	read := make([][]Definition, len(all.Servers))
	var group sync.WaitGroup
	for i := range all.Servers {
		s := &all.Servers[i]
		b, ok := v.backend(s.Name)
		if !ok || !s.Known || v.hasOneSession(b) || !v.mayHaveApp(b) {
			continue
		}
		// Ends with ctx; waited for below.
		group.Go(func() { read[i] = v.readAppTools(ctx, b, s) })
		for _, l := range g.appLists() {
			l.refresh(b)
		}
	}
	group.Wait()
	all.Items = slices.Concat(append([][]Definition{all.Items}, read...)...)
	all.advise()
}

// readAppTools reads the tools of one server.
func (v *view) readAppTools(ctx context.Context, b *activeBackend, s *DefinedServer) []Definition {
	list, err := b.ToolsOf(ctx, backend.AllFeatures|backend.RendersApps)
	switch {
	case err != nil:
		s.Known, s.Reason = false, "its tools for clients that render apps: "+err.Error()
	case list.Problem != "":
		s.Known, s.Reason = false, "its tools for clients that render apps: "+list.Problem
	}
	var d Definitions
	tools, plain := faceToolsOf(b.Name(), list.Items), faceToolsOf(b.Name(), v.listsOf(b)[catalog.Tools].Items)
	for _, name := range tools.differ(plain, v.pins) {
		d.add(v.pins, pins.Key{Server: b.Name(), Kind: pins.Tool, Name: name, Face: pins.UI}, tools[name])
	}
	return d.Items
}

// addNamedByApps adds the pages that tools for clients that render apps name.
func (d *Definitions) addNamedByApps(to pages) {
	for i := range d.Items {
		it := &d.Items[i]
		if it.Face != string(pins.UI) {
			continue
		}
		for _, uri := range pins.PageURIs([]byte(it.Listed)) {
			to.add(pins.Key{Server: it.Server, Kind: pins.Page, Name: uri})
		}
	}
}

// ofAppTools explains the tools that servers list otherwise for clients that render apps, of those that have made a request.
func (x *explainer) ofAppTools(e *Explanation, allow func(*catalog.Entry) bool) {
	type shown struct {
		key     pins.Key
		verdict catalog.Verdict
		pin     string
	}
	explained := make(map[shown]bool)
	for _, ui := range x.g.appViews(x.v) {
		other := x.v.otherTools(ui)
		if other == nil {
			continue
		}
		own := x.forApps(ui)
		about := func(d *catalog.Decision) bool {
			return d.Kind == catalog.Tools && own.isAbout(d) && other[pins.Key{Server: d.BackendName, Kind: pins.Tool, Name: d.Own, Face: pins.UI}]
		}
		for _, d := range catalog.Explain(own.in, own.opt, allow, about) {
			s := shown{pins.Key{Server: d.BackendName, Kind: pins.Tool, Name: d.Own}, d.Verdict, d.Pin.Problem}
			if explained[s] {
				continue
			}
			explained[s] = true
			item := own.item(&d)
			item.Chain = slices.Insert(item.Chain, 1, ExplainedStep{Text: "in the list for clients that render apps, with another definition than for others"})
			e.Offered = e.Offered || item.Offered && item.Name == x.name
			e.Items = append(e.Items, item)
		}
	}
}

// forApps returns an explainer of a view of clients that render apps.
func (x *explainer) forApps(ui *view) *explainer {
	own := *x
	own.v, own.seen, own.isOfSome = ui, ui, true
	if x.profile != nil {
		own.seen = ui.at(x.profile.Name)
	}
	own.in, own.opt = ui.input(ui.offered)
	if x.profile != nil && x.profile.OwnNames {
		own.in = x.profile.Alone(own.in)
	}
	return &own
}
