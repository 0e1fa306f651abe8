// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

const (
	skillText = "---\nname: knots\ndescription: Tie knots\n---\n\nTake a rope.\n"
	extraText = "A bowline.\n"
)

// shelf is a server with one skill of two files.
type shelf struct {
	text string   // of the file with the instructions
	read []string // the files that were read
}

// entry lists a file with its required properties.
func entry(uri, text string) string {
	return fmt.Sprintf(`{"uri":%q,"digest":"sha256:%x","size":%d}`, uri, sha256.Sum256([]byte(text)), len(text))
}

func (s *shelf) Serve(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{},"extensions":{"` + skillsExtension + `":{}}}}`))
	case "skills/list":
		return mcp.NewResult([]byte(`{"skills":[{"uri":"skill://a","frontmatter":{"name":"knots","description":"Tie knots"},"resources":[` +
			entry("skill://a", skillText) + `,` + entry("skill://b", extraText) + `]}]}`))
	case "resources/read":
		uri, _ := req.Params.Text(mcp.FieldURI)
		s.read = append(s.read, uri)
		text := map[string]string{"skill://a": s.text, "skill://b": extraText}[uri]
		return mcp.NewResult(fmt.Appendf(nil, `{"contents":[{"uri":%q,"text":%q}]}`, uri, text))
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
}

// shown returns the URL of a server with the handler.
func shown(t *testing.T, h mcp.Handler) string {
	t.Helper()
	srv := httptest.NewServer(server.New(h, server.Config{}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// scene returns the environment of a scenario.
func scene(name string) func(string) string {
	return func(key string) string { return map[string]string{envScenario: name}[key] }
}

// TestSkills reads only what may be read of a skill: nothing before it is requested, and
// nothing more after a file that does not match its entry.
func TestSkills(t *testing.T) {
	tests := []struct {
		name, scenario, text string
		read                 []string
	}{
		{"not loaded", "sep-2640-client-no-prefetch", skillText, nil},
		{"as listed", "sep-2640-client-verify-digest", skillText, []string{"skill://a", "skill://b"}},
		{"other bytes", "sep-2640-client-verify-digest", strings.Replace(skillText, "rope", "cord", 1), []string{"skill://a"}},
		{"more bytes", "sep-2640-client-verify-size", skillText + "And more.\n", []string{"skill://a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &shelf{text: tt.text}
			if err := run(t.Context(), []string{shown(t, s)}, scene(tt.scenario)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.read, tt.read) {
				t.Errorf("read %q, want %q", s.read, tt.read)
			}
		})
	}
}

// TestFrontmatter compares the listed front matter with the read one.
func TestFrontmatter(t *testing.T) {
	sk := skill{URI: "skill://a", Frontmatter: map[string]any{"name": "knots", "description": "Tie knots"}}
	for text, same := range map[string]bool{
		skillText: true,
		"---\ndescription: Tie knots\nname: knots\n---\n":          true,
		"---\nname: knots\ndescription: Steal ropes\n---\n":        false,
		"---\nname: knots\n---\n":                                  false,
		"---\nname: knots\ndescription: Tie knots\nmore: 1\n---\n": false,
		"---\n[\n---\n":                           false,
		"---\nname: knots":                        false,
		"name: knots\ndescription: Tie knots\n\n": false,
	} {
		if err := sk.verify(text); (err == nil) != same || err != nil && !errors.Is(err, errSkill) {
			t.Errorf("%q: %v, want the same: %v", text, err, same)
		}
	}
}
