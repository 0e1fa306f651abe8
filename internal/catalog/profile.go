// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// A Profile selects a part of a Catalog.
type Profile struct {
	Name string // as configured; unique

	// Backends are the names of its backends; nil means all.
	Backends []string

	// Include and Exclude select tools and prompts by the names under which they are
	// offered; see Rules. They do not apply to resources.
	Include, Exclude []string

	// Finder, if not nil, lets clients search the tools.
	Finder *Finder

	// OwnNames gives the items of the only backend its own names and URIs.
	OwnNames bool

	// PassesExtensions, with OwnNames, is for the caller.
	PassesExtensions bool
}

// Profile returns the part of the Catalog that p selects. It is as if the gateway had
// nothing else, except that names and URIs mean what they mean in the whole Catalog: a
// name that is hidden there because of a conflict stays hidden, and a URI in the list of
// another backend is unknown. It shares the items with c.
//
// With OwnNames it is a Catalog of its own, of one backend.
func (c *Catalog) Profile(p *Profile) *Catalog {
	if p.OwnNames {
		return c.withOwnNames(p)
	}
	backends := p.within(c.backends)
	v := c.narrow(p.Admits, func(k Kind) listFreshness {
		fresh := freshness(k, backends)
		fresh.public = fresh.public && !c.opt.Private && (p.Finder == nil || !p.Finder.Auto || k != Tools)
		return fresh
	})
	v.backends = backends
	v.capabilities = mergeCapabilities(backends, c.opt)
	v.instructions = mergeInstructions(backends, c.opt.Instructions)
	v.skills = mergeSkills(backends)
	// Unlike in a view of single items: a backend of the profile may be asked for all its
	// resources.
	if sole := c.locator.sole; sole != nil && p.Has(sole.BackendName) {
		v.locator.sole = sole
	}
	if p.Finder != nil {
		v.withFinder(p.Finder)
	}
	return v
}

// Judge returns the verdict of the profile about an item that the Catalog offers under a name:
// Offered, Withheld if its backend is not in the profile, Excluded or NotIncluded. pattern is
// the index of the pattern that decided, or -1. It is the one function that decides what a
// profile has.
func (p *Profile) Judge(k Kind, backend, name string) (v Verdict, pattern int) {
	switch {
	case !p.Has(backend):
		return Withheld, -1
	case !k.named():
		return Offered, -1
	default:
		return p.rules().judge(name)
	}
}

// Admits reports whether an offered item is in the profile.
func (p *Profile) Admits(e *Entry) bool {
	if e.IsOwn() {
		return true
	}
	v, _ := p.Judge(e.Kind, e.BackendName, e.Name)
	return v == Offered
}

// Has reports whether a backend is in the profile.
func (p *Profile) Has(backend string) bool {
	return p.Backends == nil || slices.Contains(p.Backends, backend)
}

// rules returns the Rules of the profile, which refer to offered names.
func (p *Profile) rules() *Rules { return &Rules{Include: p.Include, Exclude: p.Exclude} }

func (p *Profile) within(all []Backend) []Backend {
	return slices.DeleteFunc(slices.Clone(all), func(b Backend) bool { return !p.Has(b.Name) })
}

// ToolBytesOf returns the number of the tools that a profile lists, and the size of their
// definitions. With a Finder it is that of the short list.
func (c *Catalog) ToolBytesOf(p *Profile) (tools, bytes int) {
	add := func(e *Entry) {
		if p.Finder == nil || p.Finder.lists(e) {
			tools++
			bytes += len(e.item)
		}
	}
	for e := range c.Entries(Tools) {
		if p.Admits(e) && (p.Finder == nil || !p.Finder.has(e.Name)) {
			add(e)
		}
	}
	if p.Finder != nil {
		for _, e := range p.Finder.tools() {
			add(e)
		}
	}
	return tools, bytes
}

// checkProfiles reports rules of profiles that match nothing, if all items are known.
func (b *builder) checkProfiles(c *Catalog) {
	for i := range b.opt.Profiles {
		p := &b.opt.Profiles[i]
		unknown := func(in Backend) bool { return !in.isKnown(Tools) || !in.isKnown(Prompts) }
		var always []string
		if p.Finder != nil {
			always = p.Finder.Always
		}
		if len(p.Include)+len(p.Exclude)+len(always) == 0 || slices.ContainsFunc(p.within(b.in), unknown) {
			continue
		}
		var names, tools []string
		for _, k := range []Kind{Tools, Prompts} {
			for e := range c.Entries(k) {
				if p.Has(e.BackendName) {
					names = append(names, e.Name)
				}
				if k == Tools && p.Admits(e) {
					tools = append(tools, e.Name)
				}
			}
		}
		for _, rule := range slices.Concat(p.rules().unused(names), unusedPatterns("always", always, tools)) {
			if !b.opt.mayBeAbsent(rule.Of) {
				b.report.problems = append(b.report.problems, Problem{Profile: p.Name, Text: rule.unusedText(), Code: code.NameUnusedRule, Rule: rule})
			}
		}
	}
}

// checkPatterns reports patterns that match nothing, if all items are known. A pattern of URIs may
// be about one that a template has.
func (b *builder) checkPatterns(c *Catalog) {
	for _, p := range b.opt.Patterns {
		matches := func(e *Entry) bool { return glob.Match(p.Pattern, e.Name) }
		found := strings.Contains(p.Pattern, ":") || b.opt.mayBeAbsent(p.Pattern) || slices.ContainsFunc(ownTools, matches)
		for k := range NumKinds {
			found = found || slices.ContainsFunc(c.sections[k].entries, matches) || slices.ContainsFunc(b.in, func(in Backend) bool { return !in.isKnown(k) })
		}
		if own, outer := c.ownMatch(p.Pattern); own != "" {
			b.report.problems = append(b.report.problems, Problem{Place: p.Place, Code: code.AppURI, Text: fmt.Sprintf("%s matches %s, as the server writes it, and not %s, which rules are about", quote(p.Pattern), quote(own), quote(outer))})
		}
		if !found {
			b.report.problems = append(b.report.problems, Problem{Place: p.Place, Text: quote(p.Pattern) + " matches no tool, prompt or resource", Code: code.NameUnusedRule})
		}
	}
}
