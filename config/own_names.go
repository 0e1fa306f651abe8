// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// The values of Profile.Names.
const (
	NamesPrefixed = "prefixed"
	NamesOwn      = "own"
)

// The values of Profile.Extensions.
const (
	ExtensionsKnown = "known"
	ExtensionsPass  = "pass"
)

// HasOwnNames reports whether clients of the profile use the names and URIs of its only server.
func (p *Profile) HasOwnNames() bool { return p.Names == NamesOwn }

// Passes reports whether clients and the only server of the profile can use all extensions of the
// protocol.
func (p *Profile) Passes() bool { return p.HasOwnNames() && p.Extensions == ExtensionsPass }

// only returns the only server of a profile, which may be disabled, or nil.
func (c *Config) only(p *Profile) *Backend {
	if len(p.Servers) != 1 {
		return nil
	}
	return c.server(p.Servers[0])
}

// checkOwnNames requires that a profile with the names of its server has one server, and that nothing
// selects or renames its items.
func checkOwnNames(c *Config, f *Profile, p place, r *reader) {
	checkWord(r, p.key("names"), f.Names, NamesPrefixed, NamesOwn)
	at, list := p.key("names"), p.key("servers")
	if !f.HasOwnNames() || r.has(at) {
		return
	}
	if len(f.Servers) != 1 && !r.hasItem(list, len(f.Servers)) {
		r.report(at, `write "servers" with one name`, `%q needs exactly one server, since names of several can be the same`, p.name)
	}
	const mine = "remove it: a policy can hide items"
	for _, own := range []struct {
		key  string
		used bool
	}{{"include", len(f.Include) > 0}, {"exclude", len(f.Exclude) > 0}} {
		if k := p.key(own.key); own.used && !r.has(k) {
			r.report(k, mine, `%q has no place in a profile with the server's own names`, k.name)
		}
	}
	s := c.only(f)
	if s == nil || s.Disabled {
		return
	}
	for _, of := range []struct {
		key  string
		used bool
	}{{"rename", len(s.Rename) > 0}, {"include", len(s.Include) > 0}, {"exclude", len(s.Exclude) > 0}} {
		if of.used {
			r.report(at, fmt.Sprintf("remove %q from the server, or write %q here", of.key, NamesPrefixed),
				`%q has all items of the server %q by its own names, and the server has %q`, p.name, s.Name, of.key)
		}
	}
}

// checkPassed requires that nothing depends on what the gateway reads of the messages of a profile that
// passes all extensions, and that the server can distinguish its users.
func checkPassed(c *Config, f *Profile, p place, r *reader) {
	at := p.key("extensions")
	checkWord(r, at, f.Extensions, ExtensionsKnown, ExtensionsPass)
	if f.Extensions != ExtensionsPass || r.has(at) {
		return
	}
	if !f.HasOwnNames() {
		if !r.has(p.key("names")) {
			r.report(at, `add "names: own" and one server`, `%q needs the names of one server: the gateway cannot translate names in messages that it cannot read`, at.name)
		}
		return
	}
	s := c.only(f)
	if s == nil || s.Disabled {
		return
	}
	no := func(why, hint string) { r.report(at, hint, "the server %q cannot have %q: %s", s.Name, at.name, why) }
	if c.pinned(s.Name) {
		no("definitions of it are pinned, and the gateway cannot compare those of extensions", "remove it, or those definitions from the lock file")
	}
	if i := slices.IndexFunc(c.Filters, func(f Filter) bool { return meets(f.On, s) }); i >= 0 {
		no(fmt.Sprintf("%s filters it, and the gateway cannot filter messages that it cannot read", FilterPath(i)), `remove it, or limit the filter by "on" to other servers`)
	}
	if rule := c.ruleOnArguments(s); rule != "" {
		no(fmt.Sprintf("the rule %s of the policy reads arguments, and the gateway cannot read those of extensions", rule), `remove it, or limit the rule by "on" to other servers`)
	}
	if s.Share {
		no(`it has "share", and clients of one session would receive messages of each other`, `remove "share" from the server`)
	}
	if c.hasCallers(f.Name) && !s.knowsUsers() {
		no("clients have different principals, and it is called with one credential for all, so that it cannot distinguish them", `call it with "oauth" as the user, or let one principal alone use the profile`)
	}
}

// pinned reports whether definitions of a server are compared with a lock file.
func (c *Config) pinned(server string) bool {
	lock := c.Lock()
	return lock != nil && (c.Pins.New != PinAllow || slices.Contains(lock.Servers(), server))
}

// meets reports whether patterns of items, or none for all, may be about one of a server.
func meets(on []string, s *Backend) bool {
	if on == nil {
		return true
	}
	return slices.ContainsFunc(on, func(pattern string) bool {
		return strings.Contains(pattern, ":") || mayMatchURI(pattern) || glob.Overlap(pattern, s.NamePrefix()+wildcard)
	})
}

// ruleOnArguments returns the name of a rule of the policy that reads arguments and may be about an item of a
// server, or "".
func (c *Config) ruleOnArguments(s *Backend) string {
	if c.Policy.IsZero() {
		return ""
	}
	compiled, err := c.Policy.Compile(nil)
	if err != nil {
		return "" // reported by checkPolicy
	}
	for i := range c.Policy.Rules {
		if rule := &c.Policy.Rules[i]; compiled.ReadsArguments(i) && meets(rule.On, s) {
			return cmp.Or(rule.Name, fmt.Sprintf("rules[%d]", i))
		}
	}
	return ""
}

// hasCallers reports whether clients of a profile may have different principals.
func (c *Config) hasCallers(profile string) bool {
	if len(c.Auth.Issuers) > 0 || c.Auth.Certificates != nil || c.Auth.Proxy != nil {
		return true
	}
	principals := make(map[string]bool)
	for i := range c.Auth.Tokens {
		if t := &c.Auth.Tokens[i]; len(t.Profiles) == 0 || slices.Contains(t.Profiles, profile) {
			principals[t.Principal] = true
		}
	}
	return len(principals) > 1
}

// knowsUsers reports whether the server is called with the access of the user of each request.
func (s *Backend) knowsUsers() bool { return s.OAuth != nil && !s.OAuth.IsGateway() }
