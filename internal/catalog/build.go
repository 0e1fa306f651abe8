// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/extension"
)

// A Catalog is the items offered at one moment. It is immutable, and its methods may be
// called concurrently. The zero value offers nothing and answers no list; Build without
// backends makes an empty Catalog.
type Catalog struct {
	backends     []Backend // the input of Build, or of it those of a profile
	sections     [NumKinds]section
	shared       *sharedLists // by the views of this Catalog
	locator      locator
	uris         uriIndex
	unlisted     func(*Entry) bool         // of a view: whether it has a URI that no list has; nil in a Catalog of Build
	hidden       [NumKinds]map[string]bool // by Build; see Hides
	capabilities []byte
	instructions string
	skills       extension.SkillsOffer // of the backends
	files        map[string][]*Entry   // see filesOfSkills
	toolBytes    map[string]int        // by the backend's name; nil in a view
	problems     []Problem
	opt          Options
	found        *found          // of a profile with a Finder, or nil
	one          *Backend        // of a profile with OwnNames, or nil
	passes       bool            // a profile with PassesExtensions
	apps         map[string]bool // the names of the backends that have an app
	appNames     map[string][]string
}

// Build makes a Catalog from the lists of the backends, in the order of the
// configuration. It may keep the bytes of the items, and does not change them: a
// renamed, repaired or marked item is a copy.
func Build(backends []Backend, opt Options) *Catalog {
	b := newBuilder(backends, opt)
	c := &Catalog{
		backends:     backends,
		opt:          opt,
		shared:       new(sharedLists),
		capabilities: mergeCapabilities(backends, opt),
		instructions: mergeInstructions(backends, opt.Instructions),
		skills:       mergeSkills(backends),
	}
	// Each kind separately: a prompt may have the name of a tool, and each list has its
	// own pages.
	for k := range NumKinds {
		entries := b.entries(k)
		if k == Tools && opt.ReadsResults {
			entries = slices.Insert(entries, 0, opt.Apps.showOwn(&readResultTool))
		}
		fresh := freshness(k, backends)
		if opt.Private {
			fresh.public = false
		}
		c.sections[k] = newSection(k, entries, fresh, opt)
	}
	c.uris = newURIIndex(c)
	// After all kinds, because a rule applies to tools and prompts alike and is unused
	// only if it matches neither.
	b.checkRules()
	b.checkProfiles(c)
	b.checkFinders(c)
	b.checkPatterns(c)
	b.checkToolNames(c.sections[Tools].entries)
	b.checkAppNames()
	c.toolBytes = c.sumToolBytes()
	c.locator = newLocator(backends, c.sections[Templates].entries, b.held)
	c.files = filesOfSkills(c)
	c.apps, c.appNames = b.apps, b.appNames
	c.hidden = b.hidden
	c.problems = b.report.problems
	return c
}

// ToolBytes returns the size of the definitions of a backend's tools, as they are listed.
func (c *Catalog) ToolBytes(backend string) int {
	if c.toolBytes == nil {
		return c.sumToolBytes()[backend]
	}
	return c.toolBytes[backend]
}

// sumToolBytes returns the sum of the sizes of the tools, for each backend.
func (c *Catalog) sumToolBytes() map[string]int {
	sizes := make(map[string]int)
	for e := range c.Entries(Tools) {
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
	held   []*Entry        // the templates that are Held, with the backend's own URI
	pins   map[*Entry]Pin  // those of offered items that have a Problem
	apps   map[string]bool // the names of the backends that have an app

	// appNames are the own names of the tools that apps may call, by the name of the backend, which
	// has an app.
	appNames map[string][]string

	see func(*Decision) // nil, or called with the final decision about each item
}

func newBuilder(backends []Backend, opt Options) *builder {
	return &builder{
		in: backends, opt: opt, own: make([][]string, len(backends)), pins: make(map[*Entry]Pin),
		apps: make(map[string]bool), appNames: make(map[string][]string),
	}
}

// backendEntries returns the items of one kind of one backend that are offered unless others
// have their names.
func (b *builder) backendEntries(k Kind, backend int) []*Entry {
	in := &b.in[backend]
	if problem := in.Lists[k].Problem; problem != "" {
		b.report.whole(in.Lists[k].Code, in.Name, problem)
	}
	// Read once and not for each tool.
	areTasks := k == Tools && leavesTasksToTools(in.Capabilities)
	var kept, forApps []*Entry
	for d := range b.judge(k, backend) {
		if k.named() && (d.Verdict == Offered || d.Verdict >= Excluded) {
			b.own[backend] = append(b.own[backend], d.Own)
		}
		if d.Verdict == Offered {
			if areTasks {
				d.entry.showTaskSupport()
			}
			if k == Tools && in.Untyped {
				d.entry.dropOutputSchema()
			}
			if d.Pin.Problem != "" {
				b.report.item(d.Pin.Code, d.BackendName, d.Kind, d.Own, d.Pin.Problem)
				b.pins[d.entry] = d.Pin
			}
			b.reportOddities(d)
			kept = append(kept, d.entry)
			continue
		}
		if d.Verdict == AppOnly {
			forApps = append(forApps, d.entry)
		}
		b.leaveOut(d, len(kept))
		// The items after it are beyond the limit, too.
		if d.Verdict == BeyondLimit && b.see == nil {
			break
		}
	}
	if k == Tools {
		b.noteAppNames(backend, kept, forApps)
		b.showApps(backend, kept)
	}
	return kept
}

// pin returns what Options.Pin decides about an item.
func (b *builder) pin(k Kind, backend int, item json.RawMessage) Pin {
	if b.opt.Pin == nil || b.in[backend].Unpinned {
		return Pin{Item: item}
	}
	return b.opt.Pin(b.in[backend].Name, k, item)
}

// leaveOut records an item that is not offered, whatever other backends list.
func (b *builder) leaveOut(d *Decision, kept int) {
	switch d.Verdict {
	case BeyondLimit:
		b.report.whole(d.Code(), d.BackendName, fmt.Sprintf("%s: only the first %d items are kept (limits.toolsPerBackend)", d.Kind.Method(), kept))
	case Unnamed:
		b.report.item("", d.BackendName, d.Kind, place(d.Place), "left out: "+d.Problem)
	case Repeated:
		b.report.item("", d.BackendName, d.Kind, d.Own, "left out: the backend lists it twice; the first one counts")
	case Excluded, NotIncluded, AppOnly, AppsOff:
		b.hide(d.Kind, d.Name)
	case Held:
		b.hide(d.Kind, d.Name)
		if d.Kind == Templates {
			b.held = append(b.held, &Entry{Kind: Templates, Backend: d.Backend, BackendName: d.BackendName, Name: d.Own, Own: d.Own})
		}
		b.report.withheld(d.Pin.Code, d.BackendName, d.Kind, d.Own, "left out: "+d.Problem)
	case Invalid:
		b.report.item(d.Code(), d.BackendName, d.Kind, d.Own, "left out: "+d.Problem)
	default: // decided elsewhere
	}
	if b.see != nil {
		b.see(d)
	}
}

// reportOddities reports what is unusual in an item that is offered.
func (b *builder) reportOddities(d *Decision) {
	for _, oddity := range []string{d.entry.foreignDialect(), d.entry.secretHeader()} {
		if oddity != "" {
			b.report.item("", d.BackendName, d.Kind, d.Own, "offered as it is: "+oddity)
		}
	}
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
	lost := collisions{firstWins: b.opt.FirstWins || !k.named()}
	kept := slices.DeleteFunc(entries, func(e *Entry) bool {
		group := groups[e.Name]
		verdict := b.contest(e, group)
		if b.see != nil {
			b.see(b.decisionOn(e, verdict, group))
		}
		switch verdict {
		case Offered:
			return false
		case Conflict:
			// The item exists but cannot be called: clients get the answer for an
			// unknown name, and the audit log marks it as hidden.
			b.hide(k, e.Name)
		case Reserved:
			b.report.withheld(code.NameReserved, e.BackendName, k, e.Own, "left out: the gateway has a tool with this name (results); rename it")
			return true
		default: // Taken: the name is offered
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
		if !in.isKnown(Tools) || !in.isKnown(Prompts) {
			continue
		}
		for _, rule := range in.Rules.unused(b.own[i]) {
			b.report.problems = append(b.report.problems, Problem{Backend: in.Name, Text: rule.unusedText(), Code: code.NameUnusedRule, Rule: rule})
		}
	}
}

// checkToolNames reports offered tools with names that model providers reject, once for
// each backend: most often its prefix is the cause.
func (b *builder) checkToolNames(tools []*Entry) {
	count, first := make([]int, len(b.in)), make([]string, len(b.in))
	for _, e := range tools {
		if IsModelName(e.Name) {
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
				MaxModelName, n, quote(first[i])))
		}
	}
}
