// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// uriIndex finds the backends of URIs that are names (see package extension). The views and the
// profiles of a Catalog share it. Backends are given by their index in the input of Build.
type uriIndex struct {
	backends []uriBackend
	of       map[string]*Entry   // by label, an Entry without a name
	own      map[string][]*Entry // by the backend's own URI, the items that have it
}

// uriBackend is what a uriIndex has of a backend.
type uriBackend struct {
	name, label string
	noApps      bool // Backend.NoApps
	reads       bool // it is known to have resources
	hasNames    bool // clients know some URIs of it by others
}

func newURIIndex(c *Catalog) uriIndex {
	x := uriIndex{of: make(map[string]*Entry), own: make(map[string][]*Entry)}
	for i := range c.backends {
		in := &c.backends[i]
		label := in.label()
		x.backends = append(x.backends, uriBackend{
			name: in.Name, label: label, noApps: in.NoApps,
			reads:    in.State != Missing && Resources.declaredIn(in.Capabilities),
			hasNames: label != "" && (extension.Declares(in.Capabilities, extension.UI) || Skills.declaredIn(in.Capabilities)),
		})
		if label != "" {
			x.of[label] = &Entry{Kind: Resources, Backend: i, BackendName: in.Name}
		}
	}
	for _, k := range []Kind{Resources, Templates, Tools, Skills} {
		for e := range c.Entries(k) {
			uris := e.uses
			if !k.usesURIs() && e.Own != e.Name {
				uris = []string{e.Own}
			}
			if len(uris) == 0 || x.backends[e.Backend].label == "" {
				continue
			}
			x.backends[e.Backend].hasNames = true
			for _, uri := range uris {
				x.own[uri] = append(x.own[uri], e)
			}
		}
	}
	return x
}

// HasNames reports whether clients know some URIs of a backend, by its index in the input of
// Build, by others than its own.
func (c *Catalog) HasNames(backend int) bool { return c.uris.backends[backend].hasNames }

// Owner returns an Entry without a name of the backend with the label that is in a URI.
func (c *Catalog) Owner(uri string) (*Entry, bool) {
	label, _, ok := extension.InnerURI(uri)
	if !ok {
		return nil, false
	}
	e, ok := c.uris.of[label]
	return e, ok
}

// outer returns the URI under which clients know one of a backend.
func (c *Catalog) outer(backend int, own string) string {
	return extension.OuterURI(c.uris.backends[backend].label, own)
}

// Plain returns the plain form of the URI of a resource that rules are about: see [Entry.Offered]
// and [glob.PlainURI]. A label is not part of what it changes.
func (e *Entry) Plain() string { return e.plain(e.Offered()) }

// PlainName is Plain for Name.
func (e *Entry) PlainName() string { return e.plain(e.Name) }

func (e *Entry) plain(uri string) string {
	if label, own, ok := extension.InnerURI(uri); ok && own == e.Own {
		return extension.OuterURI(label, glob.PlainURI(own))
	}
	return glob.PlainURI(uri)
}

// locateName is locate for a URI that is a name and that no list has. The first rule that applies
// counts:
//
//   - the backend with the label that is in the URI, if it has resources here, and none of its templates
//     that are Held matches alone;
//   - the only backend here that lists the URI as its own, or has a tool with it;
//   - the only backend here that has a template for it.
//
// ok is false if none applies.
func (c *Catalog) locateName(uri string) (e, from *Entry, ok bool) {
	bare, bareFrom, several := c.locateBare(uri)
	e, from, isHeld := c.locateLabel(uri, bare, bareFrom)
	if e != nil {
		return e, from, true
	}
	return bare, bareFrom, bare != nil || several || isHeld
}

// locateLabel returns the entry for a URI with the label of a backend with resources here, or nil. isHeld
// reports that a template that is Held has the resource. bare is what locateBare has found.
func (c *Catalog) locateLabel(uri string, bare, bareFrom *Entry) (e, from *Entry, isHeld bool) {
	owner, ok := c.Owner(uri)
	if !ok || !c.uris.backends[owner.Backend].reads || !c.hasBackend(owner.BackendName) {
		return nil, nil, false
	}
	_, own, _ := extension.InnerURI(uri)
	if e, from = c.known(owner.Backend, own); e != nil {
		return e, from, false
	}
	// The name of a backend is often the begin of its own URIs.
	if bare != nil && bare.Backend == owner.Backend {
		return bare, bareFrom, false
	}
	if c.locator.heldFor(owner.Backend, own) != nil {
		return nil, nil, true
	}
	if e = c.unlistedEntry(owner.Backend, own); e != nil {
		return e, owner, false
	}
	return nil, nil, false
}

// locateBare returns the entry for a URI as its backend writes it. several reports that more than
// one backend has it.
func (c *Catalog) locateBare(uri string) (e, from *Entry, several bool) {
	add := func(backend int, found func(backend int, own string) (*Entry, *Entry)) {
		if e != nil && e.Backend == backend {
			return
		}
		switch next, nextFrom := found(backend, uri); {
		case next == nil:
		case e != nil:
			several = true
		default:
			e, from = next, nextFrom
		}
	}
	for _, item := range c.uris.own[uri] {
		add(item.Backend, c.listed)
	}
	if e == nil {
		for backend := range c.uris.backends {
			if c.uris.backends[backend].label != "" {
				add(backend, c.byTemplate)
			}
		}
	}
	if several {
		return nil, nil, true
	}
	return e, from, false
}

// known returns the entry for a backend's own URI, if a list of the backend has something about
// it.
func (c *Catalog) known(backend int, own string) (e, from *Entry) {
	if e, from = c.listed(backend, own); e != nil {
		return e, from
	}
	return c.byTemplate(backend, own)
}

// usesURIs reports whether items of the kind have the URIs of resources in them.
func (k Kind) usesURIs() bool { return k == Tools || k == Skills }

// listed returns the entry for a URI that the backend lists, or that one of its tools or skills
// has.
func (c *Catalog) listed(backend int, own string) (e, from *Entry) {
	if e, ok := c.sections[Resources].find(c.outer(backend, own)); ok && e.Backend == backend {
		return e, nil
	}
	for _, item := range c.uris.own[own] {
		if !item.Kind.usesURIs() || item.Backend != backend {
			continue
		}
		if shown, ok := c.Find(item.Kind, item.Name); ok && shown.Backend == backend {
			if e = c.unlistedEntry(backend, own); e != nil {
				return e, &Entry{Kind: Resources, Backend: backend, BackendName: item.BackendName}
			}
		}
	}
	return nil, nil
}

// byTemplate returns the entry for a URI for which the backend has a template.
func (c *Catalog) byTemplate(backend int, own string) (e, from *Entry) {
	e = c.entry(backend, own)
	from = c.match(c.withholds(e), func(p *pattern) string {
		switch {
		case p.entry.Backend != backend:
			return ""
		case p.entry.Own == p.entry.Name:
			return own
		default:
			return e.Name
		}
	})
	if from == nil {
		return nil, nil
	}
	return e, from
}

// unlistedEntry returns the entry for a URI of a backend that no list has, or nil if the Catalog
// does not have it.
func (c *Catalog) unlistedEntry(backend int, own string) *Entry {
	e := c.entry(backend, own)
	if c.unlisted != nil && !c.unlisted(e) || c.withholds(e) {
		return nil
	}
	return e
}

// entry returns an entry for a resource that is in no list.
func (c *Catalog) entry(backend int, own string) *Entry {
	e := &Entry{Kind: Resources, Backend: backend, BackendName: c.uris.backends[backend].name, Name: c.outer(backend, own), Own: own}
	if c.one != nil {
		e.offered = c.one.offeredName(Resources, own)
	}
	return e
}

// withholds reports whether the Catalog does not have a resource that some list of Build has had, or
// that is a page of an app where those are off.
func (c *Catalog) withholds(e *Entry) bool {
	return c.sections[Resources].removes(e.Name) || c.hidden[Resources][e.Name] || c.uris.backends[e.Backend].noApps && extension.IsPage(e.Own)
}

// hasBackend reports whether a backend is in the profile of the Catalog.
func (c *Catalog) hasBackend(name string) bool {
	return slices.ContainsFunc(c.backends, func(b Backend) bool { return b.Name == name })
}

// ownMatch returns a URI that matches a pattern only as its backend writes it, and the one that clients
// use, or "" if there is none.
func (c *Catalog) ownMatch(pattern string) (own, outer string) {
	if !extension.IsName(pattern) {
		return "", ""
	}
	for _, k := range []Kind{Resources, Templates} {
		for e := range c.Entries(k) {
			switch {
			case glob.Match(pattern, e.Name):
				return "", ""
			case own == "" && glob.Match(pattern, e.Own):
				own, outer = e.Own, e.Name
			}
		}
	}
	return own, outer
}

// templateOf returns the only template here that its backend writes so.
func (c *Catalog) templateOf(own string) (*Entry, bool) {
	var found *Entry
	for _, e := range c.uris.own[own] {
		if e.Kind != Templates || !c.sections[Templates].shown.has(e.Place) {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = e
	}
	return found, found != nil
}

// hidesName reports whether Hides is true for a URI as some backend writes it.
func (c *Catalog) hidesName(uri string) bool {
	for backend := range c.uris.backends {
		if outer := c.outer(backend, uri); outer != uri && (c.sections[Resources].removes(outer) || c.hidden[Resources][outer]) {
			return true
		}
	}
	return false
}
