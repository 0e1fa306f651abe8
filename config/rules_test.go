// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// TestRulesWithoutEffect compares the notes on patterns with their effect: a noted pattern can
// be removed without changing any name, and a pattern that can be removed is noted. If two
// patterns contradict each other, only that is reported. The names are all short words of the
// patterns' letters and of one more.
func TestRulesWithoutEffect(t *testing.T) {
	names := wordsOf("abc", 5)
	patterns := wordsOf("ab*", 2)[1:]
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		some := func(most int) []string {
			var list []string
			for _, i := range r.Perm(len(patterns))[:r.IntN(most+1)] {
				list = append(list, patterns[i])
			}
			return list
		}
		s := Backend{Name: "s", Command: "x", Include: some(3), Exclude: some(3)}
		j := new(reader)
		(&Config{Servers: []Backend{s}}).check(j)
		if len(j.problems) > 0 {
			continue
		}
		for key, list := range map[string]*[]string{"include": &s.Include, "exclude": &s.Exclude} {
			whole := slices.Clone(*list)
			for i := range whole {
				before := offeredOf(&s, names)
				*list = slices.Delete(slices.Clone(whole), i, i+1)
				idle := slices.Equal(before, offeredOf(&s, names))
				*list = whole
				path := fmt.Sprintf("mcpServers.s.%s[%d]", key, i)
				if idle && !j.notes.touch(path) && !twins(whole, i) {
					t.Errorf("seed %d: include %q, exclude %q: %s has no effect, and nothing is said", seed, s.Include, s.Exclude, path)
				}
				if !idle && j.notes.touch(path) && !leavesNothing(&s, names) {
					t.Errorf("seed %d: include %q, exclude %q: %s has an effect, and is said to have none: %v", seed, s.Include, s.Exclude, path, j.notes)
				}
			}
		}
	}
}

func offeredOf(s *Backend, names []string) []string {
	var offered []string
	for _, name := range names {
		if s.Offers(name) {
			offered = append(offered, name)
		}
	}
	return offered
}

// leavesNothing reports whether no name is offered, which has a note of its own.
func leavesNothing(s *Backend, names []string) bool { return len(offeredOf(s, names)) == 0 }

// touch reports whether one of the problems is at a path or below it.
func (p Problems) touch(path string) bool {
	return slices.ContainsFunc(p, func(known Problem) bool {
		// Only at an element's end: mcpServers.ab is not below mcpServers.a.
		below, ok := strings.CutPrefix(known.Path, path)
		return ok && (below == "" || below[0] == '.' || below[0] == '[')
	})
}

// twins reports whether another pattern of a list is equivalent, so that either of them may be
// noted.
func twins(list []string, i int) bool {
	for k, other := range list {
		if k != i && glob.Covers(other, list[i]) && glob.Covers(list[i], other) {
			return true
		}
	}
	return false
}

// TestManyPatterns checks that long lists are not compared in quadratic time.
func TestManyPatterns(t *testing.T) {
	for n, want := range map[int]int{maxCompared: maxCompared - 1, maxCompared + 1: 0} {
		list := make([]string, n)
		for i := range list {
			list[i] = strings.Repeat("a", i+1) + wildcard
		}
		for _, s := range []Backend{{Include: list}, {Exclude: list}} {
			s.Name, s.Command = "s", "x"
			c := &Config{Servers: []Backend{s}}
			j := new(reader)
			c.check(j)
			if got := len(j.notes); got != want {
				t.Errorf("%d patterns: %d notes, want %d", n, got, want)
			}
		}
	}
}

// wordsOf returns all words of some letters up to a length.
func wordsOf(letters string, most int) []string {
	all, last := []string{""}, []string{""}
	for range most {
		var longer []string
		for _, word := range last {
			for _, letter := range letters {
				longer = append(longer, word+string(letter))
			}
		}
		all, last = append(all, longer...), longer
	}
	return all
}
