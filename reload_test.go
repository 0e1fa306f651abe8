// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	exposed := []string{`backend "a" works there`, "it is mode 0666", `backend "a" works there`}
	const mends = " (apply it with 'signalbox reload' or SIGHUP)"
	const fresh = ": new or changed, and others may have written it: backend \"a\" works there; there is 1 more reason" + mends
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

// followed returns the keys that a reload applies, or that are not read again.
func followed() []string {
	return []string{"$schema", "mcpServers", "profiles", "reload", "allowUnauthenticated", "instructions", "conflict", "metrics", "audit", "policy", "quotas", "operators", "pins", "filters", "search", "apps"}
}

// differ sets a value different from its zero: in a struct, the first field that can
// be.
func differ(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() && differ(field) {
				return true
			}
		}
		return false
	default:
		return false
	}
	return true
}

// Each key is applied by a reload, or a reload that changes it is refused and
// docs/operations.md lists it. Any other key would be changed in the file without
// effect or notice.
func TestReloadKnowsEveryKey(t *testing.T) {
	var refused []string
	for field := range reflect.TypeFor[config.Config]().Fields() {
		key := field.Tag.Get("json")
		if key == "-" || !field.IsExported() {
			continue
		}
		var old, next config.Config
		if !differ(reflect.ValueOf(&next).Elem().FieldByIndex(field.Index)) {
			t.Fatalf("%s: not known how to change a %s", key, field.Type)
		}
		switch what := strings.Join(fixedSettings(&old, &next), ", "); {
		case what == "" && slices.Contains(followed(), key):
			// Named if it waits for a change of another key.
			if key != "$schema" && old.Reloads(&next) == nil {
				t.Errorf("%s is changed, and Reloads does not name it", key)
			}
		case what == key:
			refused = append(refused, key)
		default:
			t.Errorf("%s is changed, and the reload is refused for %q", key, what)
		}
	}
	documented := documentedAsFixed(t)
	slices.Sort(documented)
	slices.Sort(refused)
	if diff := cmp.Diff(documented, refused); diff != "" {
		t.Errorf("docs/operations.md names what only a new start can change (-page +code):\n%s", diff)
	}
}

// documentedAsFixed returns the keys that require a restart by docs/operations.md.
func documentedAsFixed(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`changes what only a new start can change \(([^)]*)\)`).FindSubmatch(text)
	if list == nil {
		t.Fatal("docs/operations.md has no such list any more")
	}
	var keys []string
	for _, word := range regexp.MustCompile(`\x60([^\x60]+)\x60`).FindAllSubmatch(list[1], -1) {
		keys = append(keys, string(word[1]))
	}
	return keys
}
