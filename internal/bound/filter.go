// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/glob"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Rule is a filter as it is configured. It has exactly one of Redact, Mark and Refuse. The first
// two are for results, and the third is for arguments.
type Rule struct {
	// On are patterns of the items, by the names that clients see, or by URI. Nil is all.
	On []string

	// Redact are applied to the texts of results, one after the other.
	Redact []Redaction

	// Mark encloses the text of the server in lines that name the server.
	Mark bool

	// Refuse is a CEL expression. A call for which it is true, or fails, is refused.
	Refuse string

	// Say is the text of the error for a refused call.
	Say string
}

// A Redaction replaces what a regular expression of RE2 matches.
type Redaction struct {
	Match string
	With  string // the text in its place, as it is written
}

// The bounds of the texts of a Redaction.
const (
	MaxMatch = 1 << 10
	MaxWith  = 256
)

// An Error is a mistake in a rule. Line and Column are those in an expression of CEL, from 1, or 0.
type Error struct {
	Rule         int
	Field        string // "redact" or "refuse"
	Index        int    // of the redaction, or -1
	Line, Column int
	Text         string
}

// Error returns the text with the place.
func (e *Error) Error() string { return fmt.Sprintf("rule %d, %s: %s", e.Rule, e.Field, e.Text) }

// Filters are the filters of a configuration, in its order. They are immutable, and their methods
// may be called concurrently.
type Filters struct {
	all     []filter
	refuses bool // some filter is for arguments
	changes bool // some filter is for results
}

// filter is a compiled Rule.
type filter struct {
	on     []string
	redact []redaction
	mark   bool
	refuse *policy.Refusal
	say    string
}

type redaction struct {
	match *regexp.Regexp
	with  string
}

// Compile compiles filters. The errors are about all of them that have a mistake.
func Compile(rules []Rule) (*Filters, []*Error) {
	f := new(Filters)
	var problems []*Error
	for i := range rules {
		r := &rules[i]
		c := filter{on: r.On, mark: r.Mark, say: r.Say}
		for n, from := range r.Redact {
			match, err := compileMatch(from)
			if err != nil {
				problems = append(problems, &Error{Rule: i, Field: "redact", Index: n, Text: err.Error()})
				continue
			}
			c.redact = append(c.redact, redaction{match, from.With})
		}
		if r.Refuse != "" {
			refuse, problem := policy.CompileRefusal(r.Refuse)
			if problem != nil {
				problems = append(problems, &Error{Rule: i, Field: "refuse", Index: -1, Line: problem.Line, Column: problem.Column, Text: problem.Text})
			}
			c.refuse, f.refuses = refuse, true
		}
		f.changes = f.changes || c.mark || len(r.Redact) > 0
		f.all = append(f.all, c)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return f, nil
}

func compileMatch(r Redaction) (*regexp.Regexp, error) {
	if len(r.Match) > MaxMatch {
		return nil, fmt.Errorf("it has %d bytes; at most %d are allowed", len(r.Match), MaxMatch)
	}
	match, err := regexp.Compile(r.Match)
	if err != nil {
		if s, ok := errors.AsType[*syntax.Error](err); ok {
			return nil, fmt.Errorf("it is not a regular expression of RE2: %s: %.40q", s.Code, s.Expr)
		}
		return nil, err
	}
	if match.MatchString("") {
		return nil, errors.New("it matches the empty text, and so would be replaced between all characters")
	}
	return match, nil
}

// A Target is what patterns are compared with: an item, or the items that a server may have.
type Target struct {
	// Name is the name of a tool or prompt as clients see it, or the URI of a resource.
	Name string

	// IsURI reports that Name is a URI. Plain is its plain form, or "" for [glob.PlainURI].
	IsURI bool
	Plain string

	// IsBegin reports that the items are all that begin with Name.
	IsBegin bool
}

func (t Target) matches(on []string) bool {
	if len(on) == 0 {
		return true
	}
	plain := t.Name
	if t.IsURI && !t.IsBegin {
		plain = cmp.Or(t.Plain, glob.PlainURI(t.Name))
	}
	return slices.ContainsFunc(on, func(pattern string) bool {
		if t.IsBegin {
			_, some := glob.MatchBegin(pattern, t.Name)
			return some
		}
		return glob.MatchURI(pattern, t.Name, plain)
	})
}

// A Call is what the filters of arguments are evaluated with.
type Call struct {
	policy.Call

	Identity *mcp.Identity // may be nil
	Peer     *mcp.Peer     // may be nil
	Item     func() *policy.Item
}

// Refuse returns the index of the first filter that refuses a call, and the text for the client. It
// reports false if no filter does.
func (f *Filters) Refuse(t Target, c *Call) (index int, say string, refused bool) {
	if !f.refuses {
		return 0, "", false
	}
	var item *policy.Item
	for i := range f.all {
		r := &f.all[i]
		if r.refuse == nil || !t.matches(r.on) {
			continue
		}
		if item == nil {
			item = c.Item()
		}
		switch r.refuse.Evaluate(c.Identity, c.Peer, item, &c.Call) {
		case policy.False:
		case policy.True:
			return i, cmp.Or(r.say, "these arguments are refused"), true
		default:
			return i, "these arguments could not be checked", true
		}
	}
	return 0, "", false
}

// Results are the filters for the results of some items.
type Results struct {
	filters []indexedFilter
	mark    bool
}

type indexedFilter struct {
	*filter

	index int
}

// Results returns the filters for the results of a target, or nil if no filter is for them.
func (f *Filters) Results(t ...Target) *Results {
	if !f.changes {
		return nil
	}
	var r *Results
	for i := range f.all {
		c := &f.all[i]
		if c.refuse != nil || !slices.ContainsFunc(t, func(t Target) bool { return t.matches(c.on) }) {
			continue
		}
		if r == nil {
			r = new(Results)
		}
		r.mark = r.mark || c.mark
		if len(c.redact) > 0 {
			r.filters = append(r.filters, indexedFilter{c, i})
		}
	}
	return r
}

// Uses returns what each filter that matches a target does, by its index.
func (f *Filters) Uses(t Target) map[int]string {
	uses := make(map[int]string)
	for i := range f.all {
		c := &f.all[i]
		switch {
		case !t.matches(c.on):
		case c.refuse != nil:
			uses[i] = "may refuse its arguments"
		case c.mark:
			uses[i] = "marks the text of its results"
		default:
			var patterns []string
			for _, r := range c.redact {
				patterns = append(patterns, fmt.Sprintf("%.60q", r.match))
			}
			uses[i] = "replaces " + strings.Join(patterns, ", ") + " in its results"
		}
	}
	return uses
}
