// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// view is a configuration at work: its backends in file order, and the catalog
// of what they offer. It is immutable and swapped whole, so that each request
// sees one of them.
type view struct {
	cfg      *config.Config
	backends []*activeBackend
	settled  []knownLists     // of the units, before the catalog was built; nil until there is one
	offered  []*backend.Offer // by the units, of which the catalog is made
	catalog  *catalog.Catalog

	discovery func() (*mcp.Result, error) // what server/discover says of the catalog

	// said counts how often a backend has said that a list of a kind changed, and
	// counted is what of it is in there, by backend. Neither is changed.
	announced [catalog.NumKinds]uint64
	counted   map[*backend.Backend]notices
}

// notices are how often a backend has said of each of its lists that it changed.
type notices = [catalog.NumKinds]uint64

// unitOf returns the backend of an entry. An entry of a catalog that is a moment older
// than the configuration may stand for one that is elsewhere now, or gone.
func (v *view) backendOf(entry *catalog.Entry) (*activeBackend, bool) {
	if i := entry.Backend; i < len(v.backends) && v.backends[i].Name() == entry.BackendName {
		return v.backends[i], true
	}
	return v.backend(entry.BackendName)
}

// unit returns the backend of that name.
func (v *view) backend(name string) (*activeBackend, bool) {
	i := slices.IndexFunc(v.backends, func(b *activeBackend) bool { return b.Name() == name })
	// Not known is no error here: the caller answers as for a name that nobody has.
	if i < 0 {
		return nil, false
	}
	return v.backends[i], true
}

// reuse returns the unit that can serve this entry already, or nil.
func (v *view) reusable(srv *config.Server, limits *config.Limits) *activeBackend {
	b, ok := v.backend(srv.Name)
	if !ok {
		return nil
	}
	return b.withConfig(srv, limits)
}

// lastOffer returns what the server of an entry offered until now, or nil.
func (v *view) lastOffer(srv *config.Server) *backend.Offer {
	b, ok := v.backend(srv.Name)
	if !ok || !b.isSameServer(srv) {
		return nil
	}
	return b.Offer()
}

// knownLists says of each list of a backend whether it is known, or why it is not.
type knownLists [catalog.NumKinds]bool

func (h knownLists) nothing() bool { return h == knownLists{} }

// hear returns what has been heard of each backend.
func (v *view) settledLists() []knownLists {
	all := make([]knownLists, len(v.backends))
	for i, b := range v.backends {
		o := b.Offer()
		for k := range catalog.NumKinds {
			all[i][k] = o.Answered(k)
		}
	}
	return all
}

// news reports whether a backend has been heard of that the catalog does not know.
func (v *view) mustBuildNow() bool {
	return !slices.Equal(v.settled, v.settledLists()) || v.outdated(func(*activeBackend) bool { return true })
}

// isBehind reports whether a backend that wanted accepts has noted a change that the
// catalog lacks.
func (v *view) isBehind(wanted func(*activeBackend) bool) bool {
	for i, b := range v.backends {
		if i < len(v.offered) && wanted(b) && b.IsBehind(v.offered[i]) {
			return true
		}
	}
	return false
}

// outdated reports whether a backend that wanted accepts is known by now, and was not
// when the catalog was built, or has changes since that requests may wait for.
func (v *view) outdated(wanted func(*activeBackend) bool) bool {
	for i, b := range v.backends {
		if o := b.Offer(); wanted(b) && (!v.offered[i].Known() && o.Known() || o.IsNewer(v.offered[i])) {
			return true
		}
	}
	return false
}

// offers returns what each backend offers now.
func (v *view) offers() []*backend.Offer {
	offers := make([]*backend.Offer, len(v.backends))
	for i, b := range v.backends {
		offers[i] = b.Offer()
	}
	return offers
}

// count adds to said what the backends have said since. However many they are, a kind
// of list has changed once: it is told once.
func (v *view) countNotices(before *view, offers []*backend.Offer) {
	v.announced = before.announced
	v.counted = make(map[*backend.Backend]notices, len(v.backends))
	var news [catalog.NumKinds]bool
	for i, b := range v.backends {
		v.counted[b.Backend] = offers[i].Notices
		for k, n := range offers[i].Notices {
			news[k] = news[k] || n != before.counted[b.Backend][k]
		}
	}
	for k, isNew := range news {
		if isNew {
			v.announced[k]++
		}
	}
}

// version is what who listens has to know: what the lists say, and that they were said
// to have changed, which need not be seen in them.
type version struct {
	lists     catalog.Version
	announced [catalog.NumKinds]uint64
}

func (v *view) version() version { return version{v.catalog.Version(), v.announced} }

// take makes one list of v that of another version.
func (v *version) copyKind(k catalog.Kind, from version) {
	v.announced[k] = from.announced[k]
	switch k {
	case catalog.Tools:
		v.lists.Tools = from.lists.Tools
	case catalog.Prompts:
		v.lists.Prompts = from.lists.Prompts
	case catalog.Resources:
		v.lists.Resources = from.lists.Resources
	default:
		v.lists.Templates = from.lists.Templates
	}
}

// diff returns what somebody who knows v has to be told so that they know next.
func (v version) diff(next version) catalog.Changes {
	d := v.lists.Diff(next.lists)
	said := func(k catalog.Kind) bool { return v.announced[k] != next.announced[k] }
	d.Tools = d.Tools || said(catalog.Tools)
	d.Prompts = d.Prompts || said(catalog.Prompts)
	d.Resources = d.Resources || said(catalog.Resources) || said(catalog.Templates)
	return d
}

// listsOf returns what a backend offers in this view.
func (v *view) listsOf(b *activeBackend) backend.Lists {
	for i, own := range v.backends {
		if own.Backend == b.Backend && i < len(v.offered) {
			return v.offered[i].Lists
		}
	}
	return backend.Lists{}
}

// build makes the catalog of what the backends offer now. It is a function of the
// configuration and the offers alone: in which order the backends have answered
// can be seen nowhere in it.
func (v *view) build(offers []*backend.Offer) *catalog.Catalog {
	backends := make([]catalog.Backend, 0, len(v.backends))
	for i, b := range v.backends {
		o := offers[i]
		backends = append(backends, catalog.Backend{
			Name:         b.Name(),
			Rules:        catalog.Rules{Prefix: b.srv.Prefix, Rename: b.srv.Rename, Include: b.srv.Include, Exclude: b.srv.Exclude},
			State:        catalogState(o),
			Capabilities: o.Server.Capabilities,
			Instructions: o.Instructions,
			Lists:        o.Lists,
		})
	}
	return catalog.Build(backends, catalog.Options{
		FirstWins:    v.cfg.Conflict == config.ConflictFirst,
		Instructions: v.cfg.Instructions,
		MaxItems:     v.cfg.Limits.ToolsPerBackend,
		MaxSchema:    int(v.cfg.Limits.Schema),
	})
}

// catalogState tells the catalog whether a list is fresh, old, or not there. That a
// backend is still starting and that it is down are the same to it: nothing is
// known, and the names that it may have are kept for it.
func catalogState(o *backend.Offer) catalog.State {
	switch o.State {
	case backend.Live:
		return catalog.Live
	case backend.Stale:
		return catalog.Stale
	default:
		return catalog.Missing
	}
}

// changeEvery is the shortest time between two catalogs once the first lists
// were given out, and so between two notices to a client.
const minChangeInterval = time.Second

// wantRebuild asks for the catalog to be built anew. It does not wait; many
// wishes are one.
func (g *Gateway) requestRebuild() {
	select {
	case g.rebuild <- struct{}{}:
	default:
	}
}

// keepCatalog builds the catalog anew whenever a backend offers something else,
// until the Gateway ends. It does so, and tells of it, at most once in changeEvery. A
// backend that is heard of for the first time is built at once, because requests may
// wait for it; it is told of in its turn.
func (g *Gateway) keepCatalog() {
	var quiet <-chan time.Time // until it fires, nothing is told
	var wanted, built, changed bool
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-quiet:
			quiet = nil
		case <-g.rebuild:
			wanted = true
		}
		if wanted && (quiet == nil || g.view.Load().mustBuildNow()) {
			wanted, built = false, true
			changed = g.swapCatalog() || changed
		}
		if quiet != nil || !built {
			continue
		}
		g.changed.wakeAll()
		if changed {
			quiet = time.After(minChangeInterval)
		}
		built, changed = false, false
	}
}

// swapCatalog builds the catalog, and wakes the requests that wait for it. It reports
// whether there is anything to tell a client.
func (g *Gateway) swapCatalog() bool {
	old := g.view.Load()
	known := old.settledLists() // before build: what is heard meanwhile is not in it yet
	offers := old.offers()
	next := &view{cfg: old.cfg, backends: old.backends, settled: known, offered: offers, catalog: old.build(offers)}
	next.discovery = g.discoveryOf(next.catalog)
	next.countNotices(old, offers)
	// A lock would be held while the catalog is built, which takes its time with
	// thousands of items; a lost race costs building it once more.
	if !g.view.CompareAndSwap(old, next) {
		g.requestRebuild() // a reload came between
		return false
	}
	g.logProblems(old.catalog, next.catalog)
	g.built.wakeAll()
	return old.version().diff(next.version()).Any()
}

// logProblems tells the operator what is newly not offered, and why.
func (g *Gateway) logProblems(old, next *catalog.Catalog) {
	for _, p := range next.Problems() {
		// Told once and not with each catalog that has it still.
		if slices.Contains(old.Problems(), p) {
			continue
		}
		g.log.Warn("not offered as listed", slog.String("backend", p.Backend), slog.String("problem", p.String()))
	}
}

// pause waits, but not longer than ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
