// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"regexp"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// locator finds the backend of a resource that is in no list.
type locator struct {
	patterns []pattern
	held     []pattern // of templates that are Held, over the backend's own URIs
	sole     *Entry    // the only backend with resources, or nil
}

// pattern is a resource template as two expressions over URIs: one with variables that
// match part of one segment, and one with variables that match any text.
type pattern struct {
	entry        *Entry
	narrow, wide *regexp.Regexp
}

// Bounds for matching: far above what servers use, and low enough to keep matching
// cheap. Templates beyond them are still offered.
const (
	maxPatterns    = 100 // of one backend
	maxTemplate    = 2048
	maxExpressions = 32
)

func newLocator(backends []Backend, templates, held []*Entry) locator {
	return locator{sole: soleBackend(backends), patterns: newPatterns(backends, templates), held: newPatterns(backends, held)}
}

func newPatterns(backends []Backend, templates []*Entry) (all []pattern) {
	count := make([]int, len(backends))
	for _, e := range templates {
		if count[e.Backend] == maxPatterns {
			continue
		}
		if p, ok := newPattern(e); ok {
			count[e.Backend]++
			all = append(all, p)
		}
	}
	return all
}

// heldFor returns the first template of a backend that is Held and matches the backend's own URI, or its plain
// form, or nil.
func (l *locator) heldFor(backend int, own string) *Entry {
	if len(l.held) == 0 {
		return nil
	}
	plain := glob.PlainURI(own)
	for i := range l.held {
		if p := &l.held[i]; p.entry.Backend == backend && (p.wide.MatchString(own) || p.wide.MatchString(plain)) {
			return p.entry
		}
	}
	return nil
}

// HeldFor returns the template that is Held and for which a URI would otherwise be that of a resource, with its
// own name, or nil.
func (c *Catalog) HeldFor(uri string) *Entry {
	if owner, ok := c.Owner(uri); ok {
		_, own, _ := extension.InnerURI(uri)
		if e := c.locator.heldFor(owner.Backend, own); e != nil {
			return e
		}
	}
	for i := range c.locator.held {
		if e := c.locator.heldFor(c.locator.held[i].entry.Backend, uri); e != nil && c.hasBackend(e.BackendName) {
			return e
		}
	}
	return nil
}

// soleBackend returns the only backend that declares resources, as an Entry without a
// name.
func soleBackend(backends []Backend) *Entry {
	var sole *Entry
	for i := range backends {
		in := &backends[i]
		if in.State == Missing || !Resources.declaredIn(in.Capabilities) {
			continue
		}
		if sole != nil {
			return nil
		}
		sole = &Entry{Kind: Resources, Backend: i, BackendName: in.Name}
	}
	return sole
}

// newPattern parses a URI template (RFC 6570). It reports false for one that it cannot
// parse.
func newPattern(e *Entry) (pattern, bool) {
	template := e.Name
	if len(template) > maxTemplate || strings.Count(template, "{") > maxExpressions {
		return pattern{}, false
	}
	var narrow, wide strings.Builder
	for template != "" {
		literal, rest, found := strings.Cut(template, "{")
		narrow.WriteString(regexp.QuoteMeta(literal))
		wide.WriteString(regexp.QuoteMeta(literal))
		if !found {
			break
		}
		expression, after, closed := strings.Cut(rest, "}")
		if !closed || expression == "" {
			return pattern{}, false
		}
		n, w := expressionPatterns(expression[0])
		narrow.WriteString(n)
		wide.WriteString(w)
		template = after
	}
	p := pattern{entry: e}
	var err1, err2 error
	p.narrow, err1 = regexp.Compile(`(?s)\A` + narrow.String() + `\z`)
	p.wide, err2 = regexp.Compile(`(?s)\A` + wide.String() + `\z`)
	return p, err1 == nil && err2 == nil
}

// expressionPatterns returns the expressions for a variable with the given operator. A
// plain variable is never empty here: a template that matched with an empty variable
// would match the URIs of others.
func expressionPatterns(operator byte) (narrow, wide string) {
	switch operator {
	case '+':
		return `.+`, `.+`
	case '#':
		return `(?:#.*)?`, `(?:#.*)?`
	case '?':
		return `(?:\?[^#]*)?`, `(?:\?.*)?`
	case '&':
		return `(?:&[^#]*)?`, `(?:&.*)?`
	case '/':
		return `(?:/[^?#]*)?`, `(?:/.*)?`
	case '.', ';':
		op := regexp.QuoteMeta(string(operator))
		return `(?:` + op + `[^/?#]*)?`, `(?:` + op + `.*)?`
	default:
		return `[^/?#]+`, `.+`
	}
}

// Resource returns the entry for a URI. The first rule that applies counts:
//
//   - the backend that lists it;
//   - for a URI that is a name, the rules of locateName;
//   - the first template, in the order of the list, that matches with each plain
//     variable within one segment of the path;
//   - the same with variables that span segments, because servers write {path} where
//     {+path} is meant;
//   - the first backend with a skill that has a file or a directory with it;
//   - the only backend that has resources at all, if none of its templates that are Held matches.
//
// The last rule is for resources that servers return in results and never list. A view
// does not have it, because it is unknown whether they may be seen.
func (c *Catalog) Resource(uri string) (*Entry, bool) {
	if e, ok := c.sections[Resources].find(uri); ok {
		return e, true
	}
	e, _ := c.locate(uri)
	return e, e != nil
}

// Route returns why Resource finds a URI that is in no list: the template that matches it, or
// an Entry without a name of the backend that may have it.
func (c *Catalog) Route(uri string) (*Entry, bool) {
	_, from := c.locate(uri)
	return from, from != nil
}

// locate returns an entry for a URI, and the one that Route returns. A URI or a template that a
// view removes does not count. A URI that it removes takes as long as one that no template
// matches.
func (c *Catalog) locate(uri string) (e, from *Entry) {
	// In a view, rules judge the URI, which must not be another one for the backend.
	if uri == "" || c.unlisted != nil && glob.IsAmbiguous(uri) {
		return nil, nil
	}
	if extension.IsName(uri) {
		if e, from, ok := c.locateName(uri); ok {
			return e, from
		}
	}
	removed := c.sections[Resources].removes(uri)
	from = c.match(removed, func(*pattern) string { return uri })
	if from == nil && !removed {
		if from = c.ofSkill(uri); from == nil {
			if from = c.locator.sole; from != nil && c.locator.heldFor(from.Backend, uri) != nil {
				return nil, nil
			}
		}
	}
	if from == nil {
		return nil, nil
	}
	e = c.entry(from.Backend, uri)
	if extension.IsName(uri) && c.withholds(e) {
		return nil, nil
	}
	return e, from
}

// match returns the first template that matches the URI that is returned for it, unless the URI is
// removed.
func (c *Catalog) match(removed bool, uri func(*pattern) string) *Entry {
	l, shown := &c.locator, c.sections[Templates].shown
	for i := range l.patterns {
		if p := &l.patterns[i]; shown.has(p.entry.Place) && p.narrow.MatchString(uri(p)) && !removed {
			return p.entry
		}
	}
	for i := range l.patterns {
		if p := &l.patterns[i]; shown.has(p.entry.Place) && p.wide.MatchString(uri(p)) && !removed {
			return p.entry
		}
	}
	return nil
}
