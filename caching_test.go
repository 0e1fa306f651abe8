// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// Which responses of servers are cached, and for which clients.

// spellings returns URIs that a cache might wrongly treat as the same, or as different.
func spellings() []string {
	return []string{
		"r:a", "r:%61", "R:a", "r:a/", "r:a?", "r:a#", "r:./a", "r:a%20", "r:a+", "r:1", "r:1.0", "r:01", "r:1e0",
		"r:\u00e4", "r:a\u0308", "r:%C3%A4", "r:%c3%a4",
	}
}

// Results of reads are not cached, whatever the server permits: each request is sent to
// the server unmodified, and gets that response.
//
// G2+ 2026-07-28 server/utilities/caching: "Cached responses MAY be reused for the
// same authorization context."
//
// G2- 2026-07-28 server/utilities/caching: "Caches MUST NOT be shared across
// authorization contexts"
//
// G3+ 2026-07-28 server/utilities/caching: "A cached response is identified by the
// request method together with the request parameters that affect the result"
//
// G3- 2026-07-28 server/utilities/caching: "Clients MUST NOT serve a cached response
// for a request whose method or parameters differ from the request that produced it."
func TestReadsAreNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		s := &faultyserver.HTTP{Modern: true, Capabilities: `{"resources":{}}`, On: map[string]func(*faultyserver.Exchange){}}
		s.On["resources/list"] = gatewaytest.ResultHandler(`{"resources":[]}`)
		s.On["resources/templates/list"] = gatewaytest.ResultHandler(`{"resourceTemplates":[]}`)
		s.On["resources/read"] = func(x *faultyserver.Exchange) {
			uri, _ := x.Msg.Params.Text(mcp.FieldURI)
			text := jsonscan.AppendString(nil, fmt.Sprint("reading ", reads.Add(1), " of ", uri))
			x.Result(fmt.Sprintf(`{"contents":[{"uri":"r:x","text":%s}],"resultType":"complete","ttlMs":3600000,"cacheScope":"public"}`, text))
		}
		h := gatewaytest.Backends{"a": s}.Open(t, func(cfg *config.Config) { gatewaytest.WithPrincipals(cfg, "ann", "bob") })
		sessions := []gatewaytest.Header{h.Legacy(gatewaytest.WithToken("ann")), h.Legacy(gatewaytest.WithToken("bob")), h.Legacy(gatewaytest.WithToken("ann"))}
		n := 0
		for _, uri := range spellings() {
			for _, sess := range sessions {
				n++
				got := h.Post(gatewaytest.LegacyRequest("1", "resources/read", `{"uri":"`+uri+`"}`), sess).Body
				if want := fmt.Sprintf(`"reading %d of %s"`, n, uri); !strings.Contains(got, want) {
					t.Errorf("read %q: got %s, want %s", uri, got, want)
				}
			}
		}
	})
}

// A list with public cache scope does not grant access: a client that may not call
// receives nothing, and a hidden item cannot be called.
//
// G4+ 2026-07-28 server/utilities/caching: "MUST apply appropriate per-primitive
// access controls"
//
// G4- 2026-07-28 server/utilities/caching: "MUST NOT rely on `cacheScope` alone to
// prevent unauthorized access to primitives."
func TestPublicIsNoPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.ServerWithTools(true, "open", "hidden")
		s.On["tools/list"] = gatewaytest.ResultHandler(strings.TrimSuffix(gatewaytest.ToolList("open", "hidden"), "}") + `,"resultType":"complete","ttlMs":3600000,"cacheScope":"public"}`)
		h := gatewaytest.Backends{"a": s}.Open(t, func(c *config.Config) {
			c.Servers[0].Exclude = []string{"hidden"}
			gatewaytest.WithPrincipals(c, "ann", "bob")
		})
		list := func(headers ...gatewaytest.Header) string {
			return h.PostModern("1", "tools/list", "", "", headers...).Body
		}
		for _, who := range []string{"ann", "bob"} {
			if got := list(gatewaytest.WithToken(who)); !strings.Contains(got, `"a__open"`) || !strings.Contains(got, `"public"`) || strings.Contains(got, "hidden") {
				t.Errorf("%s received %s, want the tool that is not hidden, for all", who, got)
			}
		}
		got := h.PostModern("2", "tools/call", "a__hidden", "", gatewaytest.WithToken("ann")).Body
		if !strings.Contains(got, "-32602") || s.Count("tools/call") != 0 {
			t.Errorf("the call of a hidden tool: %s, %d calls at the server", got, s.Count("tools/call"))
		}
		for _, headers := range [][]gatewaytest.Header{{gatewaytest.WithToken("eve")}, nil} {
			if got := h.PostModern("3", "tools/list", "", "", headers...); got.Status != http.StatusUnauthorized || strings.Contains(got.Body, "open") {
				t.Errorf("unauthorized client (%v) got %d %s", headers, got.Status, got.Body)
			}
		}
	})
}

// Servers with the same name and the same offer are distinguished by their configured
// names, and ordered by the configuration, whichever answers first.
//
// G8- 2026-07-28 server/tools: "the same ordering across requests when the underlying
// set of tools has not changed"
//
// G9+ 2026-07-28 server/tools: "SHOULD implement a disambiguation strategy such as
// prefixing tool names with a server identifier."
//
// G9- 2026-07-28 server/tools: "SHOULD NOT be relied upon for disambiguation."
func TestOrderIsThatOfTheConfiguration(t *testing.T) {
	const want = `[{"name":"a__x","inputSchema":{"type":"object"}},{"name":"b__x","inputSchema":{"type":"object"}},{"name":"c__x","inputSchema":{"type":"object"}}]`
	for _, order := range []string{"abc", "acb", "bac", "bca", "cab", "cba"} {
		synctest.Test(t, func(t *testing.T) {
			servers := gatewaytest.Backends{}
			for i, name := range strings.Split(order, "") {
				s := gatewaytest.ServerWithTools(true)
				s.On["server/discover"] = gatewaytest.ResultHandler(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` +
					`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"twin","version":"1"}}}`)
				s.On["tools/list"] = func(x *faultyserver.Exchange) {
					time.Sleep(time.Duration(i) * 100 * time.Millisecond)
					x.Result(gatewaytest.ToolList("x"))
				}
				servers[name] = s
			}
			h := servers.Open(t, nil)
			for range 3 {
				if got := h.PostModern("1", "tools/list", "", "").Body; !strings.Contains(got, want) {
					t.Errorf("%s: got %s, want %s", order, got, want)
				}
				time.Sleep(time.Minute) // each is queried again meanwhile
			}
		})
	}
}

// The list does not mention a backend that is down, and the status names it: requests
// for declared lists are answered all the same.
//
// G10+ 2026-07-28 server/tools: "Servers that declare the `tools` capability MUST
// respond to `tools/list` requests"
//
// G10+ 2026-07-28 server/resources: "Servers that declare the `resources` capability
// MUST respond to `resources/list`"
//
// G10+ 2026-07-28 server/prompts: "Servers that declare the `prompts` capability MUST
// respond to `prompts/list` requests"
//
// G10- 2026-07-28 server/tools: "with the set of tools currently available to the
// requesting client. This set MAY be empty"
func TestDeclaredListsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		for name, servers := range map[string]gatewaytest.Backends{"all are gone": {"b": gone}, "one is gone": {"a": gatewaytest.ServerWithTools(true, "x"), "b": gone}} {
			h := servers.Open(t, nil)
			for method, declared := range map[string]string{"tools/list": `"tools":{`, "prompts/list": `"prompts":{`, "resources/list": `"resources":{`} {
				if got := h.PostModern("1", "server/discover", "", "").Body; !strings.Contains(got, declared) {
					t.Errorf("%s: it declares %s, want %s", name, got, declared)
				}
				got := h.PostModern("2", method, "", "")
				if got.Status != http.StatusOK || !strings.Contains(got.Body, `"resultType":"complete"`) {
					t.Errorf("%s: %s: %d %s", name, method, got.Status, got.Body)
				}
				if hasTool := strings.Contains(got.Body, "a__x"); hasTool != (servers["a"] != nil && method == "tools/list") {
					t.Errorf("%s: %s: %s", name, method, got.Body)
				}
			}
			isNamed := func(b signalbox.BackendStatus) bool { return b.Name == "b" && b.State == "down" && b.Reason != "" }
			if s := h.G.Status(); !slices.ContainsFunc(s.Backends, isNamed) {
				t.Errorf("%s: the status does not name it: %+v", name, s.Backends)
			}
		}
	})
}
