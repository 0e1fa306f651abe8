// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestCondition(t *testing.T) {
	platform := &mcp.Identity{
		Principal: "corp:8f3a", Via: mcp.ViaJWT, Issuer: "https://id.example", Subject: "8f3a", Scopes: []string{"mcp:admin"},
		Claims: map[string]any{"groups": []any{"platform", "dev"}, "level": json.Number("3")},
	}
	ci := &mcp.Identity{Principal: "ci", Via: mcp.ViaToken}
	for _, tt := range []struct {
		text               string
		platform, ci, none bool
	}{
		{`"platform" in principal.claims.groups`, true, false, false},
		{`!("platform" in principal.claims.groups)`, false, false, false}, // a claim that is missing fails
		{`has(principal.claims.groups) && principal.claims.groups.exists(g, g == "dev")`, true, false, false},
		{`principal.name == "ci" || "mcp:admin" in principal.scopes`, true, true, false},
		{`principal.name in ["ci", "corp:8f3a"]`, true, true, false},
		{`principal.claims.level >= 3`, true, false, false},
		{`principal.via == "token"`, false, true, false},
		{`principal.claims.groups`, false, false, false}, // not a bool
		{`principal.name == ""`, false, false, true},
		{`true`, true, true, true},
		{`false`, false, false, false},
	} {
		c, err := CompileCondition(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if got := [3]bool{c.Holds(platform), c.Holds(ci), c.Holds(nil)}; got != [3]bool{tt.platform, tt.ci, tt.none} {
			t.Errorf("%s: %v", tt.text, got)
		}
	}
}

// Only the principal can be read, and mistakes have their place.
func TestConditionIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`item.kind == "tool"`:              "item",
		`args.x == 1`:                      "args",
		`request.client.name == "x"`:       "request",
		`principal.nam == "x"`:             "principal.nam",
		`principal.name`:                   "string, not bool",
		`principal.name = "x"`:             "Syntax error",
		``:                                 "Syntax error",
		strings.Repeat(" ", 5000) + `true`: "at most 4096",
	} {
		c, err := CompileCondition(text)
		if err == nil || c != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
	_, err := CompileCondition("true &&\n  args.x == 1")
	if err == nil || err.Line != 2 || err.Column != 3 {
		t.Errorf("%+v, want line 2, column 3", err)
	}
}
