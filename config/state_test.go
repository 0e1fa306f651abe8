// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

func TestStateKeys(t *testing.T) {
	const long, other = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	tests := map[string]struct {
		keys          []string
		problem, note string
	}{
		"none":      {},
		"one":       {keys: []string{long}},
		"two":       {keys: []string{long, other}},
		"short":     {keys: []string{long[1:]}, problem: `state.keys[0]: "keys[0]" has fewer than 32 characters`},
		"empty":     {keys: []string{long, ""}, problem: `state.keys[1]: "keys[1]" has fewer than 32 characters`},
		"repeated":  {keys: []string{long, other, long}, note: `"keys[2]" is the same as "keys[0]"`},
		"two short": {keys: []string{"a", "b"}, problem: `state.keys[1]`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var c Config
			for _, key := range tt.keys {
				c.State.Keys = append(c.State.Keys, NewSecret(key))
			}
			j := new(reader)
			c.check(j)
			if got := j.problems.Error(); (tt.problem == "") != (len(j.problems) == 0) || !strings.Contains(got, tt.problem) {
				t.Errorf("problems %q, want %q", got, tt.problem)
			}
			if got := j.notes.Error(); (tt.note == "") != (len(j.notes) == 0) || !strings.Contains(got, tt.note) {
				t.Errorf("notes %q, want %q", got, tt.note)
			}
			c.State, c.Credentials.Keys = State{}, c.State.Keys
			credentials := new(reader)
			c.check(credentials)
			alike := strings.NewReplacer("credentials.keys", "state.keys")
			if got, want := alike.Replace(credentials.problems.Error()+credentials.notes.Error()), j.problems.Error()+j.notes.Error(); got != want {
				t.Errorf("the keys of credentials: %q, want %q", got, want)
			}
			if said := j.problems.Error() + j.notes.Error(); strings.Contains(said, long[1:]) || strings.Contains(said, other) {
				t.Errorf("a key is shown: %s", said)
			}
		})
	}
}
