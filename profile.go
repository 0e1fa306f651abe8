// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// WithProfile returns a context for the clients of one profile of the configuration:
// [Gateway.ServeHTTP] and [Gateway.SSE] use that of the HTTP request, and
// [Gateway.ServeStdio] that of the call. In [Gateway.Serve] the request names the profile.
//
// To its clients a profile is all that there is. A profile that the configuration does not
// have, or no longer has, is answered with Options.NotFound.
func WithProfile(ctx context.Context, name string) context.Context {
	return server.WithProfile(ctx, name)
}

// viewer is the client of a request and the profile that the request was sent to.
type viewer struct {
	backend.Client

	profile  string
	identity *mcp.Identity // of the request, or nil
}

func viewerOf(req *mcp.Request) viewer {
	return viewer{backend.Client{Peer: req.Client, Principal: req.Principal, Scope: req.Scope}, req.Profile, req.Identity}
}

// followerOf is viewerOf for a listen. Those of a session are for the identity of its latest
// request, and others for that of their own.
func followerOf(req *mcp.Request) viewer {
	of := viewerOf(req)
	if of.Scope != nil {
		of.identity = nil
	}
	return of
}

// owner is the Owner of the client's requests.
func (c viewer) owner() string {
	return (&mcp.Request{Principal: c.Principal, Profile: c.profile}).Owner()
}

// derive sets what follows from the other fields of a view. before is the view that it is made from, or
// nil.
func (g *Gateway) derive(v, before *view) {
	v.filters, v.cuts = compileFilters(v.cfg, before), v.cfg.CutsResults()
	v.passing = passingProfiles(v.cfg)
	v.hasApps = v.mayHaveApps()
	v.advice = sync.OnceValue(v.adviceOf)
	v.pages, v.heldFiles = sync.OnceValue(v.pagesOf), sync.OnceValue(v.heldFilesOf)
	if v.policy != nil {
		v.items = itemsOf(v, before)
	}
	v.discovery = g.discoveryOf(v.catalog)
	g.withClasses(v)
	g.withUsers(v)
	v.profiles = make(map[string]func() *view, len(v.cfg.Profiles))
	for _, p := range catalogProfiles(v.cfg) {
		// When it is used first: most profiles have no client most of the time, and a catalog
		// may be replaced every second.
		v.profiles[p.Name] = sync.OnceValue(func() *view { return g.profileView(v, &p) })
	}
}

// profileView returns the part of a view that a profile selects.
func (g *Gateway) profileView(v *view, p *catalog.Profile) *view {
	part := &view{
		cfg: v.cfg, rendered: v.rendered, hasApps: v.hasApps, ownNames: v.ownNames, filters: v.filters, cuts: v.cuts,
		pins: v.pins, pages: v.pages, heldFiles: v.heldFiles, policy: v.policy, items: v.items, catalog: v.catalog.Profile(p), built: v.built, replaced: v.replaced,
		announced: v.announcedIn(p.Has), announcedBy: v.announcedBy,
	}
	for i, b := range v.backends {
		if p.Has(b.Name()) {
			if p.OwnNames {
				own := *b
				own.bareURIs, b = true, &own
			}
			part.backends, part.offered = append(part.backends, b), append(part.offered, v.offered[i])
		}
	}
	if v.policy != nil && (part.catalog.HasFinder() || part.catalog.HasOwnNames()) {
		part.items = itemsOf(part, v) // at other places, and with the tools of the gateway
	}
	g.withClasses(part)
	part.discovery = g.discoveryOf(part.catalog)
	return part
}

// at returns the part of the view that clients of a profile see: all of it for "", and
// nothing for a profile that the configuration does not have.
func (v *view) at(profile string) *view {
	if profile == "" {
		return v
	}
	if part, ok := v.profiles[profile]; ok {
		return part()
	}
	nothing := &view{cfg: v.cfg, catalog: catalog.Build(nil, catalog.Options{}), built: true, replaced: v.replaced}
	nothing.discovery = func() (*mcp.Result, error) { return nil, errNoProfile }
	return nothing
}

// errNoProfile is the error of a request to a profile that was removed meanwhile.
var errNoProfile = mcp.Errorf(mcp.CodeInvalidRequest, "nothing is here")

// has reports whether the view has a backend.
func (v *view) has(b *activeBackend) bool {
	return slices.ContainsFunc(v.backends, func(own *activeBackend) bool { return own.Backend == b.Backend })
}

// within returns a condition that holds for the backends of a profile for which want holds.
func (g *Gateway) within(profile string, want func(*activeBackend) bool) func(*activeBackend) bool {
	if profile == "" {
		return want
	}
	v := g.view.Load().at(profile)
	return func(b *activeBackend) bool { return v.has(b) && want(b) }
}

// hasProfile reports whether the configuration has a profile.
func (g *Gateway) hasProfile(name string) bool {
	_, ok := g.view.Load().profiles[name]
	return ok
}

// catalogProfiles converts the profiles of a configuration.
func catalogProfiles(cfg *config.Config) []catalog.Profile {
	var all []catalog.Profile
	for _, p := range cfg.AllProfiles() {
		part := catalog.Profile{
			Name: p.Name, Backends: p.Servers, Include: p.Include, Exclude: p.Exclude,
			OwnNames: p.HasOwnNames(), PassesExtensions: p.Passes(),
		}
		if p.HasSearch() {
			part.Finder = &catalog.Finder{Always: p.Always, Split: p.Split, Auto: p.View == config.ViewAuto}
		}
		all = append(all, part)
	}
	return all
}

// removedProfiles returns the names of the profiles that a configuration no longer has.
func removedProfiles(old, next *config.Config) []string {
	var gone []string
	for _, p := range old.AllProfiles() {
		if !slices.ContainsFunc(next.AllProfiles(), func(q config.Profile) bool { return q.Name == p.Name }) {
			gone = append(gone, p.Name)
		}
	}
	return gone
}

// addAnnounced returns before with the changes that backends have announced since. Counts
// are by the names of the backends, and none is dropped: that of a profile changes only if
// one of its backends announces something.
func addAnnounced(before map[string]notices, news map[string]notices) map[string]notices {
	if len(news) == 0 {
		return before
	}
	next := maps.Clone(before)
	if next == nil {
		next = make(map[string]notices)
	}
	for name, added := range news {
		total := next[name]
		for k, n := range added {
			total[k] += n
		}
		next[name] = total
	}
	return next
}

// ProfileStatus is what a profile offers.
type ProfileStatus struct {
	Name       string   `json:"name"`
	View       string   `json:"view"`                 // full, search or auto
	Names      string   `json:"names,omitempty"`      // own, or "" for those of the whole gateway
	Extensions string   `json:"extensions,omitempty"` // pass, or "" for those that are known
	Backends   []string `json:"backends"`             // in the order of the configuration
	Tools      int      `json:"tools"`                // listed; with auto, to clients that are not sent all
	ToolBytes  int      `json:"toolBytes"`            // size of their definitions
}

// profileStatus returns the status of the profiles, in the order of the configuration. It
// makes only the catalogs of those with the names of their server.
func (v *view) profileStatus() []ProfileStatus {
	var all []ProfileStatus
	views := v.cfg.AllProfiles()
	for i, p := range catalogProfiles(v.cfg) {
		s := ProfileStatus{Name: p.Name, View: cmp.Or(views[i].View, config.ViewFull), Backends: []string{}}
		s.Tools, s.ToolBytes = v.catalog.ToolBytesOf(&p)
		if p.OwnNames {
			s.Names = config.NamesOwn
			s.Tools, s.ToolBytes = v.at(p.Name).catalog.ToolBytesOf(&catalog.Profile{Finder: p.Finder})
		}
		if views[i].Passes() {
			s.Extensions = config.ExtensionsPass
		}
		for _, b := range v.backends {
			if p.Has(b.Name()) {
				s.Backends = append(s.Backends, b.Name())
			}
		}
		all = append(all, s)
	}
	return all
}
