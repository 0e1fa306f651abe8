// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/imports"
)

// pastedServers returns the servers of a JSON text.
func pastedServers(t *testing.T, text string) []imports.Server {
	t.Helper()
	result, err := imports.Read(imports.Source{}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return imports.Merge([]*imports.Result{result}, nil, nil)
}

// TestMoveSecrets checks what is a secret, and how each is named: equal values may share a
// name, and no name gets two values.
func TestMoveSecrets(t *testing.T) {
	t.Parallel()
	const known = "a-known-value"
	mayUse := func(name, value string) bool { return name != "TAKEN_TOKEN" || value == known }
	for _, tt := range []struct {
		name, servers string
		want          []imports.Secret
		entry         []string // of the configuration
		notes         []string
	}{
		{"a variable", `{"a": {"command": "x", "env": {"FORGE_TOKEN": "real-value", "MODE": "fast"}}}`,
			[]imports.Secret{{"FORGE_TOKEN", "real-value"}}, []string{`FORGE_TOKEN: "${FORGE_TOKEN}"`, "MODE: fast"}, []string{"FORGE_TOKEN moves to secrets.env"}},
		{"a general name", `{"my-forge": {"command": "x", "env": {"API_KEY": "real-value"}}}`,
			[]imports.Secret{{"MY_FORGE_API_KEY", "real-value"}}, []string{`API_KEY: "${MY_FORGE_API_KEY}"`}, []string{"env API_KEY moves to secrets.env as MY_FORGE_API_KEY"}},
		{"equal values", `{"a": {"command": "x", "env": {"FORGE_TOKEN": "real-value"}}, "b": {"command": "y", "env": {"FORGE_TOKEN": "real-value"}}}`,
			[]imports.Secret{{"FORGE_TOKEN", "real-value"}}, nil, []string{"FORGE_TOKEN moves to secrets.env", "FORGE_TOKEN moves to secrets.env"}},
		{"different values", `{"a": {"command": "x", "env": {"FORGE_TOKEN": "real-value"}}, "b": {"command": "y", "env": {"FORGE_TOKEN": "real-other"}}}`,
			[]imports.Secret{{"FORGE_TOKEN", "real-value"}, {"B_FORGE_TOKEN", "real-other"}}, []string{`FORGE_TOKEN: "${B_FORGE_TOKEN}"`}, nil},
		{"a name that is taken", `{"a": {"command": "x", "env": {"TAKEN_TOKEN": "real-value"}}}`,
			[]imports.Secret{{"A_TAKEN_TOKEN", "real-value"}}, nil, []string{"env TAKEN_TOKEN moves to secrets.env as A_TAKEN_TOKEN"}},
		{"a name that has the value", `{"a": {"command": "x", "env": {"TAKEN_TOKEN": "` + known + `"}}}`,
			[]imports.Secret{{"TAKEN_TOKEN", known}}, nil, []string{"TAKEN_TOKEN moves to secrets.env"}},
		{"a name with a reference", `{"a": {"command": "x", "env": {"FORGE_TOKEN": "real-value"}}, "b": {"command": "y", "args": ["${FORGE_TOKEN:-none}"]}}`,
			[]imports.Secret{{"A_FORGE_TOKEN", "real-value"}}, nil, nil},
		{"names that begin with the server's", `{"taken": {"command": "x", "env": {"TAKEN_TOKEN": "real-value"}}}`,
			[]imports.Secret{{"TAKEN_TOKEN_2", "real-value"}}, nil, nil},

		{"headers", `{"a": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer real-value", "X-API-Key": "real-other", "X-Team": "blue", "Accept-Language": "en-GB,en;q=0.9"}}}`,
			[]imports.Secret{{"A_TOKEN", "real-value"}, {"A_API_KEY", "real-other"}}, []string{`Authorization: "Bearer ${A_TOKEN}"`, `X-API-Key: "${A_API_KEY}"`, "X-Team: blue"}, nil},
		{"a header by its characters", `{"a": {"url": "https://h/mcp", "headers": {"X-Access": "q7Zk2pLx9WvB4nTy8sRd", "X-Purpose": "the-search-of-all-documents-2", "X-Session-Id": "q7Zk2pLx9WvB4nTy8sRd"}}}`,
			[]imports.Secret{{"A_ACCESS", "q7Zk2pLx9WvB4nTy8sRd"}}, nil, nil},
		{"an address", `{"a": {"url": "https://h/mcp?team=blue&api_key=real%2Bvalue&x=1"}}`,
			[]imports.Secret{{"A_API_KEY", "real%2Bvalue"}}, []string{`url: "https://h/mcp?team=blue&api_key=${A_API_KEY}&x=1"`}, nil},
		{"a user in an address", `{"a": {"url": "https://me:real-value@h/mcp"}}`,
			[]imports.Secret{{"A_TOKEN", "bWU6cmVhbC12YWx1ZQ=="}}, []string{`Authorization: "Basic ${A_TOKEN}"`, `url: https://h/mcp`}, nil},
		{"a user in an address beside a header", `{"a": {"url": "https://me:real-value@h/mcp", "headers": {"authorization": "Bearer real-other"}}}`,
			[]imports.Secret{{"A_TOKEN", "real-other"}}, []string{`authorization: "Bearer ${A_TOKEN}"`, `url: https://h/mcp`}, nil},
		{"arguments", `{"a": {"command": "x", "args": ["--api-key=real-value", "--token", "real-other", "-e", "FORGE_TOKEN=real-third", "--header", "X-Api-Key:real-fourth", "postgres://u:real-fifth@h/db", "--db=postgres://u:real-sixth@h/db"]}}`,
			[]imports.Secret{{"A_API_KEY", "real-value"}, {"A_TOKEN", "real-other"}, {"FORGE_TOKEN", "real-third"}, {"A_API_KEY_2", "real-fourth"},
				{"A_URL", "postgres://u:real-fifth@h/db"}, {"A_URL_2", "postgres://u:real-sixth@h/db"}},
			[]string{`args: ["--api-key=${A_API_KEY}", --token, "${A_TOKEN}", "-e", "FORGE_TOKEN=${FORGE_TOKEN}", --header, "X-Api-Key:${A_API_KEY_2}", "${A_URL}", "--db=${A_URL_2}"]`}, nil},
		{"placeholders", `{"a": {"command": "x", "env": {"FORGE_TOKEN": "YOUR_TOKEN", "ROOT": "/path/to/root"}}}`,
			nil, []string{`FORGE_TOKEN: "${FORGE_TOKEN}"`, "ROOT: /path/to/root", "disabled: true"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			servers := pastedServers(t, tt.servers)
			moved := imports.MoveSecrets(servers, mayUse)
			if diff := cmp.Diff(tt.want, moved); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			text := string(render(t, servers))
			for _, line := range tt.entry {
				if !strings.Contains(text, line+"\n") {
					t.Errorf("no %s in\n%s", line, text)
				}
			}
			var notes []string
			for _, s := range servers {
				for _, n := range s.Notes {
					notes = append(notes, n.Text)
				}
			}
			if tt.notes != nil && !slices.Equal(notes, tt.notes) {
				t.Errorf("notes %q, want %q", notes, tt.notes)
			}
			if strings.Contains(text+strings.Join(notes, ""), "real-") {
				t.Errorf("a secret is in\n%s%q", text, notes)
			}
		})
	}
}

// Secrets that stay are named without their values.
func TestKeepSecrets(t *testing.T) {
	t.Parallel()
	servers := pastedServers(t, `{"a": {"command": "x", "args": ["--token", "real-value"], "env": {"FORGE_TOKEN": "real-other", "B_TOKEN": "YOUR_TOKEN"}}}`)
	imports.KeepSecrets(servers)
	var notes []string
	for _, n := range servers[0].Notes {
		notes = append(notes, n.Text)
	}
	want := []string{
		"disabled: B_TOKEN is a placeholder",
		"env FORGE_TOKEN is a literal secret in the configuration (better run 'signalbox secret set FORGE_TOKEN', and write ${FORGE_TOKEN})",
		"argument 2 is a literal secret in the configuration (better run 'signalbox secret set A_TOKEN', and write ${A_TOKEN})",
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := string(render(t, servers)); !strings.Contains(text, "real-value") || !strings.Contains(text, "FORGE_TOKEN: real-other\n") {
		t.Errorf("a secret is missing in\n%s", text)
	}
}

// TestUserInAddress checks that the user in an address becomes a header, also if the rest of the
// address is not known, and is shown nowhere.
func TestUserInAddress(t *testing.T) {
	t.Parallel()
	const basic = "Basic bWU6aHVudGVyMg==" // me:hunter2
	for _, tt := range []struct{ address, headers, want, header string }{
		{"https://me:hunter2@h/mcp", `{}`, "https://h/mcp", basic},
		{"https://me:hunter%32@h", `{}`, "https://h", basic},
		{"https://me:hunter2@h/${TEAM}/mcp", `{}`, "https://h/${TEAM}/mcp", basic},
		{"https://me:hunter2@h/<TEAM>", `{}`, "https://h/<TEAM>", basic},
		{"https://me:hunter2@h/${TEAM}", `{"authorization": "Bearer x"}`, "https://h/${TEAM}", ""},
		{"https://${ME}:hunter2@h/mcp", `{}`, "https://h/mcp", ""},
		{"https://h/a@b?c=@", `{}`, "https://h/a@b?c=@", ""},
	} {
		text := fmt.Sprintf(`{"mcpServers": {"a": {"url": %q, "headers": %s}}}`, tt.address, tt.headers)
		result, err := imports.Read(imports.Source{File: "a.json"}, []byte(text))
		if err != nil || len(result.Servers) != 1 {
			t.Errorf("%s: %+v, %v", tt.address, result, err)
			continue
		}
		s := &result.Servers[0]
		header := ""
		for _, p := range s.Headers {
			if p.Name == "Authorization" {
				header = p.Value
			}
		}
		if s.URL != tt.want || header != tt.header || strings.Contains(s.Summary(), "hunter2") {
			t.Errorf("%s: %q with %q, shown as %q, want %q with %q", tt.address, s.URL, header, s.Summary(), tt.want, tt.header)
		}
		if strings.Contains(tt.address, "${ME}") && (!s.Disabled || len(s.Notes) == 0) {
			t.Errorf("%s: %+v, want a note, and a server that is disabled", tt.address, s)
		}
		accept(t, tt.address, render(t, result.Servers), result.Servers, nil)
	}
}
