// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package clients_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/clients"
)

// Each fact has a source and a day. Without a source it is unknown, and has no value.
func TestFactsHaveSources(t *testing.T) {
	t.Parallel()
	day := regexp.MustCompile(`^20\d\d-\d\d-\d\d$`)
	check := func(what string, known bool, source clients.Source) {
		t.Helper()
		if known != source.IsKnown() || known != day.MatchString(source.Day) || known && !strings.HasPrefix(source.URL, "https://") {
			t.Errorf("%s: known %v, source %+v", what, known, source)
		}
	}
	for _, c := range clients.All() {
		check(c.ID+" after", c.After.Value != clients.Unknown, c.After.Source)
		check(c.ID+" transports", c.Transports.Value != nil, c.Transports.Source)
		check(c.ID+" off", c.Off.Value.Key != "", c.Off.Source)
		known := 0
		for _, f := range c.Files {
			check(c.ID+" "+f.Path, f.Source.IsKnown(), f.Source)
			if f.Source.IsKnown() {
				known++
			}
		}
		if known == 0 {
			t.Errorf("%s: no known file", c.ID)
		}
	}
}

func TestTableIsConsistent(t *testing.T) {
	t.Parallel()
	id := regexp.MustCompile(`^[a-z][a-z-]*[a-z]$`)
	seen := make(map[string]bool)
	for _, c := range clients.All() {
		if !id.MatchString(c.ID) || seen[c.ID] || c.Name == "" || c.Dialect == "" || c.Key == "" {
			t.Errorf("incomplete or repeated: %+v", c)
		}
		seen[c.ID] = true
		if got, ok := clients.ByID(c.ID); !ok || got.Name != c.Name {
			t.Errorf("ByID(%q) = %v, %v", c.ID, got.Name, ok)
		}
		for _, f := range c.Files {
			base, _, _ := strings.Cut(f.Path, "/")
			if isBase := base == "~" || base == "<config>" || base == "<xdg>"; isBase != (f.Scope == clients.User) {
				t.Errorf("%s: %s in scope %s", c.ID, f.Path, f.Scope)
			}
		}
	}
	if _, ok := clients.ByID("notepad"); ok || len(clients.IDs()) != len(seen) {
		t.Errorf("IDs %v, of an unknown one %v", clients.IDs(), ok)
	}
}

// paths returns the path of each file of a client on a system, with slashes.
func paths(t *testing.T, id string, p clients.Places) []string {
	t.Helper()
	c, ok := clients.ByID(id)
	if !ok {
		t.Fatal("no client", id)
	}
	var all []string
	for _, f := range c.Files {
		if path := p.Path(f); path != "" {
			all = append(all, filepath.ToSlash(path))
		}
	}
	return all
}

func TestPaths(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	for _, tt := range []struct {
		id     string
		system clients.System
		env    map[string]string
		want   []string
	}{
		{"claude-desktop", clients.Linux, nil, []string{"/h/.config/Claude/claude_desktop_config.json"}},
		{"claude-desktop", clients.MacOS, nil, []string{"/h/Library/Application Support/Claude/claude_desktop_config.json"}},
		{"claude-desktop", clients.Windows, map[string]string{"APPDATA": "/r"}, []string{"/r/Claude/claude_desktop_config.json"}},
		{"claude-code", clients.Linux, nil, []string{"/h/.claude.json", "/p/.mcp.json"}},
		{"claude-code", clients.Linux, map[string]string{"CLAUDE_CONFIG_DIR": "/c"}, []string{"/c/.claude.json", "/p/.mcp.json"}},
		{"codex", clients.MacOS, map[string]string{"CODEX_HOME": "/x"}, []string{"/x/config.toml", "/p/.codex/config.toml"}},
		{"goose", clients.MacOS, map[string]string{"XDG_CONFIG_HOME": "/g"}, []string{"/g/goose/config.yaml"}},
		{"goose", clients.Windows, nil, []string{"/h/AppData/Roaming/Block/goose/config/config.yaml"}},
		{"zed", "freebsd", nil, []string{"/h/.config/zed/settings.json", "/p/.zed/settings.json"}},
		{"cline", clients.Linux, map[string]string{"CLINE_MCP_SETTINGS_PATH": "/m/x.json"}, []string{
			"/h/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", "/m/x.json",
		}},
	} {
		getenv := none
		if tt.env != nil {
			getenv = func(name string) string { return tt.env[name] }
		}
		p := clients.Places{System: tt.system, Home: "/h", Project: "/p", Getenv: getenv}
		p.Config = clients.DefaultConfig(tt.system, "/h", getenv)
		if diff := cmp.Diff(tt.want, paths(t, tt.id, p)); diff != "" {
			t.Errorf("%s on %s:\n%s", tt.id, tt.system, diff)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	home, project := t.TempDir(), filepath.Join(t.TempDir(), "p[1]")
	for _, path := range []string{
		filepath.Join(home, ".cursor", "mcp.json"),
		filepath.Join(home, ".config", "zed", "settings.json", "a folder"),
		filepath.Join(project, ".mcp.json"),
		filepath.Join(project, ".continue", "mcpServers", "b.yaml"),
		filepath.Join(project, ".continue", "mcpServers", "a.json"),
		filepath.Join(project, ".vscode", "mcp.json"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := clients.Places{System: clients.Linux, Home: home, Config: filepath.Join(home, ".config"), Project: project}
	var got []string
	for _, found := range p.Find() {
		base := home
		if found.Project != "" {
			base = project
		}
		path, err := filepath.Rel(base, found.Path)
		if err != nil || (found.File.Scope == clients.Project) != (found.Project == project) {
			t.Errorf("%+v: %v", found, err)
		}
		got = append(got, found.Client.ID+" "+filepath.ToSlash(path))
	}
	// .mcp.json belongs to two clients, and is listed once.
	want := []string{
		"claude-code .mcp.json", "cursor .cursor/mcp.json", "vscode .vscode/mcp.json",
		"continue .continue/mcpServers/a.json", "continue .continue/mcpServers/b.yaml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if found := (clients.Places{System: clients.Linux}).Find(); found != nil {
		t.Errorf("without folders: %v", found)
	}
}

func TestToWrite(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, path := range []string{".config/opencode/opencode.jsonc", ".config/Code/User/settings.json", ".cache/lm-studio/mcp.json"} {
		at := filepath.Join(home, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := clients.Places{System: clients.Linux, Home: home, Config: filepath.Join(home, ".config"), Project: home}
	for id, want := range map[string]string{
		"cursor":         ".cursor/mcp.json",
		"opencode":       ".config/opencode/opencode.jsonc", // the one that exists
		"vscode":         ".config/Code/User/mcp.json",      // not the former place, which exists
		"lm-studio":      ".lmstudio/mcp.json",
		"claude-code":    ".claude.json",
		"claude-desktop": "", // unknown on Linux
	} {
		c, _ := clients.ByID(id)
		f, path, ok := p.ToWrite(c, clients.User)
		if want != "" {
			want = filepath.Join(home, filepath.FromSlash(want))
		}
		if path != want || ok != (want != "") || f.Reserved != (id == "claude-code") {
			t.Errorf("%s: %q, %v, %+v", id, path, ok, f)
		}
	}
	// A file that a build of others has made is read by it.
	desktop := filepath.Join(home, ".config", "Claude", "claude_desktop_config.json")
	if err := os.MkdirAll(filepath.Dir(desktop), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(desktop, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ := clients.ByID("claude-desktop")
	if _, path, ok := p.ToWrite(c, clients.User); path != desktop || !ok {
		t.Errorf("a file of an unknown build: %q, %v", path, ok)
	}
	c, _ = clients.ByID("vscode")
	if _, path, _ := p.ToWrite(c, clients.Project); path != filepath.Join(home, ".vscode", "mcp.json") {
		t.Errorf("of a project: %q", path)
	}
}
