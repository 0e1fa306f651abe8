// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A server on the network receives no request because of schemas that point to it, from
// either end, while their tools are listed, refused and called: tools with such
// references are left out, and a dialect and an id are only names.
//
// K1- 2026-07-28 basic/index: "Implementations MUST NOT automatically dereference `$ref`
// values that resolve to a network URI."
func TestSchemasFetchNothing(t *testing.T) {
	var seen atomic.Int32
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	defer canary.Close()
	var items []string
	for i, ref := range []string{canary.URL + "/s", "file:///etc/passwd", "ftp" + strings.TrimPrefix(canary.URL, "http") + "/s", strings.TrimPrefix(canary.URL, "http:") + "/s"} {
		for j, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			schema := fmt.Sprintf(`{"type":"object","properties":{"a":{%q:%q}}}`, keyword, ref)
			items = append(items, fmt.Sprintf(`{"name":"in%d%d","inputSchema":%s},{"name":"out%d%d","inputSchema":{"type":"object"},"outputSchema":%s}`, i, j, schema, i, j, schema))
		}
	}
	const named = `{"$schema":"%[1]s/dialect","$id":"%[1]s/id","type":"object","properties":{"a":{"$ref":"%[1]s/id#/$defs/b"}},"$defs":{"b":{}}}`
	items = append(items, fmt.Sprintf(`{"name":"named","inputSchema":`+named+`,"outputSchema":`+named+`}`, canary.URL))
	b := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		switch req.Method {
		case "server/discover":
			return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
		case "tools/list":
			return mcp.NewResult([]byte(`{"tools":[` + strings.Join(items, ",") + `]}`))
		case "tools/call":
			return mcp.NewResult([]byte(`{"content":[],"structuredContent":{"a":1}}`))
		default:
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	g, err := New(config.Config{}, Options{InProcess: []InProcess{{Name: "a", Handler: b}}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Serve(t.Context(), ask(t, nil, "tools/list", `{}`), &recorder{})
	if err != nil || strings.Count(string(res.Bytes()), `"inputSchema"`) != 1 {
		t.Errorf("listed %s, %v; want the one that refers to itself", res.Bytes(), err)
	}
	for name, want := range map[string]bool{"a__named": true, "a__in00": false, "a__out00": false} {
		if _, err := g.Serve(t.Context(), ask(t, nil, "tools/call", `{"name":"`+name+`","arguments":{"a":{"$ref":"`+canary.URL+`"}}}`), &recorder{}); (err == nil) != want {
			t.Errorf("calling %s: %v", name, err)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if n := seen.Load(); n != 0 {
		t.Errorf("the server that schemas point to was asked %d times", n)
	}
}
