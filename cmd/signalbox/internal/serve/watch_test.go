// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// next waits for an event of the watcher and reports whether the file differs.
func next(t *testing.T, w *watcher) bool {
	t.Helper()
	select {
	case <-w.changed():
		return w.differs()
	case <-time.After(commandtest.Patience):
		t.Fatal("the watcher noticed nothing")
		return false
	}
}

func startWatch(t *testing.T, file string) *watcher {
	t.Helper()
	w, err := watch(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w
}

func TestWatchNoticesWhatAFileHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "signalbox.yaml")
	commandtest.Write(t, file, "one")
	w := startWatch(t, file)

	commandtest.Write(t, file, "two")
	if !next(t, w) {
		t.Error("a file that was written did not differ")
	}
	commandtest.Write(t, filepath.Join(dir, "other.yaml"), "x")
	if next(t, w) {
		t.Error("it differed when its neighbour was written")
	}
	commandtest.Write(t, file, "two")
	if next(t, w) {
		t.Error("it differed when the same was written again")
	}
	commandtest.Write(t, filepath.Join(dir, "new"), "three")
	if err := os.Rename(filepath.Join(dir, "new"), file); err != nil {
		t.Fatal(err)
	}
	if !next(t, w) {
		t.Error("a file that took its place did not differ")
	}
	for _, text := range []string{"server a b c", "server a b c\n", ""} {
		commandtest.Write(t, filepath.Join(dir, "signalbox.lock"), text)
		if !next(t, w) {
			t.Errorf("it did not differ with the lock file %q", text)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if !next(t, w) {
		t.Error("a file that is gone did not differ")
	}
	if w.differs() {
		t.Error("a file that is still gone differed again")
	}
	commandtest.Write(t, file, "three")
	if !next(t, w) {
		t.Error("a file that came back as it was did not differ")
	}
}

// Orchestrators replace a folder behind a link, without an event for the file's own name.
func TestWatchFollowsLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := func(from, to string) {
		if err := os.Symlink(to, filepath.Join(dir, "tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"v1", "v2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		commandtest.Write(t, filepath.Join(dir, version, "signalbox.yaml"), version)
	}
	link("data", "v1")
	link("signalbox.yaml", "data/signalbox.yaml")
	w := startWatch(t, filepath.Join(dir, "signalbox.yaml"))

	link("data", "v2")
	if !next(t, w) {
		t.Error("another folder behind the link did not differ")
	}
	commandtest.Write(t, filepath.Join(dir, "v1", "signalbox.yaml"), "v3")
	if next(t, w) {
		t.Error("it differed when the old target was written")
	}
}

func TestWatchNothing(t *testing.T) {
	t.Parallel()
	w, err := watch("")
	if w != nil || err != nil {
		t.Fatalf("got %v, %v", w, err)
	}
	w.close()
	if w.changed() != nil {
		t.Error("nothing can change")
	}
	if _, err := watch(filepath.Join(t.TempDir(), "none", "x.yaml")); err == nil {
		t.Error("a folder that is not there can be watched")
	}
}
