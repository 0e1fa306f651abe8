// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProfiles(t *testing.T) {
	const text = `{"mcpServers": {"files": {"command": "x"}, "github": {"url": "http://x"}},
		"profiles": {"coding": {"servers": ["files", "github"], "exclude": ["*delete*"]}, "all": {}, "a_b-1": {"include": ["files__*"]}}}`
	want := []Profile{
		{Name: "coding", Servers: []string{"files", "github"}, Exclude: []string{"*delete*"}},
		{Name: "all"},
		{Name: "a_b-1", Include: []string{"files__*"}},
	}
	c := parsed(t, text)
	if diff := cmp.Diff(c.Profiles, want); diff != "" {
		t.Errorf("profiles (-got +want):\n%s", diff)
	}
	if len(c.Notes) > 0 {
		t.Errorf("notes: %v", c.Notes)
	}
}

func TestProfileProblems(t *testing.T) {
	for _, tt := range []struct{ name, profiles, want string }{
		{"not a mapping", `["x"]`, `x.json:1:57: "profiles" must be a mapping, not a list (write each profile by its name below it)`},
		{"upper case", `{"Coding": {}}`, `x.json:1:58: "Coding" cannot be the name of a profile (it is a part of the URL: lower-case letters, digits, - and _, and up to 64 of them)`},
		{"a flag", `{"-x": {}}`, `cannot be the name of a profile`},
		{"a path", `{"a/b": {}}`, `cannot be the name of a profile`},
		{"empty", `{"": {}}`, `cannot be the name of a profile`},
		{"long", `{"` + strings.Repeat("a", 65) + `": {}}`, `cannot be the name of a profile`},
		{"twice", `{"a": {}, "a": {}}`, `duplicate key "a", first on line 1`},
		{"unknown server", `{"a": {"servers": ["flies"]}}`, `there is no server "flies" (did you mean "files"?)`},
		{"no server", `{"a": {"servers": []}}`, `"servers" is empty (remove it for all)`},
		{"unknown key", `{"a": {"server": ["files"]}}`, `unknown key "server" (did you mean "servers"?)`},
		{"foreign pattern", `{"a": {"include": ["files__?"]}}`, `"files__?" has a ? in it, which matches only itself (only * is special: it matches any characters)`},
		{"pattern twice", `{"a": {"exclude": ["x", "x"]}}`, `"x" is in the list twice (remove one of them)`},
		{"contradiction", `{"a": {"include": ["x"], "exclude": ["x*"]}}`, `"x" is included, and "x*" excludes all of it (remove one of them)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("x.json", []byte(`{"mcpServers": {"files": {"command": "x"}}, "profiles": `+tt.profiles+`}`), nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestProfileNotes(t *testing.T) {
	for _, tt := range []struct{ profile, want string }{
		{`{"servers": ["files", "files"]}`, `"servers[1]" is the same as "servers[0]"`},
		{`{"include": ["files__*", "files__x"]}`, `"files__x" adds nothing to "files__*"`},
		{`{"include": ["*"]}`, `"*" includes everything, as it would be without "include"`},
		{`{"exclude": ["*"]}`, `"*" excludes every tool and prompt of the profile "a"; only resources are left`},
		{`{"include": ["files__*"], "exclude": ["github__*"]}`, `"github__*" excludes nothing: no included name matches it`},
	} {
		c := parsed(t, `{"mcpServers": {"files": {"command": "x"}}, "profiles": {"a": `+tt.profile+`}}`)
		if len(c.Notes) != 1 || !strings.Contains(c.Notes[0].String(), tt.want) {
			t.Errorf("%s: notes %v, want %s", tt.profile, c.Notes, tt.want)
		}
	}
}

func TestProfilesOfATokenExist(t *testing.T) {
	lookup := func(string) (string, bool) { return "a-token-of-some-length", true }
	for profiles, want := range map[string]string{
		`["coding"]`: "",
		`["codign"]`: `there is no profile "codign" (did you mean "coding"?)`,
		`[]`:         `"profiles" is empty (remove it for all)`,
	} {
		_, err := Parse("x.json", []byte(`{"mcpServers": {}, "profiles": {"coding": {}}, "auth": {"tokens": [{"principal": "a", "env": "TOKEN", "profiles": `+profiles+`}]}}`), lookup)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", profiles, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %s", profiles, err, want)
		}
	}
}

// TestProfilesReload checks that a change of profiles starts nothing, and needs no new start.
func TestProfilesReload(t *testing.T) {
	old := parsed(t, `{"mcpServers": {"a": {"command": "x"}}}`)
	next := parsed(t, `{"mcpServers": {"a": {"command": "x"}}, "profiles": {"p": {}}}`)
	if diff := cmp.Diff(old.Reloads(next), []string{"profiles changed"}); diff != "" {
		t.Errorf("changes (-got +want):\n%s", diff)
	}
	if runs := old.RunsNew(next); runs != nil {
		t.Errorf("what runs something new: %q", runs)
	}
}

func TestProfileNamePattern(t *testing.T) {
	pattern := regexp.MustCompile(profileNamePattern)
	for _, name := range []string{"", "a", "-", "_", "-a", "a-", "_a", "a.b", "A", "ä", "a/b", "9", strings.Repeat("a", 64), strings.Repeat("a", 65)} {
		if schema, own := pattern.MatchString(name), isProfileName(name); schema != own {
			t.Errorf("%q: the schema's pattern matches: %t, and isProfileName: %t", name, schema, own)
		}
	}
}
