// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/runner"
)

// Merge joins the servers of several results, in their order. Servers that are started or
// reached in the same way are one, with all their origins; the values of the first are kept.
// Different servers with one name get the client as a suffix. taken are names that are in use
// already. lookup returns the environment variables that are set, for the comparison.
func Merge(results []*Result, taken []string, lookup func(string) (string, bool)) []Server {
	var all []Server
	index := make(map[string]int)
	for _, result := range results {
		for _, s := range result.Servers {
			key := s.key(lookup)
			at, known := index[key]
			if !known {
				index[key] = len(all)
				all = append(all, s)
				continue
			}
			all[at].join(s)
		}
	}
	rename(all, taken)
	return all
}

// join adds the origins of an equal server, and notes where the two differ.
func (s *Server) join(other Server) {
	s.Origins = append(slices.Clone(s.Origins), other.Origins...)
	where := other.Origins[0]
	differ := func(what string, a, b []Pair) {
		if !slices.Equal(sortedPairs(a), sortedPairs(b)) {
			s.Differs = true
			s.Notes = append(s.Notes, Note{Text: what + " differ in " + where.String() + ", and those of " + s.Origins[0].String() + " are used"})
		}
	}
	differ("variables", s.Env, other.Env)
	differ("headers", s.Headers, other.Headers)
	if s.Disabled && !other.Disabled {
		s.Notes = append(s.Notes, Note{Text: "it is enabled in " + where.String()})
	}
}

func sortedPairs(pairs []Pair) []string {
	out := make([]string, len(pairs))
	for i, p := range pairs {
		out[i] = p.Name + "\x00" + p.Value
	}
	slices.Sort(out)
	return out
}

// rename gives each server a name of its own.
func rename(servers []Server, taken []string) {
	used := make(map[string]bool)
	for _, name := range taken {
		used[name] = true
	}
	same := make(map[string][]int)
	for i := range servers {
		same[servers[i].Name] = append(same[servers[i].Name], i)
	}
	// Those with a name of their own keep it, also if it looks like one with a suffix.
	var changed []int
	for i := range servers {
		if name := servers[i].Name; len(same[name]) == 1 && !used[name] {
			used[name] = true
		} else {
			changed = append(changed, i)
		}
	}
	for _, i := range changed {
		s := &servers[i]
		others := same[s.Name]
		name := s.longerName(len(others) == 1 || slices.ContainsFunc(others, func(other int) bool {
			return servers[other].Origins[0].Client != s.Origins[0].Client
		}))
		base := name
		for n := 2; used[name]; n++ {
			name = base + "_" + strconv.Itoa(n)
		}
		if name != s.Name {
			s.Notes = append(s.Notes, Note{Text: "named " + name + ": another server has the name " + s.Name, Short: true})
		}
		s.Name = name
		used[name] = true
	}
}

// longerName returns a name that tells a server from others with its name: the whole name
// of the source, if only its last part was used, or else the name with the client.
func (s *Server) longerName(withClient bool) string {
	if before, after, ok := strings.Cut(s.Original, "/"); ok && FitName(after) == s.Name {
		return FitName(before + "_" + after)
	}
	if client := s.Origins[0].Client; withClient && client != "" {
		return FitName(s.Name + "_" + client)
	}
	return s.Name
}

// IsSame reports whether two servers are started or reached in the same way. If only one of
// them has the version of a package, as after 'signalbox pin', they are the same.
func IsSame(a, b *Server, lookup func(string) (string, bool)) bool {
	if a.key(lookup) == b.key(lookup) {
		return true
	}
	p, aPackage := runner.Find(a.Command, a.Args)
	q, bPackage := runner.Find(b.Command, b.Args)
	return aPackage && bPackage && p.IsFloating() != q.IsFloating() &&
		a.withPackage(&p).key(lookup) == b.withPackage(&q).key(lookup)
}

// withPackage returns the server with its package without a version.
func (s *Server) withPackage(p *runner.Package) *Server {
	same := *s
	same.Args = slices.Clone(s.Args)
	same.Args[p.Index] = p.Name + p.Extras
	if p.Tag != "latest" {
		same.Args[p.Index] += p.Tag
	}
	return &same
}
