// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestJudgeIsStrict(t *testing.T) {
	tests := []struct {
		name     string
		checks   []check
		want     verdict
		messages string
	}{
		{"nothing", nil, skipped, ""},
		{"nothing to check", []check{{Status: "SKIPPED"}, {Status: "INFO"}}, skipped, ""},
		{"good", []check{{Status: "INFO"}, {Status: statusSuccess}}, passed, ""},
		{"only its messages", []check{{Status: "SKIPPED"}, {ID: wireValid, Status: statusSuccess}}, skipped, ""},
		{"bad messages", []check{{Status: "SKIPPED"}, {ID: wireValid, Status: statusFailure, ErrorMessage: "no"}}, failed, "FAILURE wire-schema-valid: no"},
		{"bad", []check{{Status: statusSuccess}, {ID: "a", Status: statusFailure, ErrorMessage: "no"}}, failed, "FAILURE a: no"},
		{"only a warning", []check{{Status: statusSuccess}, {ID: "a", Status: statusWarning, Description: "well"}}, failed, "WARNING a: well"},
	}
	for _, tt := range tests {
		got := judge(tt.checks)
		if got.verdict != tt.want || strings.Join(got.messages, ";") != tt.messages {
			t.Errorf("%s: got %v %q, want %v %q", tt.name, got.verdict, got.messages, tt.want, tt.messages)
		}
	}
}

// writeResult writes the suite's file of a scenario.
func writeResult(t *testing.T, dir, folder, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, folder, "checks.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadResults(t *testing.T) {
	dir := t.TempDir()
	writeResult(t, dir, "server-ping-2026-11-21T20-23-31-258Z", `[{"id":"ping","status":"SUCCESS"}]`)
	// One name may be a prefix of another.
	writeResult(t, dir, "server-ping-pong-2026-11-21T20-23-31-259Z", `[{"id":"pong","status":"FAILURE"}]`)
	output := announcement + "ping ===\nnoise\n\n" + announcement + "ping-pong ===\n" + announcement + "broken ===\n"
	found, err := readResults(dir, []byte(output))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name string
		verdict
	}{{"ping", passed}, {"ping-pong", failed}, {"broken", failed}}
	if len(found) != len(want) {
		t.Fatalf("got %d results, want %d", len(found), len(want))
	}
	for i, w := range want {
		if found[i].name != w.name || found[i].verdict != w.verdict {
			t.Errorf("got %s %v, want %s %v", found[i].name, found[i].verdict, w.name, w.verdict)
		}
	}
	if _, err := readResults(dir, []byte("usage:")); err == nil {
		t.Error("a run without scenarios is taken for one")
	}
	writeResult(t, dir, "server-torn-2026-11-21T20-23-31-260Z", `[{`)
	if _, err := readResults(dir, []byte(announcement+"torn ===\n")); err == nil {
		t.Error("half a result is taken for one")
	}
}

func TestListed(t *testing.T) {
	list := []byte("Client scenarios (test against a client):\n  - initialize [2025-06-18]\n  - auth/dpop [extension]\n  - sep-1 [extension]\n  - auth/x [2025-11-25]\n")
	if got := listed(list, false, false); !slices.Equal(got, []string{"initialize"}) {
		t.Errorf("got %q", got)
	}
	if got := listed(list, true, false); !slices.Equal(got, []string{"sep-1"}) {
		t.Errorf("of the extensions: got %q", got)
	}
	if got := listed(list, false, true); !slices.Equal(got, []string{"auth/x"}) {
		t.Errorf("about authorization: got %q", got)
	}
	if got := listed(list, true, true); !slices.Equal(got, []string{"auth/dpop"}) {
		t.Errorf("of the extensions, about authorization: got %q", got)
	}
}

// sampleTable has one set and one way of each kind.
func sampleTable() *table {
	return newTable("server", []set{{name: "old"}, {name: "new"}}, []way{
		{name: "ours"}, {name: "theirs", foreign: true}, {name: "before theirs", like: "theirs"}, {name: "crossed", lacks: modern},
	})
}

func TestBreaches(t *testing.T) {
	good, bad, empty := outcome{verdict: passed}, outcome{verdict: failed, messages: []string{"no"}}, outcome{verdict: skipped}
	tab := sampleTable()
	ours, theirs, before, crossed := tab.ways[0], tab.ways[1], tab.ways[2], tab.ways[3]
	older, newer := tab.sets[0], tab.sets[1]
	tab.add(older, ours, []scenario{{"a", good}, {"b", bad}, {"c", empty}, {"d", empty}})
	tab.add(older, theirs, []scenario{{"a", good}, {"b", bad}})
	tab.add(older, before, []scenario{{"a", good}, {"b", bad}})
	tab.add(newer, ours, []scenario{{"a", good}, {"e", good}})
	tab.add(newer, theirs, []scenario{{"a", bad}})
	// It passes there on another wire, so it must pass here on this one.
	tab.add(newer, before, []scenario{{"a", bad}})
	tab.add(newer, crossed, []scenario{{"a", bad}, {"e", good}})
	known := exceptions{
		unchecked: map[string]string{"d": "why not"},
		gaps:      map[gapKey]string{{modern, "a"}: "x", {modern, "e"}: "x"},
	}
	want := []string{
		"ours | old | b: no",
		"crossed | old | b: it was not run",
		"ours | old | c: the suite checked nothing",
		"crossed | old | c: it was not run",
		"crossed | old | d: it was not run",
		"before theirs | new | a: no",
		"crossed | new | e: it passes, but is listed as impossible",
	}
	if got := tab.breaches(known); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What is not supported must fail in our ways, and is shown as failed.
func TestUnsupported(t *testing.T) {
	tab := sampleTable()
	tab.add(tab.sets[0], tab.ways[0], []scenario{{"a", outcome{verdict: failed}}, {"b", outcome{verdict: passed}}, {"c", outcome{verdict: passed}}})
	known := exceptions{unsupported: map[string]string{"a": "why", "b": "why"}}
	want := []string{"ours | old | b: it passes, but is listed as not supported"}
	if got := tab.breaches(known); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var b strings.Builder
	tab.print(&b, known)
	for _, want := range []string{"| a | ✗ |", "| **passed** | 2/3 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestPrint(t *testing.T) {
	tab := sampleTable()
	good, bad := outcome{verdict: passed}, outcome{verdict: failed}
	tab.add(tab.sets[0], tab.ways[0], []scenario{{"a", good}, {"b", good}})
	tab.add(tab.sets[0], tab.ways[1], []scenario{{"a", good}, {"b", bad}})
	tab.add(tab.sets[0], tab.ways[3], []scenario{{"a", bad}, {"b", good}})
	var b strings.Builder
	tab.print(&b, exceptions{gaps: map[gapKey]string{{modern, "a"}: "x"}})
	for _, want := range []string{
		"### Server, old\n", "| scenario | 1 | 2 | 3 | 4 |\n|---|---|---|---|---|\n",
		"| a | ✓ | ✓ | – | x |\n", "| b | ✓ | ✗ | – | ✓ |\n", "| **passed** | 2/2 | 1/2 | 0/0 | 1/1 |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// Only through the gateway may scenarios about single hops check nothing.
func TestMayBeEmpty(t *testing.T) {
	known := exceptions{unchecked: map[string]string{"a": "why"}, hops: map[string]string{"b": "why"}}
	for _, tt := range []struct {
		way, scenario string
		want          bool
	}{
		{direct + "x", "a", true}, {through + "x", "a", true},
		{direct + "x", "b", false}, {through + "x", "b", true}, {through + "x", "c", false},
	} {
		if got := known.mayBeEmpty(way{name: tt.way}, tt.scenario); got != tt.want {
			t.Errorf("%s %s: got %t", tt.way, tt.scenario, got)
		}
	}
}
