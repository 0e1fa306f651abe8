// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

// Hides reports whether a backend has an item with this name that is not offered
// because of the operator's settings: include and exclude, a name conflict, or a view.
// Items left out because of their own errors are not hidden, nor are names that another
// backend offers.
//
// Clients receive the same answer for a hidden name as for an unknown one, so that they
// cannot probe for hidden names. Hides is for the audit log, in which an attempt to use
// a hidden name differs from a typing error.
func (c *Catalog) Hides(k Kind, name string) bool {
	if c.sections[k].removes(name) || k == Resources && c.hidesName(name) {
		return true
	}
	_, offered := c.sections[k].find(name) // by another backend
	return c.hidden[k][name] && !offered
}
