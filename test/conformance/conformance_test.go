// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// page is the file of the tables.
const page = "../../docs/conformance.md"

var (
	update = flag.Bool("update", false, "write what came of it to docs/conformance.md")
	only   = flag.String("way", "", "run only the `ways` whose name begins so, and do not compare them with others")
)

// TestConformance runs every set of scenarios in every way, and prints the results.
func TestConformance(t *testing.T) {
	s, p := installSuite(t), buildPrograms(t)
	servers := newTable("server", serverSets(), p.servers())
	clients := newTable("client", clientSets(), p.clients())
	accounts := newTable("client with authorization", authorizationSets(), p.accounts())
	known := knownExceptions(t)
	tables := []*table{servers, clients, accounts}
	// Returns when all ways have been played, however many of them in parallel.
	t.Run("ways", func(t *testing.T) {
		for _, tab := range tables {
			tab.play(t, s)
		}
	})
	for _, tab := range tables {
		tab.collect()
		tab.print(os.Stdout, known)
		for _, line := range tab.breaches(known) {
			t.Error(line)
		}
	}
	if *only == "" {
		var text strings.Builder
		writePage(&text, known, tables...)
		checkPage(t, text.String())
	}
}

// play runs all ways, as many in parallel as -parallel allows, because they mostly wait.
// Each way has processes of its own, and runs its sets one after the other.
func (tab *table) play(t *testing.T, s suite) {
	t.Helper()
	tab.found = make([][][]scenario, len(tab.ways))
	for i, w := range tab.ways {
		if !strings.HasPrefix(w.name, *only) {
			continue
		}
		t.Run(tab.title+"/"+w.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			run := w.open(t, s)
			found := make([][]scenario, 0, len(tab.sets))
			for _, what := range tab.sets {
				found = append(found, run(what))
			}
			tab.found[i] = found // not shared with other ways
			t.Logf("%v", time.Since(start).Round(time.Millisecond))
		})
	}
}

// collect adds the results in the order of the ways, so that the table does not depend on
// timing.
func (tab *table) collect() {
	for i, of := range tab.found {
		for j, found := range of {
			tab.add(tab.sets[j], tab.ways[i], found)
		}
	}
}

// checkPage compares the page with the text, or writes it.
func checkPage(t *testing.T, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != text {
		t.Errorf("%s is not what came of it: go test -run TestConformance -update", page)
	}
}

func TestLockFile(t *testing.T) { foreign.CheckLock(t) }
