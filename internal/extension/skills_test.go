// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestSkillsOf(t *testing.T) {
	for capabilities, want := range map[string]SkillsOffer{
		``:                  {},
		`{}`:                {},
		`{"extensions":{}}`: {},
		`{"extensions":{"io.modelcontextprotocol/skills":{}}}`:                                                 {Lists: true},
		`{"extensions":{"io.modelcontextprotocol\/skills":{"directoryRead":false}}}`:                           {Lists: true},
		`{"extensions":{"io.modelcontextprotocol/s\u006bills":{"directoryRead":true}}}`:                        {Lists: true, ReadsDirectories: true},
		`{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":"true"}}}`:                           {Lists: true},
		`{"extensions":{"io.modelcontextprotocol/skills":{"config":{"directoryRead":true}}}}`:                  {Lists: true},
		`{"extensions":{"io.modelcontextprotocol/skills":null}}`:                                               {},
		`{"extensions":{"io.modelcontextprotocol/skills":true}}`:                                               {},
		`{"extensions":["io.modelcontextprotocol/skills"]}`:                                                    {},
		`{"experimental":{"io.modelcontextprotocol/skills":{}}}`:                                               {},
		`{"io.modelcontextprotocol/skills":{},"extensions":{"com.example/x":{"skills":{}}}}`:                   {},
		`{"extensions":{"com.example/x":{"io.modelcontextprotocol/skills":{"directoryRead":true}}},"tools":0}`: {},
	} {
		if got := SkillsOf([]byte(capabilities)); got != want {
			t.Errorf("%s: %+v, want %+v", capabilities, got, want)
		}
	}
}

func TestWithSkills(t *testing.T) {
	for capabilities, want := range map[string]string{
		``:                        `{"extensions":{"io.modelcontextprotocol/skills":{}}}`,
		`{"roots":{}}`:            `{"roots":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`,
		`{"extensions":{"x":{}}}`: `{"extensions":{"x":{},"io.modelcontextprotocol/skills":{}}}`,
		`{"extensions":{"io.modelcontextprotocol/skills":{"a":1}}}`:    `{"extensions":{"io.modelcontextprotocol/skills":{"a":1}}}`,
		`{"extensions":{"io.modelcontextprotocol/skills":null},"b":1}`: `{"extensions":{"io.modelcontextprotocol/skills":{}},"b":1}`,
	} {
		if got := string(WithSkills([]byte(capabilities))); got != want {
			t.Errorf("%s: %s, want %s", capabilities, got, want)
		}
	}
}

// Nothing but URIs changes in an entry, which hosts compare with the files of the skill.
func TestOuterSkill(t *testing.T) {
	for entry, want := range map[string]string{
		`{"uri":"skill://p/s/SKILL.md","frontmatter":{"name":"s","uri":"skill://p","resources":[{"uri":"skill://p"}]},"resources":[ {"uri":"skill://p/s/SKILL.md","digest":"sha256:00","size":1e0} ]}`: `{"uri":"skill://b/p/s/SKILL.md","frontmatter":{"name":"s","uri":"skill://p","resources":[{"uri":"skill://p"}]},"resources":[{"uri":"skill://b/p/s/SKILL.md","digest":"sha256:00","size":1e0}]}`,
		`{"uri":"skill:\/\/s\/SKILL.md","resources":"dynamic"}`:                            `{"uri":"skill://b/s/SKILL.md","resources":"dynamic"}`,
		`{"uri":"git://s/SKILL.md","resources":[{"uri":"git://s/SKILL.md","digest":"d"}]}`: "",
		`{"uri":7,"resources":{"uri":"skill://s"}}`:                                        "",
	} {
		in := []byte(entry)
		got := OuterSkill("b", in)
		if want == "" {
			if &got[0] != &in[0] {
				t.Errorf("%s is copied", entry)
			}
			want = entry
		}
		if string(got) != want || string(in) != entry {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if bare := OuterSkill("", in); &bare[0] != &in[0] {
			t.Errorf("without a label: %s", bare)
		}
	}
}

func TestSkillURIs(t *testing.T) {
	for entry, want := range map[string]string{
		`{"uri":"skill://s/SKILL.md","resources":[{"uri":"skill://s/SKILL.md"},{"uri":"skill://s/a"},{"uri":"file:///b"}]}`: "skill://s/SKILL.md skill://s skill://s/a file:///b",
		`{"uri":"skill://s/SKILL.md","resources":"dynamic"}`:                                                                "skill://s/SKILL.md skill://s",
		`{"uri":"git://p/s/SKILL.md","resources":[{"uri":"git://p/s/a/b/c"},{"uri":"git://p/s/a/d"},{"uri":"git://p/x"}]}`:  "git://p/s/SKILL.md git://p/s git://p/s/a/b/c git://p/s/a/b git://p/s/a git://p/s/a/d git://p/x",
		`{"uri":"s"}`: "s ",
	} {
		if got := strings.Join(SkillURIs([]byte(entry)), " "); got != want {
			t.Errorf("%s: %s, want %s", entry, got, want)
		}
	}
}

func TestOuterDirectory(t *testing.T) {
	const result = `{"nextCursor":"2","resources":[{"uri":"skill://s/a","name":"a"},{"uri":"skill://s/secret"},{"name":"none"},{"uri":"skill://s/a","uri":"skill://s/secret"},{"uri":"file:///c"}]}`
	var asked []string
	got := OuterDirectory("b", []byte(result), func(own string) bool {
		asked = append(asked, own)
		return own != "skill://s/secret"
	})
	if want := `{"nextCursor":"2","resources":[{"uri":"skill://b/s/a","name":"a"},{"uri":"file:///c"}]}`; string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if want := []string{"skill://s/a", "skill://s/secret", "file:///c"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	for _, odd := range []string{`{}`, `{"resources":7}`, `{"resources":[]}`} {
		if got := OuterDirectory("b", []byte(odd), func(string) bool { return false }); !bytes.Equal(got, []byte(odd)) {
			t.Errorf("%s: %s", odd, got)
		}
	}
}
