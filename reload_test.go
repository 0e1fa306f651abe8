// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/demo"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// recording is a configuration with an audit file of that name.
func recording(dir, name string) config.Config {
	var cfg config.Config
	cfg.Audit.File = filepath.Join(dir, name)
	return cfg
}

// Of concurrent reloads the last one is applied as a whole: its audit file receives all
// later records.
func TestReloadsAtOnce(t *testing.T) {
	dir := t.TempDir()
	for range 50 {
		g, err := New(recording(dir, "first"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for name := range strings.SplitSeq("abcdefghijklmnop", "") {
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

// A reload concurrent with Close leaves no file open: later events go to the log.
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

// Two backends with the same name could not be distinguished: the first reload would
// replace one by the other.
func TestBackendNamesAreUnique(t *testing.T) {
	one, two := InProcess{Name: "one", Handler: demo.New()}, InProcess{Name: "two", Handler: demo.New()}
	entry := config.Backend{Name: "one", URL: "http://127.0.0.1:1/mcp"}
	for _, tt := range []struct {
		name    string
		entry   config.Backend
		disable bool
		inside  []InProcess
		refused bool
	}{
		{"none meet", entry, false, []InProcess{two}, false},
		{"entry and process", entry, false, []InProcess{two, one}, true},
		{"two of the process", entry, false, []InProcess{two, two}, true},
		{"a prefix that begins that of an entry", entry, false, []InProcess{{Name: "on", Prefix: new("on"), Handler: two.Handler}}, true},
		{"a prefix that begins another of the process", entry, true, []InProcess{{Name: "a__b", Handler: two.Handler}, {Name: "a", Handler: two.Handler}}, true},
		{"no prefix", entry, false, []InProcess{{Name: "on", Prefix: new(""), Handler: two.Handler}}, false},
		{"an entry that is disabled", entry, true, []InProcess{one}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var cfg config.Config
			tt.entry.Disabled = tt.disable
			cfg.Servers = []config.Backend{tt.entry}
			g, err := New(cfg, Options{InProcess: tt.inside})
			if err == nil {
				err = g.Close()
			}
			wantSharedNames(t, err, tt.refused)
		})
	}
}

// wantSharedNames checks for an error that names the conflicting names, or for none.
func wantSharedNames(t *testing.T, err error, refused bool) {
	t.Helper()
	if problems, ok := errors.AsType[config.Problems](err); ok != refused || (err != nil) != refused || refused && len(problems) != 1 {
		t.Errorf("error %v, want one problem: %v", err, refused)
	}
}

// A reload cannot add a name that a Handler in this process has; the previous
// configuration stays in use.
func TestReloadRefusesDuplicateNames(t *testing.T) {
	g, err := New(config.Config{}, Options{InProcess: []InProcess{{Name: "one", Handler: demo.New()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var cfg config.Config
	cfg.Servers = []config.Backend{{Name: "one", URL: "http://127.0.0.1:1/mcp"}}
	wantSharedNames(t, g.Reload(t.Context(), cfg), true)
	if backends := g.view.Load().backends; len(backends) != 1 || backends[0].client != nil || g.Status().ReloadRefused == nil {
		t.Errorf("%d backends; refusal %v", len(backends), g.Status().ReloadRefused)
	}
}

// A program that uses the Gateway as a Handler may still send a request while it
// closes.
func TestServeWhileItEnds(t *testing.T) {
	req, err := mcp.NewRequest("logging/setLevel", []byte(`{"level":"error"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Scope = mcp.NewScope("s", nil)
	for range 100 {
		g, err := New(config.Config{}, Options{InProcess: []InProcess{{Name: "one", Handler: demo.New()}}})
		if err != nil {
			t.Fatal(err)
		}
		var ended atomic.Bool
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { // ends after the Gateway; waited for below
				for !ended.Load() {
					if _, err := g.Serve(t.Context(), req, noCaller{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		ended.Store(true)
		all.Wait()
	}
}
