// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"
	"sync"
	"weak"
)

// View returns the Catalog with only those entries for which allow returns true. The
// results have private scope. allow is called once for each entry, before View returns,
// and must not keep the entry.
//
// Views of one Catalog share the lists in which they have the same items, and share with
// the Catalog those that it has itself, if Options.Private is set.
func (c *Catalog) View(allow func(*Entry) bool) *Catalog {
	v := c.narrow(allow, func(k Kind) listFreshness { return listFreshness{ttl: c.sections[k].fresh.ttl} })
	v.unlisted = func(*Entry) bool { return false }
	return v
}

// PolicyView is View without the instructions of backends that have no item in it. It has
// a URI that no list has, but that leads to a backend by its label, if unlisted returns true
// for it. unlisted is called for each lookup of such a URI, and must not keep the entry.
func (c *Catalog) PolicyView(allow, unlisted func(*Entry) bool) *Catalog {
	v := c.View(allow)
	v.unlisted = unlisted
	had, has := c.Backends(), v.Backends()
	rest := slices.DeleteFunc(slices.Clone(c.backends), func(b Backend) bool { return had[b.Name] && !has[b.Name] })
	if len(rest) < len(c.backends) {
		v.instructions = mergeInstructions(rest, c.opt.Instructions)
	}
	return v
}

// Backends returns the names of the backends that have an item in the Catalog. The caller owns
// the map.
func (c *Catalog) Backends() map[string]bool {
	names, seen := make(map[string]bool), make([]bool, len(c.uris.backends))
	for k := range NumKinds {
		for e := range c.Entries(k) {
			if !e.IsOwn() && !seen[e.Backend] {
				seen[e.Backend], names[e.BackendName] = true, true
			}
		}
	}
	return names
}

// narrow returns the Catalog with only those entries for which allow returns true, and
// with another freshness of its lists.
func (c *Catalog) narrow(allow func(*Entry) bool, fresh func(Kind) listFreshness) *Catalog {
	v := *c
	if c.shared == nil {
		return &v // the zero value
	}
	v.problems = nil // for the operator only: they name hidden items
	for k := range NumKinds {
		// Listing and calling use the same section: an entry that is removed here
		// cannot be found either.
		v.sections[k] = c.sections[k].narrow(allow, fresh(k), c.shared)
	}
	v.toolBytes = nil
	v.locator.sole = nil
	if c.found != nil {
		v.found = newFound(c.found.Finder, v.sections[Tools], c)
	}
	return &v
}

// narrow returns the part of a section for which allow returns true.
func (s *section) narrow(allow func(*Entry) bool, fresh listFreshness, lists *sharedLists) section {
	shown, n := newPlaces(len(s.entries)), 0
	for e := range s.all() {
		if allow(e) {
			shown.add(e.Place)
			n++
		}
	}
	if n == s.len && fresh == s.fresh {
		return *s
	}
	if n == len(s.entries) {
		shown = nil
	}
	some := part{s.table, shown}
	return section{part: some, len: n, encodedList: lists.of(some, fresh)}
}

// sharedLists are the lists of the views of one Catalog, by their content. It does not keep
// them.
type sharedLists struct {
	mu    sync.Mutex
	known map[sharedKey]weak.Pointer[encodedList]
	most  int // number above which lists that no view has are dropped; 0 for minShared
}

type sharedKey struct {
	kind  Kind
	fresh listFreshness
	shown string
}

const minShared = 1024

// of returns the list of a part of a table, which may be that of another view.
func (s *sharedLists) of(p part, fresh listFreshness) *encodedList {
	key := sharedKey{p.kind, fresh, p.shown.key()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[key].Value(); known != nil {
		return known
	}
	if s.known == nil {
		s.known = make(map[sharedKey]weak.Pointer[encodedList])
	}
	if len(s.known) >= max(s.most, minShared) {
		maps.DeleteFunc(s.known, func(_ sharedKey, p weak.Pointer[encodedList]) bool { return p.Value() == nil })
		s.most = 2 * len(s.known) // so that many views do not make each further one slow
	}
	made := &encodedList{part: p, fresh: fresh}
	s.known[key] = weak.Make(made)
	return made
}
