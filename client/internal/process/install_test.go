// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A package is started without npx until that has not worked.
func TestDirectUntilItFails(t *testing.T) {
	cache := t.TempDir()
	folder := filepath.Join(cache, "_npx", "0917cfe12e8fc194", "node_modules", "@modelcontextprotocol", "server-everything")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"package.json": `{"version":"2025.9.12","bin":"x.js"}`, "x.js": "#!/usr/bin/env node\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := Command{
		Path: "npx", Args: []string{"-y", "@modelcontextprotocol/server-everything@2025.9.12", "stdio"},
		Env: []string{"npm_config_cache=/nowhere", "npm_config_cache=" + cache}, Direct: true,
	}
	l := NewLauncher(nil, cmd)
	if got, want := l.direct(), []string{filepath.Join(folder, "x.js"), "stdio"}; got.Path != "node" || !slices.Equal(got.Args, want) {
		t.Errorf("%s %q, want node %q", got.Path, got.Args, want)
	}
	spoke := &Child{launcher: l}
	spoke.spoke.Store(true)
	spoke.died()
	if got := l.direct(); got.Path != "node" {
		t.Errorf("%s after a process that has responded", got.Path)
	}
	(&Child{launcher: l}).died()
	if got := l.direct(); got.Path != "npx" {
		t.Errorf("%s after a process that ended without output", got.Path)
	}
	cmd.Direct = false
	if got := NewLauncher(nil, cmd).direct(); got.Path != "npx" {
		t.Errorf("%s without Direct", got.Path)
	}
}
