// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"
)

// View returns the Catalog with only those entries for which allow returns true. The
// results have private scope. allow is called once for each entry, before View returns,
// and must not keep the entry.
func (c *Catalog) View(allow func(*Entry) bool) *Catalog {
	return c.narrow(allow, func(k Kind) listFreshness { return listFreshness{ttl: c.sections[k].fresh.ttl} })
}

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
		v.sections[k] = newSection(k, entries, fresh(k), c.opt)
		v.hidden[k] = c.hide(k, &v.sections[k])
	}
	v.toolBytes = toolBytes(v.sections[Tools].entries)
	v.locator = c.locator.view(c, &v)
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
