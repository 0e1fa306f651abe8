// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// listed returns a table that has learned a list with one tool.
func listed(t *testing.T, name, schema string) *paramTable {
	t.Helper()
	res, err := mcp.ParseObject([]byte(`{"tools":[{"name":"` + name + `","inputSchema":` + schema + `}]}`))
	if err != nil {
		t.Fatal(err)
	}
	table := new(paramTable)
	table.learn(&res)
	return table
}

// mirrored returns the headers of a call of the tool.
func mirrored(t *testing.T, table *paramTable, name, arguments string) http.Header {
	t.Helper()
	params, err := mcp.ParseObject([]byte(`{"name":"` + name + `","arguments":` + arguments + `}`))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	mirror(h, table.of(name), &params)
	return h
}

// Each argument is sent in its own header, encoded as specified. A value that no header
// can carry is left out, and the server reports that it is missing.
func TestMirroredArguments(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"deep":{"type":"object","properties":{"count":{"type":"integer","x-mcp-header":"deep-count"},"on":{"type":"boolean","x-mcp-header":"On"}}},
		"plain":{"type":"string"}}}`
	tests := map[string]struct {
		arguments string
		want      http.Header
	}{
		"all":                {`{"plain":"p","deep":{"on":true,"count":12},"region":"eu"}`, http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-Deep-Count": {"12"}, "Mcp-Param-On": {"true"}}},
		"none":               {`{}`, http.Header{}},
		"null":               {`{"region":null,"deep":null}`, http.Header{}},
		"not of its type":    {`{"region":7,"deep":{"count":"many"}}`, http.Header{"Mcp-Param-Region": {"7"}, "Mcp-Param-Deep-Count": {"many"}}},
		"unsayable":          {`{"region":{"a":1},"deep":{"count":1.5,"on":[]}}`, http.Header{}},
		"twice":              {`{"region":"eu","region":"us","deep":{"count":1}}`, http.Header{"Mcp-Param-Deep-Count": {"1"}}},
		"not as it is":       {`{"region":"\u00e9\n"}`, http.Header{"Mcp-Param-Region": {"=?base64?w6kK?="}}},
		"no object":          {`"eu"`, http.Header{}},
		"no object below it": {`{"deep":7,"region":"eu"}`, http.Header{"Mcp-Param-Region": {"eu"}}},
	}
	table := listed(t, "q", schema)
	for name, tt := range tests {
		if diff := cmp.Diff(tt.want, mirrored(t, table, "q", tt.arguments)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if h := mirrored(t, table, "other", `{"region":"eu"}`); len(h) > 0 {
		t.Errorf("a tool whose list has not passed has headers %v", h)
	}
}

// fastest returns the shortest of a few runs, which is the least affected by other
// load.
func fastest(f func()) time.Duration {
	best := time.Hour
	for range 5 {
		began := time.Now()
		f()
		best = min(best, time.Since(began))
	}
	return best
}

// A server that declares a hundred headers for arguments deep in a large object does
// not make a call cost a hundred times as much: the arguments are read once.
func TestHostileSchema(t *testing.T) {
	const deep, most = 50, 100
	schema := func(n int) string {
		var leaves []string
		for i := range n {
			leaves = append(leaves, fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":"H%d"}`, i, i))
		}
		return strings.Repeat(`{"type":"object","properties":{"a":`, deep) +
			`{"type":"object","properties":{` + strings.Join(leaves, ",") + `}}` + strings.Repeat(`}}`, deep)
	}
	arguments := strings.Repeat(`{"a":`, deep) + `{"p0":"first","pad":["` + strings.Repeat(`x","`, 100_000) + `"],"p99":"last"}` + strings.Repeat(`}`, deep)
	params, err := mcp.ParseObject([]byte(`{"name":"q","arguments":` + arguments + `}`))
	if err != nil {
		t.Fatal(err)
	}
	single, many := listed(t, "q", schema(1)), listed(t, "q", schema(most))
	h := http.Header{}
	mirror(h, many.of("q"), &params)
	if diff := cmp.Diff(http.Header{"Mcp-Param-H0": {"first"}, "Mcp-Param-H99": {"last"}}, h); diff != "" {
		t.Fatalf("headers (-want +got):\n%s", diff)
	}
	one := fastest(func() { mirror(http.Header{}, single.of("q"), &params) })
	all := fastest(func() { mirror(http.Header{}, many.of("q"), &params) })
	if all > 20*one {
		t.Errorf("%d headers took %v, one took %v; want about the same", most, all, one)
	}
}

// Requests with the same key share headers, made once. Headers that a request adds
// appear in no other request.
func TestHeadersAreCached(t *testing.T) {
	w := &httpConn{Endpoint: httpconn.NewEndpoint(call.NewSetup(call.Config{Name: "b"}), "http://backend.test/mcp")}
	res, err := mcp.ParseObject([]byte(`{"tools":[{"name":"wants","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	w.params.learn(&res)
	headers := func(method, params string, relayed map[string][]string) http.Header {
		o, err := mcp.ParseObject([]byte(params))
		if err != nil {
			t.Fatal(err)
		}
		return w.headers(&mcp.Request{Method: method, ParamHeaders: relayed}, mcp.LatestModern, &o)
	}
	for range 2 { // made, and found
		for _, tt := range []struct {
			method, params string
			relayed        map[string][]string
			want           http.Header
		}{
			{call.MethodToolsCall, `{"name":"wants","arguments":{"a":"1"}}`, nil, http.Header{"Mcp-Name": {"wants"}, "Mcp-Param-A": {"1"}}},
			{call.MethodToolsCall, `{"name":"wants","arguments":{"a":"2"}}`, nil, http.Header{"Mcp-Name": {"wants"}, "Mcp-Param-A": {"2"}}},
			{call.MethodToolsCall, `{"name":"wants","arguments":{}}`, map[string][]string{"Mcp-Param-A": {"1"}}, http.Header{"Mcp-Name": {"wants"}}},
			{call.MethodToolsCall, `{"name":"x","arguments":{"a":"1"}}`, map[string][]string{"Mcp-Param-B": {"3"}}, http.Header{"Mcp-Name": {"x"}, "Mcp-Param-B": {"3"}}},
			{call.MethodToolsCall, `{"name":"x","arguments":{"a":"1"}}`, map[string][]string{}, http.Header{"Mcp-Name": {"x"}}},
			{call.MethodToolsCall, `{"name":""}`, nil, http.Header{"Mcp-Name": {"=?base64??="}}},
			{call.MethodToolsCall, `{}`, nil, http.Header{}},
			{"prompts/get", `{"name":"x"}`, nil, http.Header{"Mcp-Name": {"x"}}},
			{"resources/read", `{"uri":"x","name":"y"}`, nil, http.Header{"Mcp-Name": {"x"}}},
			{call.MethodToolsList, `{"name":"x"}`, nil, http.Header{}},
		} {
			want := httpconn.MergeHeaders(w.Posts, tt.want)
			want["Mcp-Method"], want["Mcp-Protocol-Version"] = []string{tt.method}, []string{string(mcp.LatestModern)}
			if diff := cmp.Diff(want, headers(tt.method, tt.params, tt.relayed)); diff != "" {
				t.Errorf("%s %s with %v (-want +got):\n%s", tt.method, tt.params, tt.relayed, diff)
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() { w.headerCache.of(headerKey{mcp.LatestModern, call.MethodToolsCall, "x", true}, w.Posts) }); n != 0 {
		t.Errorf("%v allocations for headers that are there, want none", n)
	}
}

// The number of cached headers is limited, whatever is requested.
func TestCachedHeadersAreBounded(t *testing.T) {
	var k headerCache
	posts := http.Header{"Accept": {"a"}}
	for i := range 3 * maxCachedHeaders {
		k.of(headerKey{method: call.MethodToolsCall, name: fmt.Sprint(i), isNamed: true}, posts)
		if len(k.made) > maxCachedHeaders {
			t.Fatalf("%d are kept, want at most %d", len(k.made), maxCachedHeaders)
		}
	}
	before := len(k.made)
	long := strings.Repeat("n", maxCachedName)
	if h := k.of(headerKey{method: call.MethodToolsCall, name: long, isNamed: true}, posts); h.Get("Mcp-Name") != long || len(k.made) != before {
		t.Errorf("one of a long name is kept, or is not right: %v", h)
	}
}
