// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// collisions are the items of one kind that are left out because of name conflicts. Two
// servers with the same items conflict in all of them, which is reported as one
// problem.
type collisions struct {
	firstWins bool
	order     []*collision
	between   map[parties]*collision
}

// parties are the backend that loses items and the owners of the names.
type parties struct{ backend, others string }

// collision is the items that one backend loses to the same others.
type collision struct {
	parties

	first *Entry
	group []*Entry // the items with the name of first
	count int
}

// add records an item that is left out of a group.
func (c *collisions) add(e *Entry, group []*Entry) {
	if c.between == nil {
		c.between = make(map[parties]*collision)
	}
	// If one backend has both items, one of them was renamed, and each such pair is
	// reported separately.
	name := func(other *Entry) string {
		if other.Backend == e.Backend {
			return origin(other)
		}
		return fmt.Sprintf("backend %q", other.BackendName)
	}
	p := parties{backend: e.BackendName, others: name(group[0])}
	if !c.firstWins {
		p.others = others(group, e, name)
	}
	one := c.between[p]
	if one == nil {
		one = &collision{parties: p, first: e, group: group}
		c.between[p], c.order = one, append(c.order, one)
	}
	one.count++
}

// report reports the items that were left out: a single conflict by its name, several
// between the same backends by their number.
func (c *collisions) report(k Kind, r *report) {
	conflict := code.NameConflict
	if k == Skills {
		conflict = code.SkillShared
	}
	for _, one := range c.order {
		e := one.first
		switch {
		case one.count == 1 && c.firstWins:
			r.item(conflict, e.BackendName, k, e.Own, fmt.Sprintf("left out: %s offers %s %s first", origin(one.group[0]), k, quote(e.Name)))
		case one.count == 1:
			r.withheld(conflict, e.BackendName, k, e.Own, fmt.Sprintf("left out: %s would also be %s %s; rename one of them, or set conflict: first", others(one.group, e, origin), k, quote(e.Name)))
		case c.firstWins:
			r.whole(conflict, e.BackendName, fmt.Sprintf("left out: %d %ss, such as %s, that %s offers first", one.count, k, quote(e.Name), one.others))
		default:
			text := fmt.Sprintf("left out: %d %ss, such as %s, that %s would also offer; set a prefix, rename them, or set conflict: first", one.count, k, quote(e.Name), one.others)
			r.problems = append(r.problems, Problem{Backend: e.BackendName, Text: text, Code: conflict, Withheld: true})
		}
	}
}

// origin names an entry by its backend, and by its own name if that differs.
func origin(e *Entry) string {
	if e.Own == e.Name {
		return fmt.Sprintf("backend %q", e.BackendName)
	}
	return fmt.Sprintf("%s of backend %q", quote(e.Own), e.BackendName)
}

// maxOthers bounds how many of the other items are named.
const maxOthers = 3

// others returns the names of the other items of a group.
func others(group []*Entry, not *Entry, name func(*Entry) string) string {
	var names []string
	for _, e := range group {
		if e != not && len(names) < maxOthers {
			names = append(names, name(e))
		}
	}
	if more := len(group) - 1 - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
