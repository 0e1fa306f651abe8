// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
	"time"
)

// RunsNew returns the paths of what next would start, call or write and c does not: a
// server's command or URL with everything that is passed to it, the file of the audit
// record, and the reload policy. A server that is renamed or removed runs nothing new.
func (c *Config) RunsNew(next *Config) []string {
	var paths []string
	for i := range next.Servers {
		if s := &next.Servers[i]; !s.Disabled && !c.runs(s) {
			paths = append(paths, place{}.key(serversKey).key(s.Name).path)
		}
	}
	if c.Audit != next.Audit {
		paths = append(paths, "audit")
	}
	if c.Reload != next.Reload {
		paths = append(paths, "reload")
	}
	return paths
}

// NewEnvFiles returns the envFiles of the servers that are new in next.
func (c *Config) NewEnvFiles(next *Config) []string {
	var files []string
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
	s.EnvFile = "" // its content is in Env
	s.Prefix, s.Rename, s.Include, s.Exclude = nil, nil, nil, nil
	s.Timeout, s.Share, s.Era = time.Duration(0), false, ""
	s.Type = s.Transport()
	return s
}
