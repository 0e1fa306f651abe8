// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
)

func TestMeasureTool(t *testing.T) {
	t.Parallel()
	member := func(name string, bytes int) memberCost { return memberCost{SizeOf(bytes), name} }
	for _, tt := range []struct {
		name, raw  string
		schema     []memberCost
		definition string
	}{
		{"bare", `{"name":"t"}`, []memberCost{}, `{}`},
		{"properties and other members",
			`{"name":"t","inputSchema":{"type":"object","properties":{"a":{},"body":{"type":"string"}},"required":["a"]}}`,
			[]memberCost{member("body", len(`"body":{"type":"string"}`)), member("required", len(`"required":["a"]`)), member("a", len(`"a":{}`))},
			`{"inputSchema":{"properties":{"a":{},"body":{"type":"string"}},"required":["a"],"type":"object"}}`},
		{"order and spaces", "{\"title\" : \"T\", \"name\":\"t\",\n\"description\":\"\\u0064\"}", []memberCost{}, `{"description":"d","title":"T"}`},
		{"a schema that is no object", `{"name":"t","inputSchema":true}`, []memberCost{}, `{"inputSchema":true}`},
		{"properties that are no object", `{"name":"t","inputSchema":{"properties":[1]}}`,
			[]memberCost{member("properties", len(`"properties":[1]`))}, `{"inputSchema":{"properties":[1]}}`},
		{"a repeated member", `{"name":"t","title":"a","title":"b"}`, []memberCost{}, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := measureTool(jsontext.Value(tt.raw))
			if err != nil {
				t.Fatal(err)
			}
			want := Tool{Size: SizeOf(len(tt.raw)), Name: "t", Schema: tt.schema, definition: tt.definition}
			if diff := cmp.Diff(got, want, cmp.AllowUnexported(Tool{}, memberCost{})); diff != "" {
				t.Errorf("cost (-got +want):\n%s", diff)
			}
		})
	}
	if _, err := measureTool(jsontext.Value(`{"name":7}`)); err == nil {
		t.Error("a tool without a name that is a string has a cost")
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		bytes, whole int
		want, share  string
	}{
		{0, 0, "0", "0 %"},
		{1, 1000, "0", "<1 %"},
		{396, 396, "99", "100 %"},
		{400, 600, "0.1k", "67 %"},
		{96_400, 136_000, "24.1k", "71 %"},
		{4_000_000, 8_000_000, "1000.0k", "50 %"},
	} {
		s := SizeOf(tt.bytes)
		if s.String() != tt.want || s.shareOf(tt.whole) != tt.share {
			t.Errorf("%d bytes of %d: %s, %s; want %s, %s", tt.bytes, tt.whole, s, s.shareOf(tt.whole), tt.want, tt.share)
		}
	}
}

// costOf returns a tool with a definition of its own.
func costOf(server, name string, bytes int) Tool {
	return Tool{Size: SizeOf(bytes), Server: server, Name: name, definition: server + name}
}

func sameAs(t Tool, definition string) Tool {
	t.definition = definition
	return t
}

func TestSumCosts(t *testing.T) {
	t.Parallel()
	long61, long65 := strings.Repeat("n", 61), strings.Repeat("n", 65)
	for _, tt := range []struct {
		name  string
		tools []Tool
		want  string
	}{
		{"sorted by size", []Tool{costOf("a", "a__x", 1000), costOf("b", "b__y", 4000), costOf("b", "z", 5000)}, `
SERVER  TOOLS  ≈TOKENS  SHARE  LARGEST
b           2     2.2k   90 %  z 1.2k
a           1     0.2k   10 %  x 0.2k
total       3     2.5k
`},
		{"equal sizes are sorted by name", []Tool{costOf("b", "b__x", 40), costOf("a", "a__x", 40)}, `
SERVER  TOOLS  ≈TOKENS  SHARE  LARGEST
a           1       10   50 %  x 10
b           1       10   50 %  x 10
total       2       20
`},
		{"duplicates of several servers", []Tool{
			sameAs(costOf("a", "a__x", 40), "x"), sameAs(costOf("b", "b__x", 40), "x"),
			sameAs(costOf("a", "a__y", 80), "y"), sameAs(costOf("b", "b__y", 80), "y"),
			sameAs(costOf("b", "b__z", 40), "z"), sameAs(costOf("c", "c__z", 40), "z"),
			sameAs(costOf("c", "c__one", 40), "own"), sameAs(costOf("c", "c__two", 40), "own"),
			sameAs(costOf("a", "a__none", 40), ""), sameAs(costOf("b", "b__none", 40), ""),
		}, `
SERVER  TOOLS  ≈TOKENS  SHARE  LARGEST
b           4       50   42 %  y 20
a           3       40   33 %  y 20
c           3       30   25 %  one 10
total      10     0.1k
the same except for the name in a, b: 2 tools (such as a__y, b__y)
the same except for the name in b, c: 1 tool (b__z, c__z)
`},
		{"long names", []Tool{costOf("a", long61[1:], 40), costOf("a", long61, 40)}, `
SERVER  TOOLS  ≈TOKENS  SHARE  LARGEST
a           2       20  100 %  ` + long61[1:] + ` 10
total       2       20
1 name with more than 60 characters (signalbox why --long)
`},
		{"too long names", []Tool{costOf("a", long61, 40), costOf("a", long65[1:], 40), costOf("a", long65, 80)}, `
SERVER  TOOLS  ≈TOKENS  SHARE  LARGEST
a           3       40  100 %  ` + long65 + ` 20
total       3       40
3 names with more than 60 characters, 1 with more than 64 (signalbox why --long)  SB_NAME_LONG
`},
		{"as much as clients list", []Tool{costOf("a", "a__x", 40_000)}, `
SERVER  TOOLS  ≈TOKENS  SHARE  LARGEST
a           1    10.0k  100 %  x 10.0k
total       1    10.0k
`},
		{"more", []Tool{costOf("a", "a__x", 40_004)}, `
SERVER  TOOLS  ≈TOKENS  SHARE  LARGEST
a           1    10.0k  100 %  x 10.0k
total       1    10.0k
more than 10.0k tokens, which a client that lists all tools sends to the model; exclude some, or let it search them (signalbox connect CLIENT --view search)  SB_COST_HIGH
`},
		{"hostile names", []Tool{costOf("ä", "\x1b[2J\n", 40)}, `
SERVER  TOOLS  ≈TOKENS  SHARE  LARGEST
ä           1       10  100 %  \x1b[2J 10
total       1       10
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			c := sumCosts(tt.tools)
			c.writeServers(&b)
			c.writeNotes(&b)
			if diff := cmp.Diff("\n"+b.String(), tt.want); diff != "" {
				t.Errorf("printed (-got +want):\n%s", diff)
			}
		})
	}
}

// The sizes are those of the items as they were listed, and add up.
func TestShowCostAsJSON(t *testing.T) {
	t.Parallel()
	items := []string{
		`{"name":"a__x", "inputSchema":{"type":"object","properties":{"q":{}}}}`,
		`{"name":"own","description":"` + strings.Repeat("d", 200) + `"}`,
		`{"inputSchema":{"properties":{"q":{}},"type":"object"},"name":"b__x"}`,
	}
	gateway := &target.Target{
		Handler:      commandtest.Answers(`{"tools":[` + strings.Join(items, ",") + `]}`),
		ToolBackends: func(context.Context) (map[string]string, error) { return map[string]string{"own": "b"}, nil },
	}
	e := commandtest.New(t, "")
	if err := Show(t.Context(), e.Env, gateway, "", true); err != nil {
		t.Fatal(err)
	}
	var got costs
	if err := json.Unmarshal([]byte(e.Out.String()), &got); err != nil {
		t.Fatalf("%v: %s", err, e.Out)
	}
	sizes := []Size{SizeOf(len(items[0])), SizeOf(len(items[1])), SizeOf(len(items[2]))}
	q := []memberCost{{SizeOf(len(`"q":{}`)), "q"}}
	want := costs{
		Size: SizeOf(len(strings.Join(items, ""))),
		Servers: []serverCost{
			{Size: SizeOf(len(items[1] + items[2])), Name: "b", Count: 2},
			{Size: sizes[0], Name: "a", Count: 1},
		},
		Tools: []Tool{
			{Size: sizes[1], Name: "own", Server: "b", Schema: []memberCost{}},
			{Size: sizes[0], Name: "a__x", Server: "a", Schema: q},
			{Size: sizes[2], Name: "b__x", Server: "b", Schema: q},
		},
		Duplicates: []duplicate{{Size: sizes[0], Servers: []string{"a", "b"}, Tools: []string{"a__x", "b__x"}}},
		LongNames:  []string{},
	}
	unexported := cmpopts.IgnoreFields(serverCost{}, "largest")
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(costs{}, serverCost{}, Tool{}, memberCost{}, duplicate{}), unexported); diff != "" {
		t.Errorf("costs (-got +want):\n%s", diff)
	}
}

// A tool of the gateway itself, such as read_result, has no backend. Those of a search view are not in the whole list.
func TestMeasureToolsOfTheGateway(t *testing.T) {
	t.Parallel()
	gateway := &target.Target{
		Handler: commandtest.Answers(`{"tools":[{"name":"read_result"},{"name":"find_tool"},{"name":"a__x"}]}`),
		ToolBackends: func(context.Context) (map[string]string, error) {
			return map[string]string{"read_result": "", "a__x": "a"}, nil
		},
	}
	tools, err := MeasureTools(t.Context(), gateway)
	if err != nil {
		t.Fatal(err)
	}
	servers := make(map[string]string)
	for i := range tools {
		servers[tools[i].Name] = tools[i].Server
	}
	if diff := cmp.Diff(servers, map[string]string{"read_result": "(gateway)", "find_tool": "(gateway)", "a__x": "a"}); diff != "" {
		t.Errorf("servers (-got +want):\n%s", diff)
	}
}

// A gateway of an earlier version does not have the path: names decide, as with a URL.
func TestToolBackendsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	address, asked := commandtest.StatusServer(t, commandtest.Answering(http.StatusNotFound, "text/plain", "404 page not found"))
	socket := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address.Host)
	}}
	defer socket.CloseIdleConnections()
	backends, err := control.ToolBackendsAt(t.Context(), socket)
	if backends != nil || err != nil || asked.URL.Path != control.ToolsPath {
		t.Errorf("%v, %v from %s", backends, err, asked.URL)
	}
	var gateway target.Target
	for tool, want := range map[string]string{"a__x": "a", "__x": "unknown", "x": "unknown"} {
		if got := serverByName(&gateway, tool); got != want {
			t.Errorf("%s is of %s, want %s", tool, got, want)
		}
	}
}
