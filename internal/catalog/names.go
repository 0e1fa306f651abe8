// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// Rules specify which tools and prompts of one backend are offered, and under which
// names. They refer to the backend's own names. To resources only Prefix applies, as Label
// describes.
type Rules struct {
	// Prefix is put before each name. Nil means the default: the backend's name and two
	// underscores.
	Prefix *string

	// Rename maps single items to another name. It is the complete name that clients
	// see, without a prefix, so that one tool of many can have a name without a prefix.
	Rename map[string]string

	// Include, if not empty, holds the patterns of the only items that are offered.
	// Exclude holds the patterns of items that are not offered, and takes precedence. In
	// a pattern, * matches any number of characters, and other characters match themselves.
	Include, Exclude []string
}

// name returns the name under which an item of the backend is offered.
func (r *Rules) name(backend, own string) string {
	if to, ok := r.Rename[own]; ok {
		return to
	}
	if r.Prefix != nil {
		return *r.Prefix + own
	}
	return backend + "__" + own
}

// Label returns what the URIs of a backend have in front if they are names, or "" if they have
// nothing: see [extension.OuterURI]. A backend with an empty prefix has no label.
func (r *Rules) Label(backend string) string {
	if r.Prefix != nil && *r.Prefix == "" {
		return ""
	}
	return url.PathEscape(backend) // the names of a configuration need no escapes
}

// judge returns the verdict of the rules about an item, Offered, Excluded or NotIncluded, and
// the index of the pattern that decided, or -1.
func (r *Rules) judge(own string) (v Verdict, pattern int) {
	matches := func(pattern string) bool { return glob.Match(pattern, own) }
	if i := slices.IndexFunc(r.Exclude, matches); i >= 0 {
		return Excluded, i
	}
	i := slices.IndexFunc(r.Include, matches)
	if i < 0 && len(r.Include) > 0 {
		return NotIncluded, i
	}
	return Offered, i
}

// MaxModelName is the length of tool names that every model provider accepts.
const MaxModelName = 64

// IsModelName reports whether every model provider accepts a tool with this name. The
// protocol allows more: dots, and 128 characters (2025-11-25, server/tools, "Tool
// Names").
func IsModelName(name string) bool {
	bad := func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r) && (r < '0' || '9' < r) && r != '_' && r != '-'
	}
	return len(name) <= MaxModelName && !strings.ContainsFunc(name, bad)
}

// unused returns the rules that match none of the backend's own names.
func (r *Rules) unused(names []string) []Rule {
	out := slices.Concat(unusedPatterns("include", r.Include, names), unusedPatterns("exclude", r.Exclude, names))
	for _, own := range slices.Sorted(maps.Keys(r.Rename)) {
		if !slices.Contains(names, own) {
			out = append(out, Rule{"rename", own})
		}
	}
	return out
}

// unusedPatterns returns the patterns of a setting that match none of the names.
func unusedPatterns(setting string, patterns, names []string) (out []Rule) {
	for _, p := range patterns {
		if !slices.ContainsFunc(names, func(n string) bool { return glob.Match(p, n) }) {
			out = append(out, Rule{setting, p})
		}
	}
	return out
}

// unusedText describes that the rule matches nothing.
func (r Rule) unusedText() string {
	return r.Setting + " " + quote(r.Of) + " matches none of its tools and prompts"
}
