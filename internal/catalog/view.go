// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"
)

// View returns the Catalog with only those entries that allow admits. The results
// are private: they were made for somebody. allow is called once for each entry,
// before View returns; it must not keep anything of it.
func (c *Catalog) View(allow func(*Entry) bool) *Catalog {
	v := *c
	v.problems = nil // they are the operator's, and name what is hidden
	for k := range NumKinds {
		// What is listed and what may be called are one thing here: a name that is not in the
		// section cannot be found in it either.
		s := &c.sections[k]
		entries := slices.DeleteFunc(slices.Clone(s.entries), func(e *Entry) bool { return !allow(e) })
		v.sections[k] = newSection(k, entries, freshnessOf{ttl: s.fresh.ttl}, c.opt)
		v.hidden[k] = c.hide(k, &v.sections[k])
	}
	v.locator = c.locator.view(c, &v)
	return &v
}

// view hides what is no longer listed from the search beyond the lists too.
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
