// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("x.json", []byte(text), nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

// TestEveryKeyOfAServerRunsNewOrNot checks that each key of a server is listed as changing
// what is run, or not. A new key has to be added to one of the lists.
func TestEveryKeyOfAServerRunsNewOrNot(t *testing.T) {
	values := map[string]string{
		"type": `"sse"`, "command": `"y"`, "args": `["y"]`, "env": `{"A": "y"}`, "cwd": `"/y"`, "url": `"http://y"`, "headers": `{"A": "y"}`,
		"disabled": `true`, "prefix": `"y"`, "rename": `{"a": "y"}`, "include": `["y"]`, "exclude": `["y"]`, "apps": `false`, "timeout": `"7s"`, "share": `true`, "idle": `"7s"`, "memory": `"7MiB"`, "launch": `"direct"`, "era": `"legacy"`,
		"oauth": `{}`, "headersHelper": `{"command": ["y"]}`,
	}
	file := filepath.Join(t.TempDir(), "empty.env")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	values["envFile"] = strconv.Quote(file) // the content counts, and not the path
	var runs []string
	for _, k := range serverKeys() {
		value, ok := values[k.name]
		if !ok {
			t.Errorf("%q: add a value, and say in launch what it changes", k.name)
			continue
		}
		before, after := `"command": "x"`, `"command": "x", `
		switch k.name {
		case "url", "command": // one replaces the other
			after = ""
		case "headers", "type", "oauth", "headersHelper":
			before, after = `"url": "http://x"`, `"url": "http://x", `
		}
		old := parsed(t, fmt.Sprintf(`{"mcpServers": {"a": {%s}, "b": {"command": "b"}}}`, before))
		next := parsed(t, fmt.Sprintf(`{"mcpServers": {"a": {%s%q: %s}, "b": {"command": "b"}}}`, after, k.name, value))
		if got := old.RunsNew(next); slices.Equal(got, []string{"mcpServers.a"}) {
			runs = append(runs, k.name)
		} else if len(got) > 0 {
			t.Errorf("%q: %q", k.name, got)
		}
	}
	if want := []string{"type", "command", "args", "env", "cwd", "url", "headers", "oauth", "headersHelper", "launch"}; !cmp.Equal(runs, want) {
		t.Errorf("what runs something new: %q, want %q", runs, want)
	}
}

func TestReloads(t *testing.T) {
	const old = `{"mcpServers": {"a": {"command": "x"}, "b.c": {"url": "http://x"}}, "conflict": "first"}`
	for _, tt := range []struct {
		name, next string
		want       []string
	}{
		{"the same", old, nil},
		{"servers", `{"mcpServers": {"a": {"command": "y"}, "d": {"command": "x"}}, "conflict": "first"}`,
			[]string{"mcpServers.a changed", "mcpServers.d added", `mcpServers["b.c"] removed`}},
		{"settings", `{"mcpServers": {"a": {"command": "x"}, "b.c": {"url": "http://x"}}, "instructions": "x", "reload": "auto", "audit": {"file": "x"}}`,
			[]string{"instructions changed", "conflict changed", "reload changed", "audit changed"}},
	} {
		if diff := cmp.Diff(parsed(t, old).Effective().Reloads(parsed(t, tt.next).Effective()), tt.want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", tt.name, diff)
		}
	}
}

func TestRunsNew(t *testing.T) {
	const old = `{"mcpServers": {"a": {"command": "x", "args": ["1"]}, "off": {"command": "y", "disabled": true}, "w": {"url": "http://x"}}}`
	for _, tt := range []struct {
		name, next string
		want       []string
	}{
		{"the same", old, nil},
		{"another order", `{"mcpServers": {"w": {"url": "http://x"}, "a": {"command": "x", "args": ["1"]}}}`, nil},
		{"another name", `{"mcpServers": {"c": {"command": "x", "args": ["1"]}}}`, nil},
		{"a second one of the same", `{"mcpServers": {"a": {"command": "x", "args": ["1"]}, "d": {"command": "x", "args": ["1"]}}}`, nil},
		{"none left", `{"mcpServers": {}}`, nil},
		{"one more", `{"mcpServers": {"a": {"command": "x", "args": ["1"]}, "b.c": {"command": "z"}}}`, []string{`mcpServers["b.c"]`}},
		{"one that was disabled", `{"mcpServers": {"off": {"command": "y"}}}`, []string{"mcpServers.off"}},
		{"one for another", `{"mcpServers": {"a": {"url": "http://x"}, "w": {"command": "x", "args": ["2"]}}}`, []string{"mcpServers.w"}},
		{"a record", `{"mcpServers": {}, "audit": {"file": "x"}}`, []string{"audit"}},
		{"the policy", `{"mcpServers": {}, "reload": "auto"}`, []string{"reload"}},
		{"how names are given", `{"mcpServers": {}, "conflict": "first", "instructions": "x"}`, nil},
	} {
		if diff := cmp.Diff(parsed(t, old).Effective().RunsNew(parsed(t, tt.next).Effective()), tt.want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", tt.name, diff)
		}
	}
}
