// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

// Profile is a part of what the gateway offers, served at a path of its own.
type Profile struct {
	// Name is the key in the file, and the last segment of the path. It consists of lower-case
	// letters, digits, - and _.
	Name string `json:"-"`

	// Servers are the names of the servers that it has; nil means all.
	Servers []string `json:"servers"`
	// Include, if not empty, lists the only tools and prompts that it offers, and Exclude
	// those that it does not, by the names under which the gateway offers them. Exclude has
	// precedence. Resources are offered by all its servers.
	Include []string `json:"include"`
	Exclude []string `json:"exclude"`

	// View is what the list of tools has: ViewFull, ViewSearch or ViewAuto. Empty is ViewFull.
	View string `json:"view"`
	// Always lists the tools that ViewSearch has besides those of the gateway, and Split
	// adds one that calls only tools with readOnlyHint.
	Always []string `json:"always"`
	Split  bool     `json:"split"`

	// Names is NamesPrefixed or NamesOwn. Empty is NamesPrefixed.
	Names string `json:"names"`
	// Extensions is ExtensionsKnown or ExtensionsPass. Empty is ExtensionsKnown.
	Extensions string `json:"extensions"`
}

// HasSearch reports whether the profile has tools of the gateway to find and call the others.
func (p *Profile) HasSearch() bool { return p.View == ViewSearch || p.View == ViewAuto }

// The values of Profile.View.
const (
	ViewFull   = "full"
	ViewSearch = "search"
	ViewAuto   = "auto"
)

// SearchProfile is the name of the profile that each configuration has besides its own: everything, with
// ViewSearch. A profile of the file with this name replaces it.
const SearchProfile = "search"

// AllProfiles returns the profiles of the file and, as the last one, SearchProfile.
func (c *Config) AllProfiles() []Profile {
	if slices.ContainsFunc(c.Profiles, func(p Profile) bool { return p.Name == SearchProfile }) {
		return c.Profiles
	}
	return append(slices.Clip(c.Profiles), Profile{Name: SearchProfile, View: ViewSearch})
}

// Search is when ViewAuto lists all tools.
type Search struct {
	// Above is the number of tokens, as a quarter of the bytes of their definitions, up to which all
	// are listed. A negative one means always.
	Above int `json:"above"`
}

// profilesKey is the key of the profiles.
const profilesKey = "profiles"

// maxProfileName is the maximum length of the name of a profile.
const maxProfileName = 64

// isProfileName reports whether text can be the name of a profile: a segment of a path that
// no client and no proxy rewrites, and that no flag looks like.
func isProfileName(text string) bool {
	bad := func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < '0' || '9' < r) && r != '-' && r != '_'
	}
	return text != "" && len(text) <= maxProfileName && !strings.ContainsFunc(text, bad) && text[0] != '-'
}

// profiles is the map of profiles, in the order of the file.
func profiles() form {
	one := object(profileKeys(), nil)
	return form{
		want: "a mapping of names to profiles",
		elem: &one,
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			list := make([]Profile, 0, len(n.Members))
			r.eachMember(n, p, "write each profile by its name below it", func(name string, n configfile.Node, p place) {
				profile := Profile{Name: name}
				one.read(r, n, p, reflect.ValueOf(&profile).Elem())
				list = append(list, profile)
			})
			into.Set(reflect.ValueOf(list))
		},
	}
}

func checkProfiles(c *Config, r *reader) {
	servers := make([]string, len(c.Servers))
	for i := range c.Servers {
		servers[i] = c.Servers[i].Name
	}
	seen := make(map[string]bool)
	for i := range c.Profiles {
		f := &c.Profiles[i]
		p := place{}.key(profilesKey).key(f.Name)
		if !isProfileName(f.Name) {
			r.report(p, "it is a part of the URL: lower-case letters, digits, - and _, and up to 64 of them", "%.80q cannot be the name of a profile", f.Name)
		}
		if seen[f.Name] {
			r.report(p, "", "two profiles have the name %q", f.Name)
		}
		seen[f.Name] = true
		if r.has(p) {
			continue
		}
		checkNames(f.Servers, servers, p.key("servers"), "server", r)
		checkPatternLists(f.Include, f.Exclude, p, r)
		checkPatternList(f.Always, p.key("always"), r)
		checkEffects(f.Include, f.Exclude, p, r, func(i int) bool {
			r.note(p.key("exclude").item(i), "", "%.80q excludes every tool and prompt of the profile %q; only resources are left", f.Exclude[i], f.Name)
			return false
		})
		checkView(f, p, r)
		checkOwnNames(c, f, p, r)
		checkPassed(c, f, p, r)
	}
}

// checkView requires that the keys of the list of tools have an effect.
func checkView(f *Profile, p place, r *reader) {
	if f.HasSearch() {
		return
	}
	const cure = `remove it, or write "view": "search"`
	if len(f.Always) > 0 {
		r.note(p.key("always"), cure, "it has no effect: all tools are listed")
	}
	if f.Split {
		r.note(p.key("split"), cure, "it has no effect: there is no call_tool")
	}
}

// checkNames requires that each element of a list is one of the known names, and that a list
// that is there has elements. what describes an element.
func checkNames(names, known []string, list place, what string, r *reader) {
	if names != nil && len(names) == 0 && !r.has(list) {
		r.report(list, "remove it for all", "%q is empty", list.name)
	}
	for i, name := range names {
		if at := list.item(i); !r.has(at) && !slices.Contains(known, name) {
			r.report(at, spelling.DidYouMean(name, known), "there is no %s %.80q", what, name)
		}
	}
	checkTwice(names, list, r)
}

// checkTokenProfiles requires that the profiles of a token exist.
func checkTokenProfiles(c *Config, token *Token, p place, r *reader) {
	var known []string
	for _, p := range c.AllProfiles() {
		known = append(known, p.Name)
	}
	if !r.has(place{}.key(profilesKey)) {
		checkNames(token.Profiles, known, p.key(profilesKey), "profile", r)
	}
}
