// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Only what npx would run is run directly.
func TestDirect(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	write := func(file, text string) {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The first is the folder that npm 11 has made for this package.
	folder := filepath.Join(cache, "_npx", "0917cfe12e8fc194", "node_modules", "@modelcontextprotocol", "server-everything")
	const spec, manifest = "@modelcontextprotocol/server-everything@2025.9.12", `{"version":"2025.9.12","bin":{"mcp-server-everything":"dist/index.js"}}`
	const node = "#!/usr/bin/env node\nserve()\n"
	script := filepath.Join(folder, "dist", "index.js")
	write(filepath.Join(folder, "package.json"), manifest)
	write(script, node)
	getenv := func(name string) string { return map[string]string{"npm_config_cache": cache}[name] }
	for name, tt := range map[string]struct {
		command string
		args    []string
		want    []string // nil if it is not run directly
	}{
		"installed":          {"npx", []string{"-y", spec}, []string{script}},
		"with arguments":     {"/usr/bin/npx", []string{"--yes", spec, "stdio", "-y"}, []string{script, "stdio", "-y"}},
		"without an option":  {"npx", []string{spec}, []string{script}},
		"other options":      {"npx", []string{"-y", "--loglevel", "silent", spec}, nil},
		"package option":     {"npx", []string{"-y", "-p", spec, "mcp-server-everything"}, nil},
		"no version":         {"npx", []string{"-y", "@modelcontextprotocol/server-everything"}, nil},
		"not installed":      {"npx", []string{"-y", "@modelcontextprotocol/server-everything@2025.9.13"}, nil},
		"another program":    {"uvx", []string{spec}, nil},
		"npm exec, likewise": {"npm", []string{"exec", spec}, nil},
	} {
		program, got, ok := Direct(tt.command, tt.args, getenv)
		if !slices.Equal(got, tt.want) || ok != (tt.want != nil) || ok && program != "node" {
			t.Errorf("%s: %s %q, %v; want %q", name, program, got, ok, tt.want)
		}
	}
	for name, tt := range map[string]struct{ manifest, script string }{
		"another version":   {`{"version":"2025.9.11","bin":"dist/index.js"}`, node},
		"no program":        {`{"version":"2025.9.12"}`, node},
		"several programs":  {`{"version":"2025.9.12","bin":{"a":"dist/index.js","b":"dist/index.js"}}`, node},
		"a path out of it":  {`{"version":"2025.9.12","bin":"../server-everything/dist/index.js"}`, node},
		"no script of node": {manifest, "#!/usr/bin/env -S node --inspect\n"},
		"a binary":          {manifest, "\x7fELF"},
		"damaged":           {`{`, node},
	} {
		write(filepath.Join(folder, "package.json"), tt.manifest)
		write(script, tt.script)
		if _, got, ok := Direct("npx", []string{"-y", spec}, getenv); ok {
			t.Errorf("%s: %q", name, got)
		}
	}
	write(filepath.Join(folder, "package.json"), `{"version":"2025.9.12","bin":{"a":"x","server-everything":"dist/index.js"}}`)
	write(script, node)
	if _, got, ok := Direct("npx", []string{spec}, getenv); !ok || got[0] != script {
		t.Errorf("of several programs, the one with the name of the package: %q, %v", got, ok)
	}
}
