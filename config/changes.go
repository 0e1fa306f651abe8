// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
)

// RunsNew returns the paths of what next would start, call or write and c does not: a
// server's command or URL with everything that is passed to it, the file of the audit
// record, and the reload policy; and the policy, the filters, the pins and the operators, a change of
// which may permit more. A server that is renamed or removed runs nothing new.
func (c *Config) RunsNew(next *Config) []string {
	var paths []string
	for i := range next.Servers {
		if s := &next.Servers[i]; !s.Disabled && !c.runs(s) {
			paths = append(paths, s.place().path)
		}
	}
	if c.Audit != next.Audit {
		paths = append(paths, "audit")
	}
	if !reflect.DeepEqual(c.Policy, next.Policy) {
		paths = append(paths, policyKey)
	}
	if !reflect.DeepEqual(c.Filters, next.Filters) {
		paths = append(paths, filtersKey)
	}
	if !reflect.DeepEqual(c.Pins, next.Pins) {
		paths = append(paths, "pins")
	}
	// Another user could approve what a server offers.
	if !reflect.DeepEqual(c.Lock(), next.Lock()) {
		paths = append(paths, "the lock file")
	}
	if c.Operators != next.Operators {
		paths = append(paths, operatorsKey)
	}
	if c.Reload != next.Reload {
		paths = append(paths, "reload")
	}
	return paths
}

// Reloads returns descriptions of what next changes and a running gateway can apply: servers,
// and the settings that need no new start.
func (c *Config) Reloads(next *Config) []string {
	var changes []string
	named := func(name string) func(Backend) bool { return func(s Backend) bool { return s.Name == name } }
	for i := range next.Servers {
		s := &next.Servers[i]
		path := s.place().path
		switch old := slices.IndexFunc(c.Servers, named(s.Name)); {
		case old < 0:
			changes = append(changes, path+" added")
		case !reflect.DeepEqual(c.Servers[old], *s):
			changes = append(changes, path+" changed")
		}
	}
	for i := range c.Servers {
		if name := c.Servers[i].Name; !slices.ContainsFunc(next.Servers, named(name)) {
			changes = append(changes, place{}.key(serversKey).key(name).path+" removed")
		}
	}
	for _, s := range []struct {
		name string
		same bool
	}{
		{profilesKey, reflect.DeepEqual(c.Profiles, next.Profiles)},
		{"pins", reflect.DeepEqual(c.Pins, next.Pins)},
		{"the lock file", reflect.DeepEqual(c.Lock(), next.Lock())},
		{"apps", reflect.DeepEqual(c.Apps, next.Apps)},
		{"search", c.Search == next.Search},
		{resultsKey, reflect.DeepEqual(c.Results, next.Results)},
		{operatorsKey, c.Operators == next.Operators},
		{quotasKey, reflect.DeepEqual(c.Quotas, next.Quotas)},
		{"instructions", c.Instructions == next.Instructions},
		{"conflict", c.Conflict == next.Conflict},
		{"reload", c.Reload == next.Reload},
		{"metrics", c.Metrics == next.Metrics},
		{"audit", c.Audit == next.Audit},
		{policyKey, reflect.DeepEqual(c.Policy, next.Policy)},
		{filtersKey, reflect.DeepEqual(c.Filters, next.Filters)},
		{"allowUnauthenticated", c.AllowUnauthenticated == next.AllowUnauthenticated},
	} {
		if !s.same {
			changes = append(changes, s.name+" changed")
		}
	}
	return changes
}

// NewEnvFiles returns the envFiles of the servers that are new in next, and all files that
// ${file:} in next refers to.
func (c *Config) NewEnvFiles(next *Config) []string {
	var files []string
	if next.source != nil {
		files = slices.Clone(next.source.files)
	}
	for i := range next.Servers {
		s := &next.Servers[i]
		if s.EnvFile != "" && !s.Disabled && !c.runs(s) && !slices.Contains(files, s.EnvFile) {
			files = append(files, s.EnvFile)
		}
	}
	return files
}

// runs reports whether c has a server, under any name, that launches the same as s.
func (c *Config) runs(s *Backend) bool {
	want := s.launch()
	same := func(old Backend) bool { return !old.Disabled && reflect.DeepEqual(old.launch(), want) }
	// The server of the same name is the most likely one.
	i := slices.IndexFunc(c.Servers, func(old Backend) bool { return old.Name == s.Name })
	return i >= 0 && same(c.Servers[i]) || slices.ContainsFunc(c.Servers, same)
}

// launch returns the server without the fields that change neither what is run or called
// nor what is passed to it. A field that is added later counts until it is listed here.
func (s Backend) launch() Backend {
	s.Name, s.Disabled = "", false
	s.EnvFile = ""  // its content is in Env
	s.Secrets = nil // they are in the other fields
	s.Prefix, s.Rename, s.Include, s.Exclude, s.Apps = nil, nil, nil, nil, nil
	s.Timeout, s.Idle, s.Memory, s.Share, s.Era = 0, 0, 0, false, ""
	s.Results = nil
	s.Type = s.Transport()
	return s
}
