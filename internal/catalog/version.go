// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

// Version identifies the content of all lists. Versions are comparable, small, and the
// same in every process. The zero value is for the time before anything was offered.
type Version struct {
	Tools, Prompts, Resources, Templates Digest
}

// Version returns the version of the lists.
func (c *Catalog) Version() Version {
	tools := c.sections[Tools].version()
	if c.found != nil && !c.found.Auto {
		short := c.found.short()
		tools = short.version()
	}
	return Version{
		Tools:     tools,
		Prompts:   c.sections[Prompts].version(),
		Resources: c.sections[Resources].version(),
		Templates: c.sections[Templates].version(),
	}
}

// Changes are the lists that differ, one field for each notification of the protocol.
// Templates count as resources.
type Changes struct {
	Tools, Prompts, Resources bool
}

// Any reports whether any list differs.
func (d Changes) Any() bool { return d != Changes{} }

// Diff returns the lists that differ between v and next.
func (v Version) Diff(next Version) Changes {
	return Changes{
		Tools:     v.Tools != next.Tools,
		Prompts:   v.Prompts != next.Prompts,
		Resources: v.Resources != next.Resources || v.Templates != next.Templates,
	}
}

// Diff returns the lists of two Catalogs that differ for a client.
func Diff(before, after *Catalog) Changes {
	return before.Version().Diff(after.Version())
}
