// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import "maps"

// Hides reports whether a backend has an item that would go by the name, and that
// is not offered because the operator says so: by include and exclude, because
// several would have the name, or because a view does not admit it. What is left
// out for its own faults is not hidden, and what is offered by anybody is not
// either.
//
// A client is told the same of a hidden name as of one that never was, so that
// nobody finds out by asking; Hides is for the operator's record, in which an
// attempt at what is hidden differs from a slip of the pen.
func (c *Catalog) Hides(k Kind, name string) bool {
	if !c.hidden[k][name] {
		return false
	}
	_, offered := c.sections[k].find(name) // by another backend
	return !offered
}

// hide returns the hidden names of a view: those of the Catalog, and what the view
// does not admit.
func (c *Catalog) hide(k Kind, after *section) map[string]bool {
	hidden := maps.Clone(c.hidden[k])
	for _, e := range c.sections[k].entries {
		if _, ok := after.find(e.Name); ok {
			continue
		}
		if hidden == nil {
			hidden = make(map[string]bool)
		}
		hidden[e.Name] = true
	}
	return hidden
}
