// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// A Catalog is the items offered at one moment. It is immutable, and its methods may be
// called concurrently. The zero value offers nothing and answers no list; Build without
// backends makes an empty Catalog.
type Catalog struct {
	backends     []Backend // the input of Build
	sections     [NumKinds]section
	locator      locator
	hidden       [NumKinds]map[string]bool // see Hides
	capabilities []byte
	instructions string
	toolBytes    map[string]int // by the backend's name
	problems     []Problem
	opt          Options
}

// Build makes a Catalog from the lists of the backends, in the order of the
// configuration. It may keep the bytes of the items, and does not change them: a
// renamed, repaired or marked item is a copy.
func Build(backends []Backend, opt Options) *Catalog {
	b := builder{in: backends, opt: opt, own: make([][]string, len(backends))}
	c := &Catalog{
		backends:     backends,
		opt:          opt,
		capabilities: mergeCapabilities(backends),
		instructions: mergeInstructions(backends, opt.Instructions),
	}
	// Each kind separately: a prompt may have the name of a tool, and each list has its
	// own pages.
	for k := range NumKinds {
		entries := b.unique(k, b.entries(k))
		c.sections[k] = newSection(k, entries, freshness(k, backends), opt)
	}
	// After all kinds, because a rule applies to tools and prompts alike and is unused
	// only if it matches neither.
	b.checkRules()
	b.checkProfiles(c)
	b.checkToolNames(c.sections[Tools].entries)
	c.toolBytes = toolBytes(c.sections[Tools].entries)
	c.locator = newLocator(backends, c.sections[Templates].entries)
	c.hidden = b.hidden
	c.problems = b.report.problems
	return c
}

// ToolBytes returns the size of the definitions of a backend's tools, as they are listed.
func (c *Catalog) ToolBytes(backend string) int { return c.toolBytes[backend] }

// toolBytes returns the sum of the sizes of the entries, for each backend.
func toolBytes(entries []*Entry) map[string]int {
	sizes := make(map[string]int)
	for _, e := range entries {
		sizes[e.BackendName] += len(e.item)
	}
	return sizes
}

// Problems returns the items that are not offered, or not as intended, with the
// reasons. It must not be changed.
func (c *Catalog) Problems() []Problem { return c.problems }

// builder is one run of Build.
type builder struct {
	in     []Backend
	opt    Options
	report report
	own    [][]string // for each backend, its own names of tools and prompts
	hidden [NumKinds]map[string]bool
}

// entries returns the items of one kind of all backends, in their order.
func (b *builder) entries(k Kind) []*Entry {
	var all []*Entry
	for i := range b.in {
		// Its items are unknown, so its rules are not checked either.
		if b.in[i].State != Missing {
			all = append(all, b.backendEntries(k, i)...)
		}
	}
	return all
}

// backendEntries returns the items of one kind of one backend. Each is checked
// separately: an invalid item does not affect others.
func (b *builder) backendEntries(k Kind, backend int) []*Entry {
	in := &b.in[backend]
	list := &in.Lists[k]
	if list.Problem != "" {
		b.report.whole("", in.Name, list.Problem)
	}
	most := limit(b.opt.MaxItems, DefaultMaxItems)
	seen := make(map[string]bool, min(len(list.Items), most))
	// Read once and not for each tool.
	areTasks := k == Tools && leavesTasksToTools(in.Capabilities)
	var kept []*Entry
	for i, raw := range list.Items {
		if len(kept) == most {
			b.report.whole("", in.Name, fmt.Sprintf("%s: only the first %d items are kept (limits.toolsPerBackend)", k.Method(), most))
			break
		}
		e, name, reason := b.newEntry(k, backend, raw)
		switch {
		case name == "":
			b.report.item("", in.Name, k, place(i), "left out: "+reason)
		// Before admit, which records each name.
		case seen[name]:
			b.report.item("", in.Name, k, name, "left out: the backend lists it twice; the first one counts")
		case !b.admit(k, backend, name):
			// Excluded by the operator.
		case reason != "":
			b.report.item("", in.Name, k, name, "left out: "+reason)
		default:
			if areTasks {
				e.showTaskSupport()
			}
			for _, oddity := range []string{e.foreignDialect(), e.secretHeader()} {
				if oddity != "" {
					b.report.item("", in.Name, k, name, "offered as it is: "+oddity)
				}
			}
			kept = append(kept, e)
		}
		// Also if the item is left out: a second item with the name is not offered in its
		// place.
		seen[name] = true
	}
	return kept
}

// admit applies the operator's rules and records the name for checkRules.
func (b *builder) admit(k Kind, backend int, own string) bool {
	if !k.named() {
		return true
	}
	b.own[backend] = append(b.own[backend], own)
	in := &b.in[backend]
	if in.Rules.offers(own) {
		return true
	}
	b.hide(k, in.Rules.name(in.Name, own))
	return false
}

// hide records a name that would be offered without the operator's settings.
func (b *builder) hide(k Kind, name string) {
	if b.hidden[k] == nil {
		b.hidden[k] = make(map[string]bool)
	}
	b.hidden[k][name] = true
}

// unique keeps one entry for each name: none if several share a name, unless the first
// one wins, and the first if several share a URI.
func (b *builder) unique(k Kind, entries []*Entry) []*Entry {
	groups := make(map[string][]*Entry, len(entries))
	for _, e := range entries {
		groups[e.Name] = append(groups[e.Name], e)
	}
	// A URI means the same resource from any backend, so the first one may own it.
	firstWins := b.opt.FirstWins || !k.named()
	lost := collisions{firstWins: firstWins}
	kept := slices.DeleteFunc(entries, func(e *Entry) bool {
		group := groups[e.Name]
		if len(group) == 1 || firstWins && group[0] == e {
			return false
		}
		if !firstWins {
			// The item exists but cannot be called: clients get the answer for an
			// unknown name, and the audit log marks it as hidden.
			b.hide(k, e.Name)
		}
		lost.add(e, group)
		return true
	})
	lost.report(k, &b.report)
	return kept
}

// checkRules reports rules that match nothing, if all items are known.
func (b *builder) checkRules() {
	for i := range b.in {
		in := &b.in[i]
		if in.State != Live || in.Lists[Tools].Problem != "" || in.Lists[Prompts].Problem != "" {
			continue
		}
		for _, text := range in.Rules.unused(b.own[i]) {
			b.report.whole(code.NameUnusedRule, in.Name, text)
		}
	}
}

// checkToolNames reports offered tools with names that model providers reject, once for
// each backend: most often its prefix is the cause.
func (b *builder) checkToolNames(tools []*Entry) {
	count, first := make([]int, len(b.in)), make([]string, len(b.in))
	for _, e := range tools {
		if isModelName(e.Name) {
			continue
		}
		if count[e.Backend] == 0 {
			first[e.Backend] = e.Name
		}
		count[e.Backend]++
	}
	for i, n := range count {
		if n > 0 {
			b.report.whole(code.NameLong, b.in[i].Name, fmt.Sprintf("tool names that model providers reject (longer than %d characters, or with characters other than letters, digits, _ and -): %d, first %s; set a short prefix, or rename the tools",
				maxModelName, n, quote(first[i])))
		}
	}
}
