// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

// Version identifies the content of the lists of whose changes clients are notified: all but that of
// skills. Versions are comparable, and the same in every process. The zero value is for the time before
// anything was offered.
type Version [NumKinds]Digest

// Version returns the version of the lists.
func (c *Catalog) Version() (v Version) {
	for _, k := range []Kind{Tools, Resources, Templates, Prompts} {
		v[k] = c.sections[k].version()
	}
	if c.found != nil && !c.found.Auto {
		short := c.found.short()
		v[Tools] = short.version()
	}
	return v
}
