// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
)

func TestPlaces(t *testing.T) {
	const text = `mcpServers:
  files:
    command: x
    prefix: ""
    exclude:
      - drop
      - "write_*"
  "a.b": {url: "http://127.0.0.1:1/mcp", rename: {slow: nap}}
conflict: hide
`
	file := filepath.Join(t.TempDir(), "signalbox.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	cfg, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string, got config.Place) {
		t.Helper()
		if want != "" {
			want = file + ":" + want
		}
		if got.String() != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	p := cfg.Places()
	check("7:9", p.Server("files", "write_*", "exclude", 1))
	check("6:9", p.Server("files", "drop", "exclude", 0))
	check("5:5", p.Server("files", "", "exclude"))
	check("4:5", p.Server("files", "", "prefix"))
	check("8:51", p.Server("a.b", "nap", "rename", "slow"))
	check("9:1", p.Setting("hide", "conflict"))
	check("", p.Server("files", "write_*", "exclude", 2))
	check("", p.Server("files", "write_*", "include", 0))
	check("", p.Server("other", "write_*", "exclude", 0))

	// The file has changed since: what it still has is found where it is now.
	write("# new\n" + text[:len(text)-len("conflict: hide\n")] + "conflict: first\n")
	p = cfg.Places()
	check("8:9", p.Server("files", "write_*", "exclude", 1))
	check("", p.Setting("hide", "conflict"))
	write("{")
	p = cfg.Places()
	check("", p.Server("files", "write_*", "exclude", 1))
	check("", new(config.Config).Places().Server("files", "write_*", "exclude", 1))
}
