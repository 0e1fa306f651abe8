// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// Quota bounds how many calls of some items may be made in a time.
type Quota struct {
	// Per is the callers that share the quota.
	Per QuotaPer `json:"per"`
	// On has the patterns of the items that it is for: the names of tools and prompts as
	// clients see them, and the URIs of resources. Nil means all.
	On []string `json:"on"`
	// Calls is how many calls may be made in which time.
	Calls Rate `json:"calls"`
	// Burst is how many calls may be made at once. The default is the number of Calls.
	Burst int `json:"burst"`
}

// QuotaPer selects the callers that share a quota.
type QuotaPer string

const (
	// QuotaPerPrincipal gives each principal a quota of its own.
	QuotaPerPrincipal QuotaPer = "principal"
	// QuotaPerAll is one quota for all callers together.
	QuotaPerAll QuotaPer = "all"
)

// Rate is a number of calls in a time. In a file it is written as 600/1m.
type Rate struct {
	Calls int
	Every time.Duration
}

// String returns the rate as it is written in a file.
func (r Rate) String() string { return strconv.Itoa(r.Calls) + "/" + r.Every.String() }

// quotasKey is the key of the quotas.
const quotasKey = "quotas"

func quotaKeys() []key {
	return []key{
		// Required: a quota of each principal that was meant for all would bound nothing.
		{"per", oneOf(string(QuotaPerPrincipal), string(QuotaPerAll)), "", "Whether each principal has the quota for itself (principal), or all of them have it together (all). Required. Without \"auth\" all clients are one principal."},
		// As in the rules of a policy.
		{"on", listOf(text()), "", "The only items that it is for: names of tools and prompts as clients see them, with prefix, and URIs of resources. An asterisk matches any characters. The default is all."},
		{"calls", callRate(), "", "How many calls may be made in which time, such as 600/1m. Required."},
		// A client sends several calls at once, and then none until its user has read the
		// results.
		{"burst", positive("such as 10"), "", "How many calls may be made at once, after a time without any. The default is the number in \"calls\"."},
	}
}

// callRate is a number of calls and a time.
func callRate() form {
	const want = "a rate"
	return form{
		want: want,
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			if n.Kind != configfile.Text {
				r.wrongKind(n, p, want, rateHint)
				return
			}
			rate, problem, hint := parseRate(n.Text)
			if problem != "" {
				r.reject(p, hint, "%q must be %s, but %s", p.name, want, problem)
				return
			}
			into.Set(reflect.ValueOf(rate))
		},
	}
}

const rateHint = `write a number of calls and the time in which they may be made, such as "600/1m"`

// parseRate parses a rate such as 600/1m. The problem does not contain the text.
func parseRate(text string) (rate Rate, problem, hint string) {
	number, every, found := strings.Cut(text, "/")
	if !found {
		return Rate{}, "it has no / in it", rateHint
	}
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || number[0] == '+':
		return Rate{}, "its number of calls is not a whole number", rateHint
	case n <= 0:
		return Rate{}, "its number of calls is not more than zero", `to permit no calls, leave the items out with "exclude"`
	}
	d, err := parseDuration(every)
	if err != nil {
		hint := rateHint
		// 600/m is the form of other programs.
		if _, one := parseDuration("1" + every); one == nil && !strings.ContainsAny(every, "0123456789.") {
			hint = `write "` + number + "/1" + every + `"`
		}
		return Rate{}, "its time " + err.Error(), hint
	}
	return Rate{Calls: n, Every: d}, "", ""
}

func checkQuotas(c *Config, r *reader) {
	list := place{}.key(quotasKey)
	for i := range c.Quotas {
		q, p := &c.Quotas[i], list.item(i)
		if r.has(p) {
			continue
		}
		per, calls := p.key("per"), p.key("calls")
		checkWord(r, per, q.Per, QuotaPerPrincipal, QuotaPerAll)
		if q.Per == "" && !r.hasOrMeant(per) {
			r.report(p, `add "per: principal" or "per: all"`, "%q does not specify which callers share it", p.name)
		}
		switch {
		case r.hasOrMeant(calls):
		case q.Calls == Rate{}:
			r.report(p, `add "calls", such as "600/1m"`, "%q does not specify how many calls may be made", p.name)
		case q.Calls.Calls <= 0 || q.Calls.Every <= 0: // of a program
			r.report(calls, rateHint, "%q must be more than zero", calls.name)
		}
		if q.Burst < 0 { // likewise
			r.report(p.key("burst"), "", "%q must be a whole number above zero", "burst")
		}
		checkOn(c, q.On, p.key("on"), r)
		same := func(other Quota) bool { return reflect.DeepEqual(other, *q) }
		if first := slices.IndexFunc(c.Quotas[:i], same); first >= 0 {
			r.note(p, "remove one of them", "%q is the same as %q", p.name, list.item(first).name)
		}
	}
}

// checkOn checks the patterns of the items that a rule is for, and notes those that can match
// no item of the configured servers.
func checkOn(c *Config, patterns []string, list place, r *reader) {
	if patterns != nil && len(patterns) == 0 && !r.has(list) {
		r.report(list, "remove it for all", "%q is empty", list.name)
	}
	for i, pattern := range patterns {
		at := list.item(i)
		if !r.has(at) && checkPattern(pattern, at, strings.Contains(pattern, ":"), "write the patterns of the items that it is for", r) {
			c.noteUnmatched(pattern, at, r)
		}
	}
	checkTwice(patterns, list, r)
	if len(patterns) <= maxCompared {
		checkWithin(patterns, list, r)
	}
}

// noteUnmatched notes a pattern that can match no item of the configured servers.
func (c *Config) noteUnmatched(pattern string, at place, r *reader) {
	if !c.mayOffer(pattern, r) {
		r.note(at, "names begin with the prefix of their server", "%.80q can match no item of the servers", pattern)
	}
}

// mayOffer reports whether a server may offer an item with a name, or with a URI, that
// matches a pattern. Servers that are disabled count, since that is temporary.
func (c *Config) mayOffer(pattern string, r *reader) bool {
	if strings.Contains(pattern, ":") || mayMatchURI(pattern) || slices.ContainsFunc(c.ownTools(), func(name string) bool { return glob.Match(pattern, name) }) {
		return true
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		if p := s.place(); r.has(p) || r.hasOrMeant(p.key("prefix"), p.key("include"), p.key("rename")) || r.hasItem(p.key("include"), len(s.Include)) {
			return true // not known
		}
		for own, name := range s.Rename {
			if glob.Match(pattern, name) || r.has(s.place().key("rename").key(own)) {
				return true
			}
		}
		for _, theirs := range s.included() {
			if name := s.NamePrefix() + theirs; glob.Overlap(pattern, name) && !excludes(s.Exclude, s.NamePrefix(), pattern, name) {
				return true
			}
		}
	}
	return false
}

// ownTools returns the names of the tools of the gateway itself, which rules are about, too. Each configuration has a
// profile with a search view.
func (c *Config) ownTools() []string {
	names := []string{"find_tool", "call_tool", "call_tool_readonly"}
	if c.CutsResults() {
		names = append(names, "read_result")
	}
	return names
}

// mayMatchURI reports whether a URI may match a pattern without a colon: if what is before
// its first asterisk may be the beginning of a scheme (RFC 3986, section 3.1).
func mayMatchURI(pattern string) bool {
	scheme, _, wild := strings.Cut(pattern, wildcard)
	return wild && !strings.ContainsFunc(scheme, func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r) && (r < '0' || '9' < r) && r != '+' && r != '-' && r != '.'
	})
}
