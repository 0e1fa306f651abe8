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

// PolicyView is View without the instructions of backends all of whose items are removed. It has
// a URI that no list has, but that leads to a backend by its label, if unlisted returns true
// for it. unlisted is called for each lookup of such a URI, and must not keep the entry.
func (c *Catalog) PolicyView(allow, unlisted func(*Entry) bool) *Catalog {
	v := c.View(allow)
	v.unlisted = unlisted
	has := v.backendsWith()
	hidden := make(map[string]bool)
	for k := range NumKinds {
		for e := range c.Entries(k) {
			if !e.IsOwn() && !has[e.Backend] {
				hidden[e.BackendName] = true
			}
		}
	}
	if len(hidden) > 0 {
		rest := slices.DeleteFunc(slices.Clone(c.backends), func(b Backend) bool { return hidden[b.Name] })
		v.instructions = mergeInstructions(rest, c.opt.Instructions)
	}
	return v
}

// backendsWith returns which backends of the input of Build have an item.
func (c *Catalog) backendsWith() []bool {
	has := make([]bool, c.inputs)
	for k := range NumKinds {
		for e := range c.Entries(k) {
			if !e.IsOwn() {
				has[e.Backend] = true
			}
		}
	}
	return has
}

// Backends returns the names of the backends that have an item in the Catalog. The caller owns
// the map.
func (c *Catalog) Backends() map[string]bool {
	names, has := make(map[string]bool), c.backendsWith()
	for k := range NumKinds {
		for e := range c.Entries(k) {
			if !e.IsOwn() && has[e.Backend] {
				has[e.Backend], names[e.BackendName] = false, true
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
	return section{table: s.table, shown: shown, len: n, encodedList: lists.of(s.table, shown, fresh)}
}

// sharedLists are the lists of the views of one Catalog, by their content. It does not keep
// them.
type sharedLists struct {
	mu    sync.Mutex
	known map[sharedKey]weak.Pointer[encodedList]
}

type sharedKey struct {
	kind  Kind
	fresh listFreshness
	shown string
}

// maxShared is the number of lists above which those that no view has are dropped.
const maxShared = 1024

// of returns the list of a part of a table, which may be that of another view.
func (s *sharedLists) of(t *table, shown places, fresh listFreshness) *encodedList {
	key := sharedKey{t.kind, fresh, shown.key()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[key].Value(); known != nil {
		return known
	}
	if s.known == nil {
		s.known = make(map[sharedKey]weak.Pointer[encodedList])
	}
	if len(s.known) >= maxShared {
		maps.DeleteFunc(s.known, func(_ sharedKey, p weak.Pointer[encodedList]) bool { return p.Value() == nil })
	}
	made := &encodedList{table: t, shown: shown, fresh: fresh}
	s.known[key] = weak.Make(made)
	return made
}
