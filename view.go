// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/bound"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// view is a configuration in use: its backends in file order, and the catalog of what
// they offer. It is immutable and replaced as a whole, so that each request uses one of
// them.
type view struct {
	cfg      *config.Config
	backends []*activeBackend
	offered  []*backend.Offer // of each backend
	catalog  *catalog.Catalog
	built    bool // the catalog is of what is offered; otherwise it is that of the view before

	rendered bool      // it is for clients that render apps
	hasApps  bool      // a backend may have an app, so that those have another view; set by derive
	ownNames *ownNames // of the configuration

	filters *bound.Filters // nil without filters; set by derive
	cuts    bool           // results of some tool may be cut; likewise

	advice func() map[string]int // returns adviceOf; likewise
	pages  func() pages          // returns pagesOf; nil before the first lists

	heldFiles func() map[[2]string]bool // returns heldFilesOf; likewise

	pins    *pinsInUse
	policy  *policyInUse // nil without a policy
	items   *policyItems // of the whole catalog, also in a part of the view; likewise
	classes *classViews  // likewise
	class   *classView   // if this is the view of a class

	users *userViews // nil if each backend lists for anybody, and in the view of a user

	passing map[string]bool // the profiles that pass all extensions, or nil; set by derive

	discovery func() (*mcp.Result, error) // returns the server/discover of the catalog
	profiles  map[string]func() *view     // return the parts of the view that profiles select
	replaced  chan struct{}               // closed when another view is in use

	// announced counts, for each kind of list, the changes that backends have
	// announced. counted holds the notices of each backend that are in announced.
	// announcedBy counts the changes by the name of the backend, for profiles. All are
	// immutable.
	announced   [catalog.NumKinds]uint64
	counted     map[*backend.Backend]notices
	announcedBy map[string]notices
}

// notices counts, for each list of a backend, how often the backend announced a change.
type notices = [catalog.NumKinds]uint64

// backendOf returns the backend of an entry. An entry from a slightly older catalog may
// be of a backend that has moved or was removed.
func (v *view) backendOf(entry *catalog.Entry) (*activeBackend, bool) {
	if i := entry.Backend; i >= 0 && i < len(v.backends) && v.backends[i].Name() == entry.BackendName {
		return v.backends[i], true
	}
	return v.backend(entry.BackendName)
}

// backend returns the backend of that name.
func (v *view) backend(name string) (*activeBackend, bool) {
	i := slices.IndexFunc(v.backends, func(b *activeBackend) bool { return b.Name() == name })
	// Not found is not an error here: the caller answers as for an unknown name.
	if i < 0 {
		return nil, false
	}
	return v.backends[i], true
}

// anyBackend is a condition that every backend meets.
func anyBackend(*activeBackend) bool { return true }

// mustBuildNow reports whether there is a list or a change that the catalog lacks and
// that requests may be waiting for.
func (v *view) mustBuildNow() bool {
	if !v.built || v.outdated(anyBackend) {
		return true
	}
	for i, b := range v.backends {
		if !b.Offer().AnsweredAs(v.offered[i]) {
			return true
		}
	}
	return false
}

// isBehind reports whether a backend that wanted accepts has noted a change that the
// catalog lacks.
func (v *view) isBehind(wanted func(*activeBackend) bool) bool {
	for i, b := range v.backends {
		if wanted(b) && b.IsBehind(v.offered[i]) {
			return true
		}
	}
	return false
}

// outdated reports whether a backend that wanted accepts became known after the catalog
// was built, or has changes since then that requests may be waiting for.
func (v *view) outdated(wanted func(*activeBackend) bool) bool {
	for i, b := range v.backends {
		if o := b.Offer(); wanted(b) && (!v.offered[i].Known() && o.Known() || o.IsNewer(v.offered[i])) {
			return true
		}
	}
	return false
}

// offers returns the current offer of each backend.
func (v *view) offers() []*backend.Offer {
	offers := make([]*backend.Offer, len(v.backends))
	for i, b := range v.backends {
		offers[i] = b.Offer()
	}
	return offers
}

// countNotices adds the new notices of the backends to announced. A kind of list that
// several backends announced has changed once: clients are notified once.
func (v *view) countNotices(before *view, offers []*backend.Offer) {
	v.counted = make(map[*backend.Backend]notices, len(v.backends))
	var news [catalog.NumKinds]bool
	newsBy := make(map[string]notices)
	for i, b := range v.backends {
		v.counted[b.Backend] = offers[i].Notices
		for k, n := range offers[i].Notices {
			if n != before.counted[b.Backend][k] {
				news[k] = true
				own := newsBy[b.Name()]
				own[k]++
				newsBy[b.Name()] = own
			}
		}
	}
	v.announcedBy = addAnnounced(before.announcedBy, newsBy)
	for k, isNew := range news {
		if isNew {
			v.announced[k]++
		}
	}
}

// successor returns the beginning of a view that replaces this one: with the configuration in use, and
// with what was announced until now, so that none of it is announced again.
func (v *view) successor() *view {
	return &view{
		cfg: v.cfg, pins: v.pins, policy: v.policy, rendered: v.rendered, ownNames: v.ownNames,
		announced: v.announced, counted: v.counted, announcedBy: v.announcedBy, replaced: make(chan struct{}),
	}
}

// version is the state that a listener is compared by: for each list its content, and
// the announced changes, which may not be visible in the content.
type version [catalog.NumKinds]struct {
	content   catalog.Digest
	announced uint64
}

func (v *view) version() (now version) {
	for k, content := range v.catalog.Version() {
		now[k].content = content
	}
	for k, n := range v.announced {
		now[k].announced = n
	}
	return now
}

// diff returns the changes that a listener at v must be notified of to be at next.
func (v version) diff(next version) (changed listen.Lists) {
	lists := [catalog.NumKinds]listen.Lists{catalog.Tools: listen.Tools, catalog.Prompts: listen.Prompts, catalog.Resources: listen.Resources, catalog.Templates: listen.Resources}
	for k := range v {
		if v[k] != next[k] {
			changed |= lists[k]
		}
	}
	return changed
}

// offerOf returns the offer of a backend in this view, or an empty one.
func (v *view) offerOf(b *activeBackend) *backend.Offer {
	for i, own := range v.backends {
		if own.Backend == b.Backend {
			return v.offered[i]
		}
	}
	return new(backend.Offer)
}

// listsOf returns what a backend offers in this view.
func (v *view) listsOf(b *activeBackend) backend.Lists { return v.offerOf(b).Lists }

// build builds the catalog from offers. The result depends on the configuration and the
// offers alone, not on the order in which the backends answered.
func (v *view) build(offers []*backend.Offer) *catalog.Catalog {
	c := catalog.Build(v.input(offers))
	for i, b := range v.backends {
		if c.HasNames(i) {
			b.hasNames.Store(true)
		}
	}
	return c
}

// input returns what the catalog of offers is built from.
func (v *view) input(offers []*backend.Offer) ([]catalog.Backend, catalog.Options) {
	backends := make([]catalog.Backend, 0, len(v.backends))
	for i, b := range v.backends {
		in := b.input(offers[i])
		in.NoApps, in.Untyped = v.cfg.HasNoApps(&b.srv), v.cfg.ListsUntyped(in.Name)
		if in.Unpinned = b.isOwn(offers[i]); !in.Unpinned {
			in.Instructions = v.pins.instructions(in.Name, in.Instructions)
		}
		backends = append(backends, in)
	}
	judge := v.pins.judgeItem
	if v.rendered {
		judge = v.pins.judgeAppItem
	}
	return backends, catalog.Options{
		FirstWins:    v.cfg.Conflict == config.ConflictFirst,
		Instructions: v.cfg.Instructions,
		Apps:         v.appOptions(),
		MaxItems:     v.cfg.Limits.ToolsPerBackend,
		MaxSchema:    int(v.cfg.Limits.Schema),
		Profiles:     catalogProfiles(v.cfg),
		Private:      v.policy != nil || v.users != nil || v.hasUsers(offers),
		Patterns:     itemPatterns(v.cfg),
		Absent:       absentNames(v.cfg),
		Pin:          judge,
		ReadsResults: v.cfg.CutsResults(),
	}
}

// hasUsers reports whether a backend lists only for users that are signed in.
func (v *view) hasUsers(offers []*backend.Offer) bool {
	for i, b := range v.backends {
		if b.listsPerUser(offers[i]) {
			return true
		}
	}
	return false
}

// input returns an offer with the operator's rules for it.
func (b *activeBackend) input(o *backend.Offer) catalog.Backend {
	in := catalog.Backend{
		Name:         b.Name(),
		Rules:        catalog.Rules{Prefix: b.srv.Prefix, Rename: b.srv.Rename, Include: b.srv.Include, Exclude: b.srv.Exclude},
		State:        catalogState(o),
		Capabilities: o.Server.Capabilities,
		Instructions: o.Instructions,
		Lists:        o.Lists,
	}
	if b.needsGate(o) {
		return b.gateInput(in)
	}
	return in
}

// catalogState converts the state of an offer for the catalog: fresh, stale, or
// missing. Starting and down are both missing: nothing is known, and the names that the
// backend may have are reserved for it.
func catalogState(o *backend.Offer) catalog.State {
	switch o.State {
	case backend.Live, backend.Idle:
		return catalog.Live
	case backend.Stale, backend.Kept:
		return catalog.Stale
	default:
		return catalog.Missing
	}
}

// minChangeInterval is the shortest time between two catalogs after the first lists
// were returned, and so between two notifications to a client.
const minChangeInterval = time.Second

// requestRebuild requests another catalog. It does not block; many requests merge into
// one.
func (g *Gateway) requestRebuild() {
	select {
	case g.rebuild <- struct{}{}:
	default:
	}
}

// keepCatalog builds the catalog again whenever an offer changes, until the Gateway
// closes. It builds and notifies listeners at most once in minChangeInterval. It
// includes the first answer of a backend at once, because requests may wait for it, and
// notifies of it after the interval.
func (g *Gateway) keepCatalog() {
	var quiet <-chan time.Time // until it fires, no notifications
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
// whether clients must be notified.
func (g *Gateway) swapCatalog() bool {
	old := g.view.Load()
	offers := old.offers()
	next := old.successor()
	next.rendered, next.backends, next.offered, next.built = g.onlyClient.renders(), old.backends, offers, true
	next.catalog = next.build(offers)
	next.countNotices(old, offers)
	g.derive(next, old)
	// Not under a lock, because building the catalog takes long with thousands of
	// items. If another view was stored meanwhile, it is built once more.
	if !g.view.CompareAndSwap(old, next) {
		g.requestRebuild() // a reload came in between
		return false
	}
	close(old.replaced)
	if !slices.Equal(old.users.backends(), next.users.backends()) {
		g.userLists.look()
	}
	g.metrics.KeepTools(next.offersTool)
	for i, b := range next.backends {
		if i < len(old.offered) {
			g.noteChangedDefinitions(next, old.offered[i], offers[i], b.Name())
		}
	}
	g.logProblems(old.catalog.Problems(), next.catalog.Problems())
	return old.version().diff(next.version()) != 0
}

// logProblems logs the problems that the previous catalog did not have.
func (g *Gateway) logProblems(old, next []catalog.Problem) {
	for _, p := range next {
		// Log each problem once, not with each catalog that has it.
		if slices.Contains(old, p) {
			continue
		}
		attrs := []slog.Attr{slog.String("backend", p.Backend)}
		if p.Profile != "" {
			attrs = []slog.Attr{slog.String("profile", p.Profile)}
		}
		if p.Place != "" {
			attrs = nil
		}
		if p.Code != "" {
			attrs = append(attrs, slog.String("code", p.Code))
		}
		g.log.LogAttrs(context.Background(), slog.LevelWarn, "not offered as listed", append(attrs, slog.String("problem", p.String()))...)
	}
}
