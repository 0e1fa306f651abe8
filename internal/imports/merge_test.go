// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/imports"
)

// readAs reads a text as the file of a client.
func readAs(t *testing.T, client, text string) *imports.Result {
	t.Helper()
	c, ok := clients.ByID(client)
	if !ok {
		t.Fatal("no client", client)
	}
	result, err := imports.Read(imports.Source{File: client + ".json", Client: client, Dialect: c.Dialect, Home: "/home/me"}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// Servers that are started or reached in the same way are one, whatever their names.
func TestMergeJoinsEqualServers(t *testing.T) {
	t.Parallel()
	servers := imports.Merge([]*imports.Result{
		readAs(t, "claude-desktop", `{"mcpServers": {
			"files": {"command": "npx", "args": ["-y", "files", "${DOCS}"]},
			"wiki": {"url": "https://wiki.example.com/mcp/"},
			"forge": {"command": "forge", "env": {"FORGE_TOKEN": "${A}"}}}}`),
		readAs(t, "cursor", `{"mcpServers": {
			"fs": {"command": "npx", "args": ["-y", "files", "/home/me/docs"]},
			"wiki": {"url": "https://wiki.example.com/mcp"},
			"forge": {"command": "forge", "env": {"FORGE_TOKEN": "${B}"}, "disabled": true}}}`),
	}, nil, func(name string) (string, bool) { return "/home/me/docs", name == "DOCS" })
	var got []string
	for _, s := range servers {
		got = append(got, fmt.Sprintf("%s %v %v %d", s.Name, s.Origins, s.Disabled, len(s.Notes)))
	}
	want := []string{
		"files [claude-desktop.json:2 cursor.json:2] false 0",
		"wiki [claude-desktop.json:3 cursor.json:3] false 0",
		"forge [claude-desktop.json:4 cursor.json:4] false 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if note := servers[2].Notes[0].Text; note != "variables differ in cursor.json:4, and those of claude-desktop.json:4 are used" {
		t.Error(note)
	}
}

// Different servers with one name get their clients as suffixes.
func TestMergeRenames(t *testing.T) {
	t.Parallel()
	servers := imports.Merge([]*imports.Result{
		readAs(t, "cursor", `{"mcpServers": {"forge": {"command": "one"}, "wiki": {"command": "w"}, "x/files": {"command": "f"}, "y/files": {"command": "g"}}}`),
		readAs(t, "kiro", `{"mcpServers": {"forge": {"command": "two"}}}`),
		readAs(t, "kiro", `{"mcpServers": {"forge": {"command": "three"}, "forge_kiro": {"command": "four"}}}`),
	}, []string{"wiki", "wiki_cursor"}, nil)
	var got []string
	for _, s := range servers {
		got = append(got, s.Name+" "+s.Command)
	}
	want := []string{"forge_cursor one", "wiki_cursor_2 w", "x_files f", "y_files g", "forge_kiro_2 two", "forge_kiro_3 three", "forge_kiro four"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	accept(t, "renamed", render(t, servers), servers, nil)
}

func TestFitName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"brave search":                  "brave_search",
		"github.com/x/library-mcp":      "library-mcp",
		"a__b":                          "a_b",
		"_a_":                           "a",
		"文件":                            "server",
		"":                              "server",
		"x/":                            "x",
		"x/1":                           "x_1",
		strings.Repeat("long-name-", 9): "long-name-long-name-long-name-long-name",
	} {
		if got := imports.FitName(in); got != want {
			t.Errorf("FitName(%q) = %q, want %q", in, got, want)
		}
	}
}

// A file of variables is imported if it exists.
func TestEnvFile(t *testing.T) {
	t.Parallel()
	src := imports.Source{File: "/p/.cursor/mcp.json", Client: "cursor", Dialect: clients.Cursor, Project: "/p"}
	src.Exists = func(path string) bool { return path == "/p/secrets/.env" }
	result, err := imports.Read(src, []byte(`{"mcpServers": {"a": {"command": "a", "envFile": "secrets/.env"}}}`))
	if err != nil || result.Servers[0].EnvFile != "/p/secrets/.env" || len(result.Servers[0].Notes) != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	if entry := string(render(t, result.Servers)); !strings.HasSuffix(entry, "    command: a\n    envFile: /p/secrets/.env\n") {
		t.Error(entry)
	}
}

// The unit of a timeout is that of the client.
func TestTimeoutUnits(t *testing.T) {
	t.Parallel()
	for client, want := range map[string]time.Duration{
		"gemini": 30 * time.Millisecond, "amazon-q": 30 * time.Millisecond, "opencode": 30 * time.Millisecond,
		"cline": 30 * time.Second, "roo": 30 * time.Second, "goose": 30 * time.Second, "crush": 30 * time.Second, "cursor": 30 * time.Second,
	} {
		s := readAs(t, client, `{"mcpServers": {"a": {"command": "a", "timeout": 30}}}`).Servers[0]
		if s.Timeout != want || len(s.Notes) > 0 != (client == "cursor") {
			t.Errorf("%s: %v, want %v; %v", client, s.Timeout, want, s.Notes)
		}
	}
	for text, want := range map[string]time.Duration{`"30s"`: 30 * time.Second, "0": 0, "-1": 0, "1e99": 0, `"soon"`: 0} {
		if s := readAs(t, "gemini", `{"mcpServers": {"a": {"command": "a", "timeout": `+text+`}}}`).Servers[0]; s.Timeout != want {
			t.Errorf("%s: %v, want %v", text, s.Timeout, want)
		}
	}
}

// Any text in a value is read back by the configuration as it was.
func TestRenderedTextsAreReadBack(t *testing.T) {
	t.Parallel()
	texts := []string{
		"-", "--", ".", "..", "~x", "true", "No", "null", "~", "", " ", "a b", "a: b", "a #b", "- a", "[a]", "{a}", "'a'", `"a"`, `\`, "1", "1e3", "0x1F", ".5", "-.5",
		"-1", "+1", ".inf", "-.inf", ".nan", "1:2", "=", "<<", "@a", "`a`", "%a", "!a", "&a", "*a", "|", ">", "a\tb", "a\nb", "é", "日本", "\u2028", "😀", "<a>&", "2001-01-01", "a,b", "a:", "?a", "---", "...",
	}
	s := imports.Server{Name: "a", Command: "a", Args: texts}
	for i, text := range texts {
		s.Env = append(s.Env, imports.Pair{Name: fmt.Sprintf("V%d", i), Value: text})
	}
	servers := []imports.Server{s}
	accept(t, "texts", render(t, servers), servers, nil)
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Minute: "1h30m", 5 * time.Minute: "5m", 10 * time.Second: "10s", 1500 * time.Millisecond: "1.5s"} {
		text := string(render(t, []imports.Server{{Name: "a", Command: "a", Timeout: d}}))
		if !strings.HasSuffix(text, "    command: a\n    timeout: "+want+"\n") {
			t.Errorf("%v: %q", d, text)
		}
	}
}

// A summary shows what is run, and no secret.
func TestSummary(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		server imports.Server
		want   string
	}{
		{imports.Server{Command: `C:\Program Files\node.exe`, Args: []string{"x.js"}}, "node.exe x.js"},
		{imports.Server{Command: "npx", Args: []string{"-y", "@x/y", "--token", "abcdefgh", "--api-key=abcdefgh", "z"}}, "npx @x/y z"},
		{imports.Server{Command: "psql", Args: []string{"postgres://me:hidden@db.example.com/x"}}, "psql"},
		{imports.Server{URL: "https://a.example.com/mcp?key=hidden"}, "https://a.example.com/mcp"},
	} {
		if got := tt.server.Summary(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// FuzzRead: any text is read or refused in one line, and what is read is a valid
// configuration.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`{"mcpServers": {"a": {"command": "npx", "args": ["${input:x}", "$Y", "~/z"], "env": {"K": "v"}, "includeTools": ["a", "b*"], "excludeTools": ["a"]}}}`,
		`{"servers": [{"name": "b", "url": "https://u:p@h.example.com/#x", "headers": {"A": "b"}}]}`,
		"[mcp_servers.a]\ncommand = \"x\"\nenv = {A = 1}\n",
		"extensions:\n  a:\n    cmd: x\n    enabled: true\n    type: stdio\n",
		"claude mcp add -e A=b c -- d 'e f'", "https://a.example.com", `"x": {"cmd": ["a"]}`,
	} {
		f.Add("", text)
		f.Add("opencode", text)
	}
	f.Fuzz(func(t *testing.T, client, text string) {
		src := imports.Source{Client: client}
		if c, ok := clients.ByID(client); ok {
			src.File, src.Dialect, src.Project = "x", c.Dialect, "/p"
		}
		result, err := imports.Read(src, []byte(text))
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("several lines: %q", err)
			}
			return
		}
		servers := imports.Merge([]*imports.Result{result}, []string{"a"}, nil)
		for _, n := range slices.Concat(result.Notes) {
			if strings.ContainsAny(n.Text, "\r\n") {
				t.Errorf("several lines: %q", n.Text)
			}
		}
		if len(servers) > 0 {
			accept(t, "fuzz", render(t, servers), servers, nil)
		}
	})
}

// A server is the same after 'signalbox pin'. Another version, or another package, is not.
func TestIsSameWithVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ours, theirs string
		same         bool
	}{
		{`npx -y @x/files@1.2.3 /docs`, `npx -y @x/files /docs`, true},
		{`npx -y @x/files@1.2.3 /docs`, `npx -y @x/files@latest /docs`, true},
		{`npx -y @x/files@1.2.3 /docs`, `npx -y @x/files@1.2.4 /docs`, false},
		{`npx -y @x/files@1.2.3 /docs`, `npx -y @x/files /other`, false},
		{`npx -y @x/files@1.2.3`, `npx -y @x/other`, false},
		{`uvx --from clock==1.0 run-clock`, `uvx --from clock run-clock`, true},
		{`uvx clock==1.0`, `uvx clock`, true},
		{`docker run -i ghcr.io/x/y@sha256:` + strings.Repeat("a", 64), `docker run -i ghcr.io/x/y:latest`, true},
		{`docker run -i ghcr.io/x/y@sha256:` + strings.Repeat("a", 64), `docker run -i ghcr.io/x/y:2`, false},
		{`docker run -i ghcr.io/x/y:2@sha256:` + strings.Repeat("a", 64), `docker run -i ghcr.io/x/y:2`, true},
	} {
		server := func(line string) *imports.Server {
			words := strings.Fields(line)
			return &imports.Server{Command: words[0], Args: words[1:]}
		}
		a, b := server(tt.ours), server(tt.theirs)
		if imports.IsSame(a, b, nil) != tt.same || imports.IsSame(b, a, nil) != tt.same {
			t.Errorf("%s and %s: want %v", tt.ours, tt.theirs, tt.same)
		}
	}
}
