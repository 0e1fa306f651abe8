// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/ledger"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	l := ledger.Ledger(filepath.Join(t.TempDir(), "ledger"))
	const file = "/home/me/.cursor/mcp.json"
	if r, err := l.Find(file); r != nil || err != nil {
		t.Fatalf("found in an empty ledger: %+v, %v", r, err)
	}
	if all, err := l.All(); all != nil || err != nil {
		t.Fatalf("all of an empty ledger: %+v, %v", all, err)
	}
	one := ledger.Record{File: file, Client: "cursor", Config: "/c.yaml", Entries: []string{"a"}, After: ledger.Hash([]byte("1")), Existed: true, Whole: true}
	begin(t, l, one, "first", false)
	check(t, l, one, "first")

	// The second entry: the first one is recognized until it is done.
	two := one
	two.Entries = []string{"b"}
	begin(t, l, two, "second", true)
	between := two
	between.Entries = []string{"b", "a"}
	check(t, l, between, "first")
	if err := l.Done(two); err != nil {
		t.Fatal(err)
	}
	check(t, l, two, "first")

	// A new beginning: the first content of all is kept.
	if err := l.Forget(file); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Find(file); r != nil || err != nil {
		t.Fatalf("found after Forget: %+v, %v", r, err)
	}
	begin(t, l, one, "third", false)
	check(t, l, one, "third")
	if original, err := os.ReadFile(l.Original(file)); string(original) != "first" || err != nil {
		t.Errorf("original %q, %v", original, err)
	}

	// A file that was absent has neither.
	other := ledger.Record{File: "/a", Client: "zed", Entries: []string{"c"}}
	begin(t, l, other, "", false)
	if _, err := os.Stat(l.Original("/a")); err == nil {
		t.Error("an absent file has an original")
	}
	all, err := l.All()
	if diff := cmp.Diff([]ledger.Record{other, one}, all); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if err := l.Forget("/a"); err != nil {
		t.Error(err)
	}

	// Only the user can read the copies.
	if runtime.GOOS != "windows" {
		for _, path := range []string{l.Original(file), filepath.Dir(l.Original(file))} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
	}
}

func begin(t *testing.T, l ledger.Ledger, r ledger.Record, content string, keep bool) {
	t.Helper()
	if err := l.Begin(r, []byte(content), keep); err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, l ledger.Ledger, want ledger.Record, before string) {
	t.Helper()
	got, err := l.Find(want.File)
	if diff := cmp.Diff(&want, got); diff != "" || err != nil {
		t.Fatalf("%v %s", err, diff)
	}
	if text, err := l.Before(want.File); string(text) != before || err != nil {
		t.Errorf("before %q, %v; want %q", text, err, before)
	}
}

// A record that cannot be read is an error with its path, and hides no other.
func TestDamaged(t *testing.T) {
	t.Parallel()
	l := ledger.Ledger(t.TempDir())
	begin(t, l, ledger.Record{File: "/a"}, "", false)
	begin(t, l, ledger.Record{File: "/b"}, "", false)
	damaged := filepath.Join(filepath.Dir(l.Original("/a")), "record.json")
	if err := os.WriteFile(damaged, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Find("/a"); err == nil || !strings.Contains(err.Error(), damaged) {
		t.Errorf("%v", err)
	}
	if all, err := l.All(); err == nil || len(all) != 1 || all[0].File != "/b" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := l.Begin(ledger.Record{File: "/a"}, nil, false); err == nil {
		t.Error("a damaged record was overwritten")
	}
}
