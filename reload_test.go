// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/server"
)

// recording is a configuration whose record is a file of that name.
func recording(dir, name string) Config {
	var cfg Config
	cfg.Audit.File = filepath.Join(dir, name)
	return cfg
}

// Of reloads that come at once the last one is at work altogether: the file that
// its configuration names has what is recorded from then on.
func TestReloadsAtOnce(t *testing.T) {
	dir := t.TempDir()
	for range 50 {
		g, err := New(recording(dir, "first"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, name := range strings.Split("abcdefghijklmnop", "") {
			all.Go(func() { // ends by itself; waited for below
				if err := g.Reload(t.Context(), recording(dir, name)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		g.noteEvent(t.Context(), server.Event{Kind: server.ForeignHost, Detail: "after all"})
		named := g.view.Load().cfg.Audit.File
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(named)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "after all") {
			t.Fatalf("%s is configured last, and has %q", filepath.Base(named), text)
		}
		if err := os.RemoveAll(named); err != nil {
			t.Fatal(err)
		}
	}
}

// A reload that meets the end of the Gateway leaves no file open behind it: what
// happens later is for the log.
func TestReloadAtTheEndLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	for range 50 {
		g, err := New(recording(dir, "first"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() { // ends with the Gateway; waited for below
			for {
				if err := g.Reload(t.Context(), recording(dir, "next")); err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		g.noteEvent(t.Context(), server.Event{Kind: server.ForeignHost, Detail: "after the end"})
		g.audit.Close(t.Context())
		for _, name := range []string{"first", "next"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "after the end") {
				t.Fatalf("%s is still written to", name)
			}
		}
	}
}
