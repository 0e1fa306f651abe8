// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/extension"
)

// readSkill gives a skill and its files the URIs by which clients know them. It returns the reason
// if the skill cannot be offered.
func (e *Entry) readSkill(label string) (reason string) {
	e.Name = extension.OuterURI(label, e.Own)
	if reason = extension.SkillProblem(e.item); reason != "" {
		return reason
	}
	for _, uri := range extension.SkillURIs(e.item) {
		if extension.OuterURI(label, uri) != uri {
			e.uses = append(e.uses, uri)
		} else {
			e.files = append(e.files, uri)
		}
	}
	e.item = extension.OuterSkill(label, e.item)
	return ""
}

// filesOfSkills returns the skills that have a file or a directory, by its URI, if that is the same for
// clients and the backend.
func filesOfSkills(c *Catalog) map[string][]*Entry {
	files := make(map[string][]*Entry)
	for e := range c.Entries(Skills) {
		for _, uri := range e.files {
			files[uri] = append(files[uri], e)
		}
	}
	return files
}

// ofSkill returns an Entry without a name of the first backend with a skill that has a file or a
// directory with this URI.
func (c *Catalog) ofSkill(uri string) *Entry {
	for _, skill := range c.files[uri] {
		if _, ok := c.sections[Skills].find(skill.Name); !ok {
			continue
		}
		if c.unlisted == nil || c.unlisted(c.entry(skill.Backend, uri)) {
			return &Entry{Kind: Resources, Backend: skill.Backend, BackendName: skill.BackendName}
		}
	}
	return nil
}

// Skills returns what the gateway declares of the extension for skills: what some backend declares.
func (c *Catalog) Skills() extension.SkillsOffer { return c.skills }

// mergeSkills returns what some backend declares. As for tasks, one that was never reached does not
// count: most have no skills, and the files of skills can be read without the extension.
func mergeSkills(backends []Backend) (all extension.SkillsOffer) {
	for i := range backends {
		if backends[i].State == Missing {
			continue
		}
		of := extension.SkillsOf(backends[i].Capabilities)
		all.Lists = all.Lists || of.Lists
		all.ReadsDirectories = all.ReadsDirectories || of.ReadsDirectories
	}
	return all
}

// Skill returns the entry for the URI of a skill. For one that is in no list it is an Entry without
// JSON of the backend that has the resource, if that backend has skills: "A server MUST answer for
// every skill it serves, whether or not that skill appears in its skills/list result" (SEP-2640,
// "Retrieval via skills/get"). A skill that a view removes, or that is held, has none.
func (c *Catalog) Skill(uri string) (*Entry, bool) {
	if e, ok := c.sections[Skills].find(uri); ok {
		return e, true
	}
	e, ok := c.served(uri, func(o extension.SkillsOffer) bool { return o.Lists })
	if !ok {
		return nil, false
	}
	// The client may have sent the URI as the backend writes it.
	if listed, ok := c.sections[Skills].find(e.Name); ok {
		return listed, true
	}
	if c.Hides(Skills, e.Name) {
		return nil, false
	}
	return &Entry{Kind: Skills, Backend: e.Backend, BackendName: e.BackendName, Name: e.Name, Own: e.Own}, true
}

// Directory returns the entry for the URI of a resource that may be a directory: of a backend that
// reads directories.
func (c *Catalog) Directory(uri string) (*Entry, bool) {
	return c.served(uri, func(o extension.SkillsOffer) bool { return o.ReadsDirectories })
}

// served returns the entry for a resource of a backend that declares something.
func (c *Catalog) served(uri string, declared func(extension.SkillsOffer) bool) (*Entry, bool) {
	e, ok := c.Resource(uri)
	if !ok {
		return nil, false
	}
	i := slices.IndexFunc(c.backends, func(in Backend) bool { return in.Name == e.BackendName })
	if i < 0 || !declared(extension.SkillsOf(c.backends[i].Capabilities)) {
		return nil, false
	}
	return e, true
}
