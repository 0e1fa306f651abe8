// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
)

// Rules are how the operator wants the tools and prompts of one backend to be
// named, and which of them to be offered. All of them speak of the backend's own
// names. They do not touch resources.
type Rules struct {
	// Prefix stands before each name. Nil is the default: the backend's name and
	// two underscores.
	Prefix *string

	// Rename gives single items another name, which is the whole name that
	// clients see: no prefix is put before it. What the operator wrote is what
	// is there, and a name without a prefix can be given to one tool of many.
	Rename map[string]string

	// Include, if it is not empty, has the patterns of the only items that are
	// offered, and Exclude of those that are not, which counts for more. In a
	// pattern * stands for any characters, also none, and all else for itself.
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

// offers reports whether the rules leave an item visible.
func (r *Rules) offers(own string) bool {
	matches := func(pattern string) bool { return match(pattern, own) }
	if slices.ContainsFunc(r.Exclude, matches) {
		return false
	}
	return len(r.Include) == 0 || slices.ContainsFunc(r.Include, matches)
}

// match compares from the left, and the part behind the last * from the right.
func match(pattern, name string) bool {
	head, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	for ok {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
		rest = after
	}
	return false
}

// maxModelName is the length of tool names that every model provider takes.
const maxModelName = 64

// isModelName reports whether every model provider takes a tool of that name. The
// protocol allows more: dots, and 128 characters (2025-11-25, server/tools, "Tool Names").
func isModelName(name string) bool {
	bad := func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r) && (r < '0' || '9' < r) && r != '_' && r != '-'
	}
	return len(name) <= maxModelName && !strings.ContainsFunc(name, bad)
}

// idle returns the rules that match none of the backend's own names.
func (r *Rules) idle(names []string) []string {
	var out []string
	add := func(setting string, patterns []string) {
		for _, p := range patterns {
			if !slices.ContainsFunc(names, func(n string) bool { return match(p, n) }) {
				out = append(out, setting+" "+quote(p)+" matches none of its tools and prompts")
			}
		}
	}
	add("include", r.Include)
	add("exclude", r.Exclude)
	var unknown []string
	for own := range r.Rename {
		if !slices.Contains(names, own) {
			unknown = append(unknown, "rename "+quote(own)+" matches none of its tools and prompts")
		}
	}
	slices.Sort(unknown)
	return append(out, unknown...)
}
