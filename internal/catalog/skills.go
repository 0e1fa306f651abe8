// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/extension"
)

// skillURI returns the URI under which a skill of the backend is offered, or a directory or file of
// one.
func (in *Backend) skillURI(own string) string { return extension.OuterURI(in.URILabel(), own) }

// URILabel returns what is in front of the backend's URIs of apps and skills; see
// extension.OuterURI.
func (in *Backend) URILabel() string {
	if !in.Rules.hasPrefix() {
		return ""
	}
	return in.Name
}

// readSkill gives a skill and its files the URIs by which clients know them. It returns the reason
// if the skill cannot be offered.
func (e *Entry) readSkill(in *Backend) (reason string) {
	e.Name = in.skillURI(e.Own)
	e.item = extension.OuterSkill(in.URILabel(), e.item)
	return extension.SkillProblem(e.item)
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
// JSON of the backend that serves the URI, if that has skills: "A server MUST answer for every skill
// it serves, whether or not that skill appears in its skills/list result" (SEP-2640, "Retrieval via
// skills/get"). A skill that a view removes, or that is held, has none.
func (c *Catalog) Skill(uri string) (*Entry, bool) {
	if e, ok := c.sections[Skills].find(uri); ok {
		return e, true
	}
	if c.Hides(Skills, uri) {
		return nil, false
	}
	return c.served(Skills, uri, func(o extension.SkillsOffer) bool { return o.Lists })
}

// Directory returns an Entry without JSON of the backend that serves a URI, if that can read
// directories.
func (c *Catalog) Directory(uri string) (*Entry, bool) {
	return c.served(Resources, uri, func(o extension.SkillsOffer) bool { return o.ReadsDirectories })
}

// served returns an entry of the backend that serves a URI.
func (c *Catalog) served(k Kind, uri string, can func(extension.SkillsOffer) bool) (*Entry, bool) {
	i, own := c.ownerOf(uri)
	if i < 0 || !can(extension.SkillsOf(c.backends[i].Capabilities)) {
		return nil, false
	}
	return &Entry{Kind: k, Backend: i, BackendName: c.backends[i].Name, Name: uri, Own: own}, true
}

// ownerOf returns the index of the backend that serves a URI, and the URI in the backend. It returns
// -1 if there is none.
func (c *Catalog) ownerOf(uri string) (backend int, own string) {
	label, inner, ok := extension.InnerURI(uri)
	if ok {
		if i := slices.IndexFunc(c.backends, func(in Backend) bool { return in.URILabel() == label }); i >= 0 {
			return i, inner
		}
	}
	e, ok := c.Resource(uri)
	if !ok {
		return -1, ""
	}
	return slices.IndexFunc(c.backends, func(in Backend) bool { return in.Name == e.BackendName }), e.Own
}

// URILabel returns that of a backend.
func (c *Catalog) URILabel(backend string) string {
	i := slices.IndexFunc(c.backends, func(in Backend) bool { return in.Name == backend })
	if i < 0 {
		return ""
	}
	return c.backends[i].URILabel()
}
