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

// page is where the tables stand.
const page = "../../docs/conformance.md"

var (
	update = flag.Bool("update", false, "write what came of it to docs/conformance.md")
	only   = flag.String("way", "", "run only the `ways` whose name begins so, and do not compare them with others")
)

// TestConformance runs every set of scenarios in every way, and prints what came
// of it.
func TestConformance(t *testing.T) {
	s, p := installSuite(t), buildPrograms(t)
	servers := newTable("server", serverSets(), p.servers())
	clients := newTable("client", clientSets(), p.clients())
	known := knownExceptions(t)
	for _, tab := range []*table{servers, clients} {
		tab.play(t, s)
		tab.print(os.Stdout, known)
		for _, line := range tab.breaches(known) {
			t.Error(line)
		}
	}
	if *only == "" {
		var text strings.Builder
		writePage(&text, known, servers, clients)
		checkPage(t, text.String())
	}
}

// play runs all ways, one after the other: some scenarios look at the time.
func (tab *table) play(t *testing.T, s suite) {
	t.Helper()
	for _, w := range tab.ways {
		if !strings.HasPrefix(w.name, *only) {
			continue
		}
		t.Run(tab.title+"/"+w.name, func(t *testing.T) {
			start := time.Now()
			run := w.open(t, s)
			for _, what := range tab.sets {
				tab.add(what, w, run(what))
			}
			t.Logf("%v", time.Since(start).Round(time.Millisecond))
		})
	}
}

// checkPage holds the page to the text, or writes it.
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
