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
	// With the lock file, another user could approve what a server offers.
	return append(paths, c.changed(next, "audit", policyKey, filtersKey, "pins", lockFile, operatorsKey, "reload")...)
}

// lockFile is the name of the lock file in lists of settings.
const lockFile = "the lock file"

// changed returns the names of those settings that differ in next.
func (c *Config) changed(next *Config, names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		if name == lockFile {
			return reflect.DeepEqual(c.Lock(), next.Lock())
		}
		setting := key{name: name}
		return reflect.DeepEqual(setting.field(reflect.ValueOf(c).Elem()).Interface(), setting.field(reflect.ValueOf(next).Elem()).Interface())
	})
}

// Reloads returns descriptions of what next changes and a running gateway can apply: servers,
// and the settings that need no new start.
func (c *Config) Reloads(next *Config) []string {
	var changes []string
	for i := range next.Servers {
		s := &next.Servers[i]
		switch old := c.server(s.Name); {
		case old == nil:
			changes = append(changes, s.place().path+" added")
		case !reflect.DeepEqual(old, s):
			changes = append(changes, s.place().path+" changed")
		}
	}
	for i := range c.Servers {
		if s := &c.Servers[i]; next.server(s.Name) == nil {
			changes = append(changes, s.place().path+" removed")
		}
	}
	for _, name := range c.changed(next, profilesKey, "pins", lockFile, "apps", "search", resultsKey, operatorsKey, quotasKey,
		"instructions", "conflict", "reload", "metrics", "audit", policyKey, filtersKey, "allowUnauthenticated") {
		changes = append(changes, name+" changed")
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
	old := c.server(s.Name)
	return old != nil && same(*old) || slices.ContainsFunc(c.Servers, same)
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
