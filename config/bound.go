// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	"github.com/signalbox-mcp/signalbox/internal/bound"
)

// Filter changes results, or refuses calls by their arguments. It has exactly one of Redact,
// Refuse and Mark.
type Filter struct {
	// On has the patterns of the items that it is for: the names of tools and prompts as
	// clients see them, and the URIs of resources. Nil means all.
	On []string `json:"on"`
	// In is what it examines. Redact and Mark are for results, and Refuse is for arguments.
	In FilterPlace `json:"in"`
	// Redact replaces text in results.
	Redact []Redaction `json:"redact"`
	// Refuse is an expression of CEL, as in the rules of a policy. A call for which it is true,
	// or fails, is refused.
	Refuse string `json:"refuse"`
	// Say is the text for a client that sends such a call.
	Say string `json:"say"`
	// Mark encloses the text of a server in lines that name the server.
	Mark FilterMark `json:"mark"`
}

// FilterPlace is what a filter examines.
type FilterPlace string

const (
	// FilterArguments is for the arguments of calls.
	FilterArguments FilterPlace = "arguments"
	// FilterResults is for results.
	FilterResults FilterPlace = "results"
)

// FilterMark is how a filter marks text.
type FilterMark string

// MarkUntrusted is for text that is not the user's.
const MarkUntrusted FilterMark = "untrusted"

// Redaction replaces what a regular expression matches.
type Redaction struct {
	// Match is a regular expression of RE2.
	Match string `json:"match"`
	// With is put in the place of each match.
	With string `json:"with"`
}

const filtersKey = "filters"

func filterKeys() []key {
	return []key{
		{"on", listOf(text()), "", "The only items that it is for: names of tools and prompts as clients see them, with prefix, and URIs of resources. An asterisk matches any characters. The default is all."},
		// Required, so that a reader of the file need not know which filters are for what.
		{"in", oneOf(string(FilterArguments), string(FilterResults)), "", "What it examines: the arguments of calls (arguments), or results (results). Required."},
		{"redact", listOf(object(redactionKeys(), nil)), "", "What to replace in the texts of results. The entries are applied one after the other."},
		// Not expanded, as in a policy.
		{"refuse", text(), "", "A CEL expression, with the variables of a policy. If it is true or fails, the call is refused."},
		{"say", text(), "", "The text of the error for a refused call."},
		{"mark", oneOf(string(MarkUntrusted)), "", "Encloses the text of the server in lines that name the server (untrusted)."},
	}
}

func redactionKeys() []key {
	return []key{
		{"match", text(), "", "A regular expression of RE2."},
		{"with", text(), "", "What is put in the place of each match, as it is written. The default is nothing."},
	}
}

// CompileFilters compiles the filters. It returns nil without an error if there are no filters.
func (c *Config) CompileFilters() (*bound.Filters, error) {
	if len(c.Filters) == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	compiled, problems := bound.Compile(filterRules(c.Filters))
	if len(problems) > 0 {
		return nil, problems[0]
	}
	return compiled, nil
}

func filterRules(filters []Filter) []bound.Rule {
	rules := make([]bound.Rule, len(filters))
	for i := range filters {
		f := &filters[i]
		rules[i] = bound.Rule{On: f.On, Mark: f.Mark == MarkUntrusted, Refuse: f.Refuse, Say: f.Say}
		for _, r := range f.Redact {
			rules[i].Redact = append(rules[i].Redact, bound.Redaction(r))
		}
	}
	return rules
}

// FilterPath returns the path of a filter in a configuration, which is its name in errors and
// records.
func FilterPath(index int) string { return fmt.Sprintf("%s[%d]", filtersKey, index) }

func checkFilterRules(c *Config, r *reader) {
	list := place{}.key(filtersKey)
	for i := range c.Filters {
		if at := list.item(i); !r.has(at) {
			checkFilter(c, &c.Filters[i], at, r)
		}
	}
	_, problems := bound.Compile(filterRules(c.Filters))
	for _, problem := range problems {
		at := list.item(problem.Rule).key(problem.Field)
		if problem.Index >= 0 {
			at = at.item(problem.Index).key("match")
		}
		if r.has(at) {
			continue
		}
		r.reportExpression(at, c.Filters[problem.Rule].Refuse, problem.Line, problem.Column, problem.Text)
	}
}

func checkFilter(c *Config, f *Filter, at place, r *reader) {
	in, redact, refuse, say, mark := at.key("in"), at.key("redact"), at.key("refuse"), at.key("say"), at.key("mark")
	checkWord(r, in, f.In, FilterArguments, FilterResults)
	checkWord(r, mark, f.Mark, MarkUntrusted)
	checkOn(c, f.On, at.key("on"), r)
	given := 0
	for _, is := range []bool{f.Redact != nil, f.Refuse != "", f.Mark != ""} {
		if is {
			given++
		}
	}
	wrong := r.hasOrMeant(in, redact, refuse, say, mark)
	switch {
	case wrong:
	case f.In == "":
		r.report(at, `add "in: results" or "in: arguments"`, "%q does not specify what it examines", at.name)
	case given == 0:
		r.report(at, "give it one of them", `a filter has exactly one of "redact", "refuse" and "mark"; this one has 0`)
	case given != 1:
		r.report(at, "make each a filter of its own", `a filter has exactly one of "redact", "refuse" and "mark"; this one has %d`, given)
	case f.In == FilterArguments && f.Refuse == "":
		r.report(in, `write "in: results"; a call with these arguments can only be refused`, `"redact" and "mark" are for results`)
	case f.In == FilterResults && f.Refuse != "":
		r.report(in, `write "in: arguments"`, `"refuse" is for arguments`)
	}
	if f.Say != "" && f.Refuse == "" && !wrong {
		r.report(say, "remove it", `%q is the text of the error for a refused call, and this filter has no "refuse"`, say.name)
	}
	if len(f.Say) > maxSay {
		r.report(say, "", "%q has %d bytes; at most %d are allowed", say.name, len(f.Say), maxSay)
	}
	if f.Redact != nil && len(f.Redact) == 0 && !r.has(redact) {
		r.report(redact, "", "%q is empty, so that the filter does nothing", redact.name)
	}
	for k := range f.Redact {
		item := redact.item(k)
		if with := item.key("with"); len(f.Redact[k].With) > bound.MaxWith {
			r.report(with, "", "%q has %d bytes; at most %d are allowed", with.name, len(f.Redact[k].With), bound.MaxWith)
		}
		if f.Redact[k].Match == "" && !r.has(item) && !r.hasOrMeant(item.key("match")) {
			r.report(item, "", `%q has no "match"`, item.name)
		}
	}
}

// maxSay bounds the text of the error for a refused call.
const maxSay = 1 << 10
