// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/config"
)

// A file that others may have written cannot make the gateway start or write anything
// new without the operator, whatever its content.
func TestReloadChangeWaitsForTheOperator(t *testing.T) {
	t.Parallel()
	record := filepath.Join(t.TempDir(), "record.jsonl")
	servers := func(names ...string) (list []config.Backend) {
		for _, name := range names {
			list = append(list, config.Backend{Name: name, Command: "no-such-program-" + name})
		}
		return list
	}
	running := config.Config{Servers: servers("a")}
	exposed := []string{`backend "a" works there`, "it is mode 0666"}
	const mends = " (apply it with 'signalbox reload' or SIGHUP)"
	const fresh = ": new or changed, and others may have written it: backend \"a\" works there, and 1 more" + mends
	manual := func(c config.Config) config.Config { c.Reload = config.ReloadManual; return c }
	auto := func(c config.Config) config.Config { c.Reload = config.ReloadAuto; return c }
	for _, tt := range []struct {
		name          string
		running, next config.Config
		exposed       []string
		waits         []string
	}{
		{"a program more", running, config.Config{Servers: servers("a", "b")}, exposed, []string{"mcpServers.b" + fresh}},
		{"a program more, in a file of the operator", running, config.Config{Servers: servers("a", "b")}, nil, nil},
		{"one less", running, config.Config{}, exposed, nil},
		{"a record", running, config.Config{Servers: servers("a"), Audit: config.Audit{File: record}}, exposed, []string{"audit" + fresh}},
		{"the policy", running, auto(config.Config{Servers: servers("a", "b")}), exposed, []string{"mcpServers.b" + fresh, "reload" + fresh}},
		{"auto", auto(running), auto(config.Config{Servers: servers("a", "b")}), exposed, nil},
		{"manual", manual(running), manual(config.Config{}), nil, []string{"the file has changed, and reload is set to manual" + mends}},
		{"manual, the same", manual(running), manual(config.Config{Servers: servers("a"), Notes: config.Problems{{Message: "x"}}}), exposed, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, err := New(tt.running, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			before := g.Status().Backends
			err = g.ReloadChange(t.Context(), tt.next, tt.exposed)
			status := g.Status()
			if tt.waits == nil {
				if err != nil || status.ReloadRefused != nil || len(status.Backends) != len(tt.next.Servers) {
					t.Fatalf("%v, refused %v, %d backends", err, status.ReloadRefused, len(status.Backends))
				}
				return
			}
			if !errors.Is(err, ErrWaits) || status.ReloadRefused == nil || !status.ReloadRefused.Waits || len(status.Backends) != len(before) {
				t.Fatalf("%v, refused %+v, %d backends", err, status.ReloadRefused, len(status.Backends))
			}
			if diff := cmp.Diff(status.ReloadRefused.Problems, tt.waits); diff != "" {
				t.Errorf("what waits (-got +want):\n%s", diff)
			}
			if got, want := status.Problems[0], "reload waits: "+tt.waits[0]; got != want {
				t.Errorf("status reports %q, want %q", got, want)
			}
			if _, err := os.Stat(record); err == nil && tt.name == "a record" {
				t.Error("the file of the record was made")
			}
			if err := g.Reload(t.Context(), tt.next); err != nil || g.Status().ReloadRefused != nil {
				t.Errorf("the operator's own reload: %v, refused %v", err, g.Status().ReloadRefused)
			}
		})
	}
}
