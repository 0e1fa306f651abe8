// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

// Version stands for everything that a client can list. Versions are comparable,
// small, and mean the same in every process. The zero value is before anything
// was offered.
type Version struct {
	Tools, Prompts, Resources, Templates Digest
}

// Version returns what the lists say, as one value.
func (c *Catalog) Version() Version {
	return Version{
		Tools:     c.sections[Tools].digest,
		Prompts:   c.sections[Prompts].digest,
		Resources: c.sections[Resources].digest,
		Templates: c.sections[Templates].digest,
	}
}

// Changes says which lists differ, one for each notification that there is.
// Templates count as resources.
type Changes struct {
	Tools, Prompts, Resources bool
}

// Any reports whether anything differs.
func (d Changes) Any() bool { return d != Changes{} }

// Diff returns what somebody who knows v has to be told so that they know next.
func (v Version) Diff(next Version) Changes {
	return Changes{
		Tools:     v.Tools != next.Tools,
		Prompts:   v.Prompts != next.Prompts,
		Resources: v.Resources != next.Resources || v.Templates != next.Templates,
	}
}

// Diff returns which lists of two Catalogs differ in what a client can see.
func Diff(before, after *Catalog) Changes {
	return before.Version().Diff(after.Version())
}
