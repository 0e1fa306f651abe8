// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/config"
)

func TestAddressThatIsOurOwn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, url, listen string
		want              bool
	}{
		{"the line to paste", "http://127.0.0.1:7777/mcp", "127.0.0.1:7777", true},
		{"by name", "http://localhost:7777/mcp", "127.0.0.1:7777", true},
		{"of the other kind", "http://[::1]:7777/mcp", "localhost:7777", true},
		{"on all addresses", "http://127.0.0.1:7777/mcp", "0.0.0.0:7777", true},
		{"on all of both kinds", "http://localhost:7777/mcp", ":7777", true},
		{"on all, by a name", "http://box.example:7777/mcp", ":7777", false},
		{"a name that is the listener's", "http://box.example:80/mcp", "box.example:80", true},
		{"another port", "http://127.0.0.1:7778/mcp", "127.0.0.1:7777", false},
		{"another path", "http://127.0.0.1:7777/other", "127.0.0.1:7777", false},
		{"another machine", "http://192.0.2.1:7777/mcp", "127.0.0.1:7777", false},
		{"another address of ours", "http://127.0.0.1:7777/mcp", "192.0.2.1:7777", false},
		{"no port", "http://127.0.0.1/mcp", "127.0.0.1:7777", false},
		{"the port of http", "http://localhost/mcp", ":80", true},
		{"the port of https", "https://localhost/mcp", ":443", true},
		{"no address", "://", "127.0.0.1:7777", false},
		{"no listener", "http://127.0.0.1:7777/mcp", "nowhere", false},
		{"a profile", "http://127.0.0.1:7777/mcp/p/coding", "127.0.0.1:7777", true},
		{"below a profile", "http://127.0.0.1:7777/mcp/p/coding/x", "127.0.0.1:7777", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := isSelf(tt.url, tt.listen, "/mcp"); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		listen string
		tls    *config.TLS
		want   string
	}{
		{"", nil, "http://127.0.0.1:7777"},
		{"box.example:99", nil, "http://box.example:99"},
		{":99", nil, "http://127.0.0.1:99"},
		{"0.0.0.0:99", nil, "http://127.0.0.1:99"},
		{"[::]:99", nil, "http://[::1]:99"},
		{"127.0.0.1:99", new(config.TLS), "https://127.0.0.1:99"},
	} {
		got, err := Origin(&config.Config{Listen: tt.listen, TLS: tt.tls})
		if err != nil || got.String() != tt.want {
			t.Errorf("%q: got %v, %v; want %s", tt.listen, got, err, tt.want)
		}
	}
}

// A file that is shared with other programs may contain the gateway; the other servers are
// served.
func TestOwnEntryIsLeftOut(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Listen: "127.0.0.1:99", Path: "/here", Servers: []config.Backend{
		{Name: "box", URL: "http://localhost:99/here"},
		{Name: "other", URL: "http://localhost:99/there"},
		{Name: "off", URL: "http://localhost:99/here", Disabled: true},
		{Name: "kid", Command: "x"},
		{Name: "my.box", URL: "http://127.0.0.1:99/here"},
	}}
	LeaveSelf(cfg)
	for i, want := range []bool{true, false, true, false, true} {
		if got := cfg.Servers[i].Disabled; got != want {
			t.Errorf("%s: disabled %v, want %v", cfg.Servers[i].Name, got, want)
		}
	}
	if len(cfg.Notes) != 2 || cfg.Notes[0].String() != `mcpServers.box: "box" is this gateway itself and is skipped` ||
		cfg.Notes[1].String() != `mcpServers["my.box"]: "my.box" is this gateway itself and is skipped` {
		t.Errorf("noted %v", cfg.Notes)
	}
}

// A file has the same FileID under all its names. The FileID is passed to backends, together
// with those of the enclosing gateways.
func TestFileIDIsPassedOn(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	file := filepath.Join(e.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "mcpServers: {kid: {command: x, env: {A: b}}, wiki: {url: 'http://127.0.0.1:1/'}}\n")
	link := filepath.Join(e.Dir, "link.yaml")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	inside := "0123456789abcdef"
	lookup := func(name string) (string, bool) { return inside, name == InsideVariable }

	cfg, err := Source{Path: file, Lookup: lookup}.Load()
	if err != nil {
		t.Fatal(err)
	}
	kid := cfg.Servers[0].Env
	if got := kid["A"].Reveal(); got != "b" || len(kid) != 2 {
		t.Errorf("the environment of the configuration became %d variables, A=%q", len(kid), got)
	}
	if len(cfg.Servers[1].Env) != 0 {
		t.Error("an address got an environment")
	}
	inside = kid[InsideVariable].Reveal()
	if !strings.HasPrefix(inside, "0123456789abcdef,") || strings.Contains(inside, "signalbox.yaml") {
		t.Errorf("the mark is %q", inside)
	}
	for _, path := range []string{file, link, filepath.Join(e.Dir, ".", "x", "..", "signalbox.yaml")} {
		if _, err := (Source{Path: path, Lookup: lookup}).Load(); err == nil || !strings.Contains(err.Error(), "would start itself without end") {
			t.Errorf("%s inside of itself: %v", path, err)
		}
	}
	commandtest.Write(t, filepath.Join(e.Dir, "other.yaml"), "mcpServers: {}\n")
	if _, err := (Source{Path: filepath.Join(e.Dir, "other.yaml"), Lookup: lookup}).Load(); err != nil {
		t.Errorf("another file inside: %v", err)
	}
}

// A configured value of the variable has precedence.
func TestConfiguredInsideVariableWins(t *testing.T) {
	t.Parallel()
	s := Source{Path: "x.yaml", Lookup: func(string) (string, bool) { return "", false }}
	cfg := &config.Config{Servers: []config.Backend{{
		Name: "kid", Command: "x",
		Env: map[string]config.Secret{InsideVariable: config.NewSecret("own")},
	}}}
	s.MarkBackends(cfg)
	if got := cfg.Servers[0].Env[InsideVariable].Reveal(); got != "own" {
		t.Errorf("got %q, want the configuration's", got)
	}
}
