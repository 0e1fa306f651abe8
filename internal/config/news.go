// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
	"time"
)

// RunsNew returns the paths of what another Config would start, call or write and c
// does not: the program or address of a server with all that it is given, the file of
// the audit record, and the policy of reloads. A server that is renamed or removed runs
// nothing new.
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

// NewEnvFiles returns the files that the servers which another Config would run anew have
// variables from.
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

// runs reports whether what a server runs is run under this Config, under any name.
func (c *Config) runs(s *Server) bool {
	want := s.launch()
	same := func(old Server) bool { return !old.Disabled && reflect.DeepEqual(old.launch(), want) }
	// The one of the same name first: most often it is that one.
	i := slices.IndexFunc(c.Servers, func(old Server) bool { return old.Name == s.Name })
	return i >= 0 && same(c.Servers[i]) || slices.ContainsFunc(c.Servers, same)
}

// launch returns the server without what changes neither what is run or called nor
// what that is given. A key that is added later counts until it is named here.
func (s Server) launch() Server {
	s.Name, s.Disabled = "", false
	s.EnvFile = "" // what it holds is in Env
	s.Prefix, s.Rename, s.Include, s.Exclude = nil, nil, nil, nil
	s.Timeout, s.Share, s.Era = time.Duration(0), false, ""
	s.Type = s.Transport()
	return s
}
