// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestTranscriptTokens(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{`cancel 1`, []string{"cancel", "1"}},
		{`1 tools/call {"a": [1, "b c"]} progress`, []string{"1", "tools/call", `{"a": [1, "b c"]}`, "progress"}},
		{`1 error -1 "no such \"x\"" {}`, []string{"1", "error", "-1", `"no such \"x\""`, "{}"}},
		{`tools ["x", "y"]`, []string{"tools", `["x", "y"]`}},
		{``, nil},
	} {
		got, err := tokens(tt.text)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("tokens(%q) = %q, %v; want %q", tt.text, got, err, tt.want)
		}
	}
	if got, err := tokens(`1 result {"a":`); err == nil {
		t.Errorf("half of a value is read as %q", got)
	}
}

func TestTranscriptObjectKeepsTheBytes(t *testing.T) {
	const raw = `{ "b": 1.0, "\u0061": 9007199254740993, "_meta": {"x": 1, "y": {}}, "z": "\/" }`
	o, err := parseObject([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		got  string
		want string
	}{
		{"all", o.String(), `{"b":1.0,"\u0061":9007199254740993,"_meta":{"x":1,"y":{}},"z":"\/"}`},
		{"without", o.without("a", "z").String(), `{"b":1.0,"_meta":{"x":1,"y":{}}}`},
		{"replaced", o.with("b", `[2]`).without("a", "_meta", "z").String(), `{"b":[2]}`},
		{"some of meta", o.withoutMeta("x").without("a", "b", "z").String(), `{"_meta":{"y":{}}}`},
		{"only", o.only("z", "b", "q").String(), `{"b":1.0,"z":"\/"}`},
		{"all of meta", o.withoutMeta("x", "y").without("a", "b", "z").String(), `{}`},
		{"text", o.text("z"), `/`},
		{"no text", o.text("b"), ``},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestTranscriptManifold(t *testing.T) {
	long := "<" + strings.Repeat("x", 5000) + ">"
	if got := expand("<$(x*5000)>"); got != long {
		t.Errorf("expand gives %d bytes, want %d", len(got), len(long))
	}
	if got := collapse(long); got != "<$(x*5000)>" {
		t.Errorf("shrink gives %.40s", got)
	}
	if got := collapse("aaab"); got != "aaab" {
		t.Errorf("shrink gives %s for a short run", got)
	}
}

func TestTranscriptRestrictions(t *testing.T) {
	count := func(prose string) int {
		r, err := readRestrictions(prose)
		if err != nil {
			t.Fatal(err)
		}
		return len(r.pairs())
	}
	const rare = 5 // two older revisions, the first transport, and HTTP/2 in both eras, each with one backend of each era
	all := (len(inbounds())-rare)*len(outbounds()) + rare*2
	for _, tt := range []struct {
		prose string
		want  int
	}{
		{"Prose: with a colon - and a dash.", all},
		{"inbound: modern http, stdio - why", 3*len(outbounds()) + 2},
		{"backend: process - why", len(inbounds())},
		{"inbound: 2025-03-26 - why\nbackend: legacy pipe - why", 1},
		{"cells: modern/legacy - why", 2*3 + 1},
		{"inbound: 2025-06-18 - why", 2},
		{"inbound: 2025-06-18 - why\nbackend: pipe - why", 2},
		{"inbound: 2025-06-18 - why\nbackend: modern, process - why", 1},
		{"inbound: pigeon - why", 0},
		{"inbound: sse - why", 2},
		{"inbound: http2 - why", 2 * 2},
		{"inbound: modern http1 - why", len(outbounds())},
		{"inbound: sse - why\nbackend: sse - why", 1},
		{"inbound: 2024-11-05 - why", 3 * len(outbounds())},
		{"inbound: 2024-11-05 stdio, 2025-03-26 - why", len(outbounds()) + 2},
	} {
		if got := count(tt.prose); got != tt.want {
			t.Errorf("%q: %d pairs, want %d", tt.prose, got, tt.want)
		}
	}
	if _, err := readRestrictions("inbound: http\n"); err == nil {
		t.Error("a restriction without a reason is taken")
	}
}

// Each pair of eras is played unless a file gives a reason.
func TestTranscriptCellsAreCovered(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range (restrictions{}).pairs() {
		seen[p.cell()] = true
	}
	for _, cell := range []string{"legacy/legacy", "legacy/modern", "modern/legacy", "modern/modern"} {
		if !seen[cell] {
			t.Errorf("no pair for %s", cell)
		}
	}
}

// The client of a transcript detects what an era forbids, whatever the transcript
// expects.
func TestTranscriptBreaches(t *testing.T) {
	const ok = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`
	for _, tt := range []struct {
		name    string
		version mcp.Version
		method  string
		msgs    []string
		want    string
	}{
		{"modern, no type", mcp.V20260728, "tools/call", []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}, "resultType"},
		{"modern, no ttl", mcp.V20260728, "tools/list", []string{ok}, "without ttlMs"},
		{"modern, asked", mcp.V20260728, "tools/call", []string{`{"jsonrpc":"2.0","id":5,"method":"roots/list"}`}, "a request of the server"},
		{"legacy, typed", mcp.V20251125, "tools/call", []string{ok}, "has no resultType"},
		{"other id", mcp.V20251125, "tools/call", []string{`{"jsonrpc":"2.0","id":"1","result":{}}`}, `has id "1"`},
		{"twice", mcp.V20260728, "tools/call", []string{ok, ok}, "after the end"},
		{"no version", mcp.V20251125, "tools/call", []string{`{"id":1,"result":{}}`}, "no message"},
		{"neither", mcp.V20251125, "tools/call", []string{`{"jsonrpc":"2.0","id":1}`}, "neither"},
		{"unasked progress", mcp.V20251125, "tools/call",
			[]string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`}, "progress of another"},
		{"foreign subscription", mcp.V20260728, "tools/call",
			[]string{`{"jsonrpc":"2.0","method":"notifications/message","params":{"_meta":{"` + subscriptionID + `":7}}}`}, "of subscription"},
		{"change before the promise", mcp.V20260728, "subscriptions/listen",
			[]string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"` + subscriptionID + `":1}}}`}, "before the acknowledgement"},
		{"other promise", mcp.V20260728, "subscriptions/listen",
			[]string{`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"` + subscriptionID + `":1}}}`}, "asked for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{t: t}
			c := &transcriptClient{w: w, in: inbound{tt.version, "http"}}
			x := &exchange{label: "1", id: "1", method: tt.method}
			if tt.method == "subscriptions/listen" {
				x.label = listenLabel
			}
			for _, msg := range tt.msgs {
				c.receive(x, []byte(msg))
			}
			if got := breaches(w); len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("breaches %q, want one with %q", got, tt.want)
			}
		})
	}
}

func breaches(w *world) []string {
	var out []string
	for _, e := range w.take() {
		if strings.HasPrefix(e.text, "BREACH") {
			out = append(out, e.text)
		}
	}
	return out
}

// The sample has every era on both sides.
func TestSomePairsMeetAllEras(t *testing.T) {
	every := (restrictions{}).pairs()
	for i := range 100 {
		chosen := sample(fmt.Sprintf("file-%d.txtar", i), every)
		in, out := map[mcp.Era]bool{}, map[string]bool{}
		for _, p := range chosen {
			in[p.in.version.Era()], out[p.out.era] = true, true
		}
		if len(in) != 2 || len(out) != 3 || len(chosen) > 4 {
			t.Fatalf("%d pairs meet %d eras of clients and %d of backends", len(chosen), len(in), len(out))
		}
	}
}

// The samples leave out no transcript and no pair, and each pair is in several, except
// those of the revision that few files name.
func TestSomePairsMeetAll(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	met := make(map[pair]int)
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		modes, err := readRestrictions(string(archive.Comment))
		if err != nil {
			t.Fatal(err)
		}
		chosen := sample(filepath.Base(file), modes.pairs())
		if len(chosen) == 0 {
			t.Errorf("%s is not played", file)
		}
		for _, p := range chosen {
			met[p]++
		}
	}
	for _, p := range (restrictions{}).pairs() {
		if met[p] < 5 {
			t.Errorf("%s is played in %d transcripts", p, met[p])
		}
	}
	for _, in := range rareInbounds() {
		for _, out := range outbounds() {
			if p := (pair{in, out}); met[p] == 0 {
				t.Errorf("%s is played in no transcript", p)
			}
		}
	}
}

// No transcript expects a breach, and each has prose and expectations.
func TestTranscriptFiles(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".txtar") {
			continue
		}
		d := readTranscript(t, "testdata/"+e.Name())
		if len(strings.Fields(string(d.archive.Comment))) < 8 {
			t.Errorf("%s: has too little prose about what it shows", e.Name())
		}
		wants := 0
		for i := range d.script {
			wants += len(d.script[i].want)
			if strings.Contains(strings.Join(d.script[i].want, "\n"), "BREACH") {
				t.Errorf("%s:%d: expects a breach", e.Name(), d.script[i].line)
			}
		}
		if wants == 0 {
			t.Errorf("%s: expects nothing", e.Name())
		}
	}
}

// The page about the language has every verb of the switches, and no others.
func TestTranscriptVerbsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("testdata/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var verbs []string
	for _, file := range []string{"world_test.go", "client_test.go", "backend_test.go", "call_test.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)(?:case|default)[^\n]*: // ([a-z]+(?: a)?> [^;\n]+)`).FindAllStringSubmatch(string(src), -1) {
			verbs = append(verbs, m[1])
		}
	}
	var shown []string
	for _, m := range regexp.MustCompile("(?m)^    ((?:client|backend a|gateway)> .*)$").FindAllStringSubmatch(string(page), -1) {
		shown = append(shown, m[1])
	}
	for _, v := range verbs {
		if !slices.Contains(shown, v) {
			t.Errorf("not in README.md: %s", v)
		}
	}
	if len(verbs) < 20 {
		t.Errorf("only %d verbs found: %s", len(verbs), cmp.Diff(nil, verbs))
	}
}
