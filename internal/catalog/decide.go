// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"iter"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/extension"
)

// Verdict is whether a listed item is offered, or the rule by which it is not.
type Verdict uint8

// The verdicts, in the order in which they are decided.
const (
	Offered     Verdict = iota
	BeyondLimit         // its list has Options.MaxItems offered items before it
	Unnamed             // it has no name or URI that can be read
	Repeated            // its backend lists another item with its name before it
	Excluded            // Rules.Exclude
	NotIncluded         // Rules.Include
	Invalid             // it has an error of its own
	Conflict            // others would have its name, and none of them is offered
	Taken               // another has its name or URI first
	Withheld            // the filter of a view or profile
	Held                // Options.Pin, before Invalid
	Reserved            // a tool of the gateway has its name, before Conflict
	AppOnly             // a tool for apps, where none is rendered; after Invalid
	AppsOff             // a page of an app, and the apps of the backend are off; likewise
)

// A Decision is a Verdict about one listed item, with what led to it.
type Decision struct {
	Kind        Kind
	Backend     int    // index in the input
	BackendName string // the configured name
	Place       int    // index in the list of an item that is Unnamed or BeyondLimit
	Own         string // the backend's own name or URI; "" for Unnamed
	Name        string // the name or URI that clients use, or would use
	Verdict     Verdict

	// Pattern is the index of the pattern that excludes the item, or that includes it, or -1.
	Pattern int

	// App is what a tool has about apps.
	App extension.Tool

	// Problem describes the error of an item that is Unnamed or Invalid, or why it is Held.
	Problem string

	// Pin is what Options.Pin has returned.
	Pin Pin

	// Group has the items that would have the name, in order, if there are several.
	Group []*Entry

	entry *Entry
}

// Code returns the code of an item that is Invalid or BeyondLimit because of its size, or "".
func (d *Decision) Code() string {
	if d.Verdict == BeyondLimit || d.Verdict == Invalid && strings.HasSuffix(d.Problem, schemaLimit) {
		return code.ItemTooLarge
	}
	return ""
}

// Tool returns the entry of an item that is a tool and is offered, and otherwise nil.
func (d *Decision) Tool() *Entry {
	if d.Kind != Tools || d.Verdict != Offered {
		return nil
	}
	return d.entry
}

// Explain returns the decisions about the listed items that about accepts: for each kind first
// those that depend on one backend alone. It decides by the same functions as Build: an item is
// Offered if and only if the Catalog of the same input has it and, if allow is not nil, also
// View(allow) of that Catalog. about must not keep the decision.
func Explain(backends []Backend, opt Options, allow func(*Entry) bool, about func(*Decision) bool) []Decision {
	var found []Decision
	b := newBuilder(backends, opt)
	b.see = func(d *Decision) {
		if d.Verdict == Offered && allow != nil && !allow(d.entry) {
			d.Verdict = Withheld
		}
		if about(d) {
			found = append(found, *d)
		}
	}
	for k := range NumKinds {
		b.entries(k)
	}
	return found
}

// entries decides about the items of one kind of all backends, and returns the offered ones,
// in their order.
func (b *builder) entries(k Kind) []*Entry {
	var candidates []*Entry
	for i := range b.in {
		// Its items are unknown, so its rules are not checked either.
		if b.in[i].State != Missing {
			candidates = append(candidates, b.backendEntries(k, i)...)
		}
	}
	return b.unique(k, candidates)
}

// judge returns the decisions about the items of one list of one backend, as far as they do not
// depend on other backends. Each item is judged separately: an invalid one does not affect
// others.
func (b *builder) judge(k Kind, backend int) iter.Seq[*Decision] {
	return func(yield func(*Decision) bool) {
		in := &b.in[backend]
		items := in.Lists[k].Items
		offered, most := 0, limit(b.opt.MaxItems, DefaultMaxItems)
		seen := make(map[string]bool, min(len(items), most))
		var d Decision
		for i, raw := range items {
			pin := b.pin(k, backend, raw)
			e, own, problem := b.newEntry(k, backend, pin.Item)
			d = Decision{Kind: k, Backend: backend, BackendName: in.Name, Place: i, Own: own, Pattern: -1, Problem: problem, entry: e}
			if e != nil {
				d.Name = e.Name
			} else if own != "" {
				d.Name = in.name(k, own)
			}
			switch {
			case offered == most:
				d.Verdict = BeyondLimit
			case own == "":
				d.Verdict = Unnamed
			case seen[own]:
				d.Verdict = Repeated
			default:
				if k.named() {
					d.Verdict, d.Pattern = in.Rules.judge(own)
				}
				switch {
				case d.Verdict != Offered:
				case pin.Held:
					d.Verdict, d.Problem = Held, pin.Problem
				case problem != "":
					d.Verdict = Invalid
				default:
					d.Verdict = b.judgeApps(k, backend, e)
				}
				d.Pin = pin
			}
			if e != nil {
				d.App = e.App
			}
			// Also if the item is left out: a second item with the name is not offered in its
			// place.
			seen[own] = true
			if d.Verdict == Offered {
				offered++
			}
			if !yield(&d) {
				return
			}
		}
	}
}

// decisionOn returns the Decision about an item that the rules of its backend offer.
func (b *builder) decisionOn(e *Entry, v Verdict, group []*Entry) *Decision {
	d := Decision{Kind: e.Kind, Backend: e.Backend, BackendName: e.BackendName, Own: e.Own, Name: e.Name, Verdict: v, Pattern: -1, App: e.App, Pin: b.pins[e], entry: e}
	if e.Kind.named() {
		_, d.Pattern = b.in[e.Backend].Rules.judge(e.Own)
	}
	if len(group) > 1 {
		d.Group = group
	}
	return &d
}

// contest decides about an item in the group of those that would have its name.
func (b *builder) contest(e *Entry, group []*Entry) Verdict {
	// A URI that is a locator means the same resource from any backend, so the first one may own it.
	firstWins := b.opt.FirstWins || !e.Kind.named()
	switch {
	case b.opt.ReadsResults && e.Kind == Tools && e.Name == ReadResult:
		return Reserved
	case len(group) == 1, firstWins && group[0] == e:
		return Offered
	case firstWins:
		return Taken
	default:
		return Conflict
	}
}

// Names returns, for each named item of a list of a backend, its own name or URI and the one
// under which it would be offered. Items without one are omitted.
func (in *Backend) Names(k Kind) iter.Seq2[string, string] {
	return func(yield func(own, name string) bool) {
		for _, raw := range in.Lists[k].Items {
			obj, problem := parseItem(raw)
			if problem != "" {
				continue
			}
			own, problem := identity(k, &obj)
			if problem != "" {
				continue
			}
			if !yield(own, in.name(k, own)) {
				return
			}
		}
	}
}

// Prefixed returns the name that an item of the backend has unless it is renamed.
func (in *Backend) Prefixed(own string) string {
	plain := Rules{Prefix: in.Rules.Prefix}
	return plain.name(in.Name, own)
}
