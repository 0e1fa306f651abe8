// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// sampleTable has two rows and two servers, the second without sessions.
func sampleTable() table {
	small := func(string) probes {
		return probes{Tools: []string{"echo"}, Elicit: &callProbe{Name: "ask"}}
	}
	return table{
		rows: []row{{"ts1", "2025-11-25"}, {"inspector", "2025-11-25"}},
		servers: []server{
			{name: "one", core: true, probes: small},
			{name: "two", core: true, probes: small, sessionless: true},
		},
	}
}

// sampleDirect is the result of sampleTable if everything is as expected.
func sampleDirect() results {
	works := outcome{OK: true}
	all := results{}
	for _, client := range []string{"ts1", "inspector"} {
		for _, s := range []string{"one", "two"} {
			all[cell{row{client, "2025-11-25"}, s, featureConnect}] = works
			all[cell{row{client, "2025-11-25"}, s, featureTools}] = works
		}
	}
	all[cell{row{"ts1", "2025-11-25"}, "one", featureElicit}] = works
	return all
}

func TestJudge(t *testing.T) {
	ts1, inspector := row{"ts1", "2025-11-25"}, row{"inspector", "2025-11-25"}
	tests := []struct {
		name   string
		change func(results)
		want   []string
	}{
		{"as known", func(results) {}, nil},
		{"failed", func(r results) { r[cell{ts1, "two", featureTools}] = outcome{Error: "refused"} },
			[]string{"ts1 2025-11-25, tools of two does not work directly: refused"}},
		{"not reached", func(r results) { delete(r, cell{ts1, "one", featureElicit}) },
			[]string{"ts1 2025-11-25, elicit of one does not work directly: not reached, the client could not connect"}},
		{"stale gap of a server", func(r results) { r[cell{ts1, "two", featureElicit}] = outcome{OK: true} },
			[]string{"ts1 2025-11-25, elicit of two works directly, but is a gap: " +
				"the server keeps no session, which the legacy era needs for this"}},
		{"stale gap of a client", func(r results) { r[cell{inspector, "one", featureElicit}] = outcome{OK: true} },
			[]string{"inspector 2025-11-25, elicit of one works directly, but is a gap: " +
				"the inspector's command line declares neither elicitation nor sampling"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab, direct := sampleTable(), sampleDirect()
			tt.change(direct)
			way := route{name: "directly", rows: tab.rows, gaps: directGaps(), results: direct}
			tab.routes = []route{way}
			if diff := cmp.Diff(tab.judge(way), tt.want); diff != "" {
				t.Errorf("(-got +want)\n%s", diff)
			}
		})
	}
}

func TestJudgeRoute(t *testing.T) {
	ts1, modern := row{"ts1", "2025-11-25"}, row{"ts2", modernVersion}
	asks := cell{modern, "old", featureElicit}
	oldest := cell{row{"ts2", "2025-03-26"}, "mixed", featureKinds}
	tests := []struct {
		name   string
		change func(results)
		want   []string
	}{
		{"as known", func(results) {}, nil},
		{"works directly", func(r results) { r[cell{ts1, "one", featureElicit}] = outcome{Error: "no answer"} },
			[]string{"ts1 2025-11-25, elicit of one does not work through, but directly: no answer"}},
		{"bridge of a server without sessions", func(r results) { delete(r, cell{ts1, "two", featureElicit}) },
			[]string{"ts1 2025-11-25, elicit of two does not work through: not reached, the client could not connect"}},
		{"bridge to the legacy era", func(r results) { r[cell{modern, "old", featureTools}] = outcome{Error: "refused"} },
			[]string{"ts2 2026-07-28, tools of old does not work through: refused"}},
		{"race won", func(r results) { r[cell{modern, "racy", featureLog}] = outcome{OK: true} }, nil},
		{"question to a modern client", func(r results) { r[asks] = outcome{Error: "refused"} },
			[]string{"ts2 2026-07-28, elicit of old does not work through: refused"}},
		{"stale gap", func(r results) { r[oldest] = outcome{OK: true} },
			[]string{"ts2 2025-03-26, kinds of mixed works through, but is a gap: " +
				"the revision has no links to resources; a text replaces them"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := sampleTable()
			tab.rows = append(tab.rows, modern, oldest.row)
			tab.servers = append(tab.servers,
				server{name: "old", legacyOnly: true, probes: tab.servers[0].probes},
				server{name: "mixed", core: true, probes: func(string) probes { return probes{Kinds: &callProbe{}} }},
				server{name: "racy", private: true, target: target{URL: "http://racy"}, probes: func(string) probes { return probes{Log: &callProbe{}} }})
			through := results{}
			way := route{name: "through", rows: tab.rows, gaps: throughGaps(), results: through}
			for c := range tab.each(way) {
				_, known := tab.gapOf(c, way)
				through[c] = outcome{OK: !known, Error: "no client to ask"}
			}
			tt.change(through)
			tab.routes = []route{{name: "directly", results: sampleDirect()}, way}
			if diff := cmp.Diff(tab.judge(way), tt.want); diff != "" {
				t.Errorf("(-got +want)\n%s", diff)
			}
		})
	}
}

func TestPrintTable(t *testing.T) {
	tab := sampleTable()
	through := sampleDirect()
	delete(through, cell{tab.rows[1], "two", featureTools})
	tab.routes = []route{
		{name: "direct", rows: tab.rows, gaps: directGaps(), results: sampleDirect()},
		{name: "through http", rows: tab.rows, gaps: throughGaps(), results: through},
		{name: "through stdio", rows: tab.rows[:1], gaps: throughGaps(), results: sampleDirect()},
	}
	var b bytes.Buffer
	if err := tab.print(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	want := []string{
		"client version connect tools resources templates prompts call progress cancel log complete read get elicit sample roots several url use state header kinds structured errors caps instruct tasks changes updates",
		"ts1 2025-11-25 2|2|2 2|2|2 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 1b|1|1 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0",
		"inspector 2025-11-25 2|2| 2|1| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| -db|-d| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0| 0|0|",
		"servers that offer it 2|2|2 2|2|2 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 2|2|2 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0 0|0|0",
		`Number of servers with which it worked: direct|through http|through stdio. A letter: not with the others, because`,
	}
	spaces := regexp.MustCompile(` +`)
	for i, w := range want {
		if got := spaces.ReplaceAllString(strings.TrimSpace(lines[i]), " "); got != w {
			t.Errorf("line %d:\n got %q\nwant %q", i, got, w)
		}
	}
}

// Two routes differ in what works on one of them only, if that is no matter of chance.
func TestDifferences(t *testing.T) {
	ts1 := row{"ts1", "2025-11-25"}
	racy := cell{row{"ts2", modernVersion}, "racy", featureLog}
	for _, tt := range []struct {
		name   string
		change func(with, without results)
		want   []string
	}{
		{"none", func(_, _ results) {}, nil},
		{"neither", func(with, without results) {
			delete(with, cell{ts1, "one", featureElicit})
			delete(without, cell{ts1, "one", featureElicit})
		}, nil},
		{"chance", func(with, _ results) { with[racy] = outcome{OK: true} }, nil},
		{"fails with", func(with, _ results) { with[cell{ts1, "two", featureTools}] = outcome{Error: "refused"} },
			[]string{"ts1 2025-11-25, tools of two works without, and not with: refused"}},
		{"fails without", func(_, without results) { delete(without, cell{ts1, "two", featureTools}) },
			[]string{"ts1 2025-11-25, tools of two works with, and not without: not reached, the client could not connect"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tab := sampleTable()
			tab.rows = append(tab.rows, racy.row)
			tab.servers = append(tab.servers,
				server{name: "racy", core: true, private: true, target: target{URL: "http://racy"}, probes: func(string) probes { return probes{Log: &callProbe{}} }})
			with := route{name: "with", rows: tab.rows, gaps: sharedGaps(), results: sampleDirect()}
			without := route{name: "without", rows: tab.rows, gaps: sharedGaps(), results: sampleDirect()}
			tt.change(with.results, without.results)
			if diff := cmp.Diff(tab.differences(with, without), tt.want); diff != "" {
				t.Errorf("(-got +want)\n%s", diff)
			}
			var b bytes.Buffer
			if err := tab.printTokens(&b, with, without); err != nil {
				t.Fatal(err)
			}
			var only int
			for line := range strings.Lines(b.String()) {
				fields := strings.Fields(line)
				if n, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
					only += n
				}
			}
			if only != len(tt.want) {
				t.Errorf("%d cells work on one route only, want %d\n%s", only, len(tt.want), b.String())
			}
		})
	}
}

func TestTokenOfEachClient(t *testing.T) {
	kinds := map[kind]int{}
	for _, version := range []string{"2025-03-26", "2025-06-18", newestLegacy, modernVersion} {
		kinds[tokenOf(row{"ts2", version})]++
	}
	if kinds[static] != 2 || kinds[signed] != 2 {
		t.Errorf("got %v", kinds)
	}
	if err := new(table).printTokens(io.Discard, route{rows: []row{{"unknown", modernVersion}}}, route{}); !errors.Is(err, errNoWay) {
		t.Errorf("a client without a way: got %v", err)
	}
}

// TestPartialClient leaves out what the library of a client does not have.
func TestPartialClient(t *testing.T) {
	tab := sampleTable()
	r := row{"langchain", newestLegacy}
	tab.rows = []row{r}
	worked := outcome{OK: true}
	way := route{name: "direct", rows: tab.rows, results: results{
		{r, "one", featureTools}: worked, {r, "two", featureTools}: worked,
	}}
	tab.routes = []route{way}
	if got, want := tab.counts(r, featureTools), "2"; got != want {
		t.Errorf("tools: got %q, want %q", got, want)
	}
	if got := tab.counts(r, featureElicit); got != "" {
		t.Errorf("elicit: got %q, want nothing", got)
	}
	if got := tab.judge(way); got != nil {
		t.Errorf("got %q, want nothing wrong", got)
	}
}

// TestPrefixed checks each name of a server in its prefixed probes.
func TestPrefixed(t *testing.T) {
	const prefix = "backend__"
	for name, p := range map[string]probes{
		"everything": probeEverything("tag", "file:///root"),
		"go":         probeOwn("tag", "file:///root", "stdio", able{state: true, header: true, tasks: true}),
		"filesystem": probeFilesystem(workspace{}),
	} {
		t.Run(name, func(t *testing.T) {
			before := marshal(t, p)
			after := marshal(t, p.prefixed(prefix))
			if diff := cmp.Diff(marshal(t, p), before); diff != "" {
				t.Errorf("the original changed (-got +want)\n%s", diff)
			}
			// Only names differ.
			if got := strings.ReplaceAll(after, prefix, ""); got != before {
				t.Errorf("(-got +want)\n%s", cmp.Diff(got, before))
			}
			bare := regexp.MustCompile(`"name":"[^"]*"`)
			for _, field := range bare.FindAllString(stripArguments(after), -1) {
				if !strings.HasPrefix(field, `"name":"`+prefix) && field != `"name":""` {
					t.Errorf("%s has no prefix", field)
				}
			}
		})
	}
}

func marshal(t *testing.T, p probes) string {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// stripArguments removes the arguments of tools and completions: the gateway does not
// change names in them.
func stripArguments(probes string) string {
	return regexp.MustCompile(`"arguments?":\{[^}]*\}`).ReplaceAllString(probes, "")
}

func TestPrefixedKinds(t *testing.T) {
	tool := (&changeProbe{Kind: "tools", Item: "a"}).prefixed("p__")
	resource := (&changeProbe{Kind: "resources", Item: "a"}).prefixed("p__")
	if tool.Item != "p__a" || resource.Item != "a" {
		t.Errorf("got %q and %q, want %q and %q", tool.Item, resource.Item, "p__a", "a")
	}
}

func TestDecodeOutcomes(t *testing.T) {
	tests := []struct {
		name, in, wantErr string
		want              []outcome
	}{
		{"lines", "{\"job\":1,\"server\":\"go\",\"feature\":\"call\",\"ok\":true}\n{\"error\":\"x\"}\n", "",
			[]outcome{{Job: 1, Server: "go", Feature: featureCall, OK: true}, {Error: "x"}}},
		{"nothing", "", "no outcomes", nil},
		{"not JSON", "{}\nhello\n", "hello", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeOutcomes([]byte(tt.in))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got error %v, want %q in it", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("(-got +want)\n%s", diff)
			}
		})
	}
}

func TestQueueKeepsWhatDoesNotMatch(t *testing.T) {
	q := newQueue[int]()
	for i := range 3 {
		q.put(i)
	}
	is := func(want int) func(int) bool { return func(got int) bool { return got == want } }
	for _, want := range []int{2, 0, 1} {
		if got, err := q.take(t.Context(), is(want)); err != nil || got != want {
			t.Fatalf("got %d, %v, want %d", got, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.take(ctx, is(1)); err == nil {
		t.Error("took an item twice")
	}
}

// TestBehind checks what is left out of the probes behind the gateway.
func TestBehind(t *testing.T) {
	s := server{name: "one", private: true, probes: func(tag string) probes { return probeEverything(tag, "file:///root") }}
	for _, tt := range []struct {
		row  row
		want bool // asked for the roots more than once
	}{
		{row{"ts1", "2025-11-25"}, true},
		{row{"inspector", "2025-11-25"}, false},
		{row{"ts2", modernVersion}, false},
	} {
		p := s.behind(tt.row, "tag")
		if p.Name != "one" || p.Call.Name != "one__echo" || p.Changes == nil || p.Roots.Eventually != tt.want {
			t.Errorf("%v: got %s, %s, changes %v, roots %t, want roots %t", tt.row, p.Name, p.Call.Name, p.Changes, p.Roots.Eventually, tt.want)
		}
	}
	s.target.Command = "one"
	s.probes = func(tag string) probes { return probeOwn(tag, "file:///root", "one", able{}) }
	for _, tt := range []struct {
		row  row
		want bool // two concurrent calls use one process
	}{{row{"ts1", "2025-11-25"}, true}, {row{"ts2", modernVersion}, false}} {
		p := s.behind(tt.row, "tag")
		if got := p.Cancel != nil; got != tt.want {
			t.Errorf("%v: cancel is tried: %t, want %t", tt.row, got, tt.want)
		}
		if p.Changes == nil || p.Updates == nil {
			t.Errorf("%v: got changes %v and updates %v, want both", tt.row, p.Changes, p.Updates)
		}
	}
}

func TestTried(t *testing.T) {
	inspector, other := row{inspectorName, "2025-11-25"}, row{"ts1", "2025-11-25"}
	straight, through := route{direct: true}, route{}
	for _, tt := range []struct {
		name   string
		server server
		row    row
		way    route
		want   bool
	}{
		{"by any client", server{}, other, straight, true},
		{"by the inspector", server{}, inspector, straight, false},
		{"of the core, by the inspector", server{core: true}, inspector, through, true},
		{"by an old revision", server{}, row{"ts2", "2025-06-18"}, through, false},
		{"of the core, by an old revision", server{core: true}, row{"ts2", "2025-06-18"}, through, true},
		{"through a gateway of the client's", server{core: true}, other, route{piped: true}, false},
		{"through a gateway of the client's, for it", server{piped: true}, other, route{piped: true}, true},
		{"with a pinned era, directly", server{pinned: eraLegacy}, other, straight, false},
		{"shared, directly", server{shared: true}, other, straight, false},
		{"shared, through the gateway", server{shared: true}, other, through, true},
		{"with a pinned era, through the gateway", server{pinned: eraLegacy}, other, through, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.server.tried(tt.row, tt.way); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

func TestInPage(t *testing.T) {
	got, err := inPage("above\n"+pageBegin+"old\n"+pageEnd+"below\n", pageBegin, "a  \nb\n")
	if want := "above\n" + pageBegin + "```\na\nb\n```\n" + pageEnd + "below\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, without := range []string{"", pageBegin, pageEnd + pageBegin} {
		if got, err := inPage(without, pageBegin, "a\n"); err == nil {
			t.Errorf("in %q: got %q, want an error", without, got)
		}
	}
}

func TestChosen(t *testing.T) {
	self := func(s string) string { return s }
	for names, want := range map[string][]string{"": {"a", "b", "c"}, "b": {"b"}, "c,a": {"a", "c"}, "d": {}} {
		if diff := cmp.Diff(chosen(names, []string{"a", "b", "c"}, self), want); diff != "" {
			t.Errorf("%q (-got +want)\n%s", names, diff)
		}
	}
}

func TestTellOfLanguages(t *testing.T) {
	var b bytes.Buffer
	machine{lacks: []string{"there is no a", "there is no b"}}.printSkipped(&b)
	if got, want := b.String(), "there is no a\nthere is no b\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOncesTryOnce(t *testing.T) {
	r := &onces{tries: make(map[string]func() (reply, error))}
	refused, tries := errors.New("refused"), 0
	for range 3 {
		got, err := r.first("method", func() (reply, error) { tries++; return reply{ProtocolVersion: "1"}, refused })
		if !errors.Is(err, refused) || got.ProtocolVersion != "1" {
			t.Fatalf("got %v, %v, want 1, %v", got.ProtocolVersion, err, refused)
		}
	}
	if tries != 1 {
		t.Errorf("tried %d times, want 1", tries)
	}
	if _, err := r.first("other", func() (reply, error) { return reply{}, nil }); err != nil {
		t.Errorf("another request got %v", err)
	}
}

func TestLockFile(t *testing.T) { foreign.CheckLock(t) }
