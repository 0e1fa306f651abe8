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
	return c.narrow(allow, func(k Kind) listFreshness { return listFreshness{ttl: c.sections[k].fresh.ttl} })
}

// PolicyView is View without the instructions of backends all of whose items are removed.
func (c *Catalog) PolicyView(allow func(*Entry) bool) *Catalog {
	v := c.View(allow)
	hidden := c.backendsWith(nil)
	v.backendsWith(func(backend string) { delete(hidden, backend) })
	if len(hidden) > 0 {
		rest := slices.DeleteFunc(slices.Clone(c.backends), func(b Backend) bool { return hidden[b.Name] })
		v.instructions = mergeInstructions(rest, c.opt.Instructions)
	}
	return v
}

// backendsWith returns the names of the backends with items, and calls f, if it is not nil, for
// each.
func (c *Catalog) backendsWith(f func(backend string)) map[string]bool {
	names := make(map[string]bool)
	for k := range NumKinds {
		for _, e := range c.sections[k].entries {
			if !names[e.BackendName] && f != nil {
				f(e.BackendName)
			}
			names[e.BackendName] = true
		}
	}
	return names
}

// Backends returns the names of the backends that have an item in the Catalog. The caller owns
// the map.
func (c *Catalog) Backends() map[string]bool { return c.backendsWith(nil) }

// narrow returns the Catalog with only those entries for which allow returns true, and
// with another freshness of its lists.
func (c *Catalog) narrow(allow func(*Entry) bool, fresh func(Kind) listFreshness) *Catalog {
	v := *c
	v.problems = nil // for the operator only: they name hidden items
	for k := range NumKinds {
		// Listing and calling use the same section: an entry that is removed here
		// cannot be found either.
		s := &c.sections[k]
		entries := slices.DeleteFunc(slices.Clone(s.entries), func(e *Entry) bool { return !allow(e) })
		if len(entries) == len(s.entries) && fresh(k) == s.fresh {
			v.sections[k] = *s
		} else {
			v.sections[k] = c.shared.section(k, entries, fresh(k), c.opt)
		}
		v.hidden[k] = c.hide(k, &v.sections[k])
	}
	v.toolBytes = toolBytes(v.sections[Tools].entries)
	v.locator = c.locator.view(c, &v)
	if c.found != nil {
		v.found = newFound(c.found.Finder, v.sections[Tools], c.opt)
	}
	return &v
}

// view also hides the removed entries from the search beyond the lists.
func (l *locator) view(before, after *Catalog) locator {
	v := locator{hidden: maps.Clone(l.hidden)}
	if v.hidden == nil {
		v.hidden = make(map[string]bool)
	}
	for e := range before.Entries(Resources) {
		if _, ok := after.sections[Resources].find(e.Name); !ok {
			v.hidden[e.Name] = true
		}
	}
	v.patterns = slices.DeleteFunc(slices.Clone(l.patterns), func(p pattern) bool {
		_, ok := after.sections[Templates].find(p.entry.Name)
		return !ok
	})
	return v
}

// sharedSections are the sections of the views of one Catalog, by their content. It does not
// keep them.
type sharedSections struct {
	mu    sync.Mutex
	known map[sectionKey]weak.Pointer[section]
}

type sectionKey struct {
	kind   Kind
	fresh  listFreshness
	digest Digest
}

// maxShared is the number of sections above which those that no view has are dropped.
const maxShared = 1024

// section returns a section, which may be that of another view.
func (s *sharedSections) section(k Kind, entries []*Entry, fresh listFreshness, opt Options) section {
	key := sectionKey{k, fresh, digest(entries)}
	if known := s.find(key); known != nil {
		return *known
	}
	made := newSection(k, entries, fresh, opt)
	made.kept = &made
	s.add(key, &made)
	return made
}

func (s *sharedSections) find(key sectionKey) *section {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key].Value()
}

func (s *sharedSections) add(key sectionKey, made *section) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = make(map[sectionKey]weak.Pointer[section])
	}
	if len(s.known) >= maxShared {
		maps.DeleteFunc(s.known, func(_ sectionKey, p weak.Pointer[section]) bool { return p.Value() == nil })
	}
	s.known[key] = weak.Make(made)
}
