// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// cannedServer is a server with one tool, prompt and resource that returns prebuilt
// results.
func cannedServer() mcp.Handler {
	answers := make(map[string]*mcp.Result)
	for method, result := range map[string]string{
		"server/discover": `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}}}`,
		"tools/list":      `{"tools":[{"name":"add","inputSchema":{"type":"object"}}]}`,
		"prompts/list":    `{"prompts":[{"name":"add"}]}`,
		"resources/list":  `{"resources":[{"uri":"file:///a","name":"a"}]}`,
		"tools/call":      `{"content":[],"resultType":"complete"}`,
		"prompts/get":     `{"messages":[],"resultType":"complete"}`,
		"resources/read":  `{"contents":[],"resultType":"complete"}`,
	} {
		res, err := mcp.NewResult([]byte(result))
		if err != nil {
			panic(err)
		}
		answers[method] = res
	}
	return mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if res, ok := answers[req.Method]; ok {
			return res, nil
		}
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "unknown method")
	})
}

// ignoringCaller is a client that ignores all notifications.
type ignoringCaller struct{}

func (ignoringCaller) Notify(context.Context, *mcp.Notification) error { return nil }

func (ignoringCaller) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no client to ask")
}

func (ignoringCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// pathGateway returns a gateway with the given number of backends, and requests to the
// last of them: one in a session and one without.
func pathGateway(tb testing.TB, backends int, method, params string) (g *signalbox.Gateway, reqs map[string]*mcp.Request) {
	tb.Helper()
	var opt signalbox.Options
	for i := range backends {
		opt.InProcess = append(opt.InProcess, signalbox.InProcess{Name: fmt.Sprintf("b%03d", i), Handler: cannedServer()})
	}
	g, err := signalbox.New(config.Config{}, opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := g.Close(); err != nil {
			tb.Error(err)
		}
	})
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		tb.Fatal(err)
	}
	// Wait for the first lists here, outside of the measurement.
	if _, err := g.Serve(tb.Context(), &mcp.Request{Method: "tools/list", Client: &mcp.Peer{}}, ignoringCaller{}); err != nil {
		tb.Fatal(err)
	}
	legacy := *req
	legacy.Scope = mcp.NewScope("s", ignoringCaller{})
	tb.Cleanup(legacy.Scope.End)
	return g, map[string]*mcp.Request{"modern": req, "legacy": &legacy}
}

// A call costs the gateway nine allocations, however many backends it has: the
// requested name, the parameters with the backend's own name, one to build them, the
// request, the deadline of the call at the backend, and two each for its context and its timer.
func TestPathAllocations(t *testing.T) {
	for _, tt := range []struct {
		method, params string
		most           float64
	}{
		{"tools/call", `{"name":"b%03d__add","arguments":{"a":1}}`, 9},
		{"prompts/get", `{"name":"b%03d__add"}`, 9},
		{"resources/read", `{"uri":"file:///a","of":%d}`, 7}, // nothing in it is renamed
	} {
		for _, backends := range []int{1, 100} {
			g, reqs := pathGateway(t, backends, tt.method, fmt.Sprintf(tt.params, backends-1))
			for era, req := range reqs {
				got := leastAllocs(func() {
					if _, err := g.Serve(t.Context(), req, ignoringCaller{}); err != nil {
						t.Fatal(err)
					}
				})
				if got > tt.most {
					t.Errorf("%s of %d backends, %s: %v allocations, want at most %v", tt.method, backends, era, got, tt.most)
				}
			}
		}
	}
}

// leastAllocs returns how often f allocates. It is the least of some measurements: what other
// goroutines allocate meanwhile counts, too.
func leastAllocs(f func()) float64 {
	least := math.Inf(1)
	for range 5 {
		least = min(least, testing.AllocsPerRun(200, f))
	}
	return least
}

// A result without names is forwarded unmodified, and not built again.
func TestResultPassesAsItIs(t *testing.T) {
	own := cannedServer()
	want, err := own.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, ignoringCaller{})
	if err != nil {
		t.Fatal(err)
	}
	opt := signalbox.Options{InProcess: []signalbox.InProcess{{Name: "a", Handler: own}}}
	g := gatewaytest.New(t, config.Config{}, opt)
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"a__add"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.Serve(t.Context(), req, ignoringCaller{}); err != nil || got != want {
		t.Errorf("got %p, %v; want %p", got, err, want)
	}
}

func BenchmarkPath(b *testing.B) {
	for _, backends := range []int{1, 100} {
		g, reqs := pathGateway(b, backends, "tools/call", fmt.Sprintf(`{"name":"b%03d__add","arguments":{"a":1}}`, backends-1))
		for era, req := range reqs {
			b.Run(fmt.Sprintf("%s/%d", era, backends), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := g.Serve(b.Context(), req, ignoringCaller{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// Members of a message besides those of JSON-RPC, as sent and as they must arrive.
const (
	outer     = `"first":[1.0,{"id":2}],"jsonrpc":"2.0","extra":{"x":1e2}`
	forwarded = `"first":[1.0,{"id":2}],"extra":{"x":1e2}`
)

// besideIn fails unless the message has the expected members, once.
func besideIn(t *testing.T, what, msg string) {
	t.Helper()
	m, err := mcp.Parse([]byte(msg), mcp.Limits{})
	if err != nil || strings.Count(msg, forwarded) != 1 {
		t.Errorf("%s: %v: %s", what, err, msg)
	}
	if msg = strings.Replace(msg, ","+forwarded, "", 1); strings.Contains(msg, "extra") || m.Kind == mcp.KindInvalid {
		t.Errorf("%s besides: %s", what, msg)
	}
}

// Members of an envelope that JSON-RPC does not define reach the other end, in both
// directions, in any message and between all eras (I42).
func TestM196MembersOfTheEnvelope(t *testing.T) {
	small := `{"content":[],"resultType":"complete"}`
	large := `{"resultType":"complete","content":[{"type":"text","text":"` + strings.Repeat("0123456789", largePart/10) + `"}]}`
	for name, tt := range map[string]struct {
		answer func(x *faultyserver.Exchange)
		event  bool
	}{
		"JSON":                 {func(x *faultyserver.Exchange) { outward(x, `{`+outer+`,"id":%s,"result":`+small+`}`) }, false},
		"JSON of many bytes":   {func(x *faultyserver.Exchange) { outward(x, `{`+outer+`,"id":%s,"result":`+large+`}`) }, false},
		"JSON that is changed": {func(x *faultyserver.Exchange) { outward(x, `{`+outer+`,"id":%s,"result":{"structuredContent":1}}`) }, false},
		"members behind":       {func(x *faultyserver.Exchange) { outward(x, `{"result":`+small+`,"id":%s,`+outer+`}`) }, false},
		"members behind much":  {func(x *faultyserver.Exchange) { outward(x, `{"id":%s,"result":`+large+`,`+outer+`}`) }, false},
		"an error":             {func(x *faultyserver.Exchange) { outward(x, `{`+outer+`,"id":%s,"error":{"code":-5,"message":"m"}}`) }, false},
		"an error of one era": {func(x *faultyserver.Exchange) {
			outward(x, `{`+outer+`,"id":%s,"error":{"code":-32042,"message":"m"}}`)
		}, false},
		"an event": {func(x *faultyserver.Exchange) {
			x.Event("", fmt.Sprintf(`{`+outer+`,"id":%s,"result":`+small+`}`, x.Msg.ID))
		}, false},
		"an event of many bytes": {func(x *faultyserver.Exchange) {
			x.Event("", fmt.Sprintf(`{`+outer+`,"id":%s,"result":`+large+`}`, x.Msg.ID))
		}, false},
		"progress": {func(x *faultyserver.Exchange) {
			x.Event("", fmt.Sprintf(`{`+outer+`,"method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, x.Msg.Params.Raw(mcp.MetaProgressToken)))
			x.Event("", fmt.Sprintf(`{`+outer+`,"id":%s,"result":`+small+`}`, x.Msg.ID))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
				synctest.Test(t, func(t *testing.T) {
					besideBothWays(t, clientEra, backendEra, tt.answer, tt.event)
				})
			})
		})
	}
}

// outward answers with a JSON document that contains the id.
func outward(x *faultyserver.Exchange, format string) {
	x.Status(http.StatusOK, "application/json", strings.Replace(format, "%s", x.Msg.ID.String(), 1))
}

func besideBothWays(t *testing.T, clientEra, backendEra mcp.Era, answer func(x *faultyserver.Exchange), event bool) {
	s := gatewaytest.ServerWithTools(backendEra == mcp.EraModern, "x")
	s.On["tools/call"] = answer
	h := gatewaytest.Backends{"b": s}.Open(t, nil)
	var got gatewaytest.Response
	if clientEra == mcp.EraModern {
		body, headers := gatewaytest.ModernRequest("1", "tools/call", "b__x", "")
		body = strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":7,`, 1)
		got = h.Post(withOuter(body), headers)
	} else {
		body := gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__x","_meta":{"progressToken":7}}`)
		got = h.Post(withOuter(body), h.Legacy())
	}
	for _, r := range s.Seen() {
		if r.Method == "tools/call" {
			besideIn(t, "the request", r.Body)
		}
	}
	msgs := []string{got.Body}
	if event {
		msgs = nil
		for line := range strings.Lines(got.Body) {
			if data, ok := strings.CutPrefix(line, "data: {"); ok {
				msgs = append(msgs, "{"+data)
			}
		}
		if len(msgs) != 2 {
			t.Errorf("%d messages in %s", len(msgs), got.Body)
		}
	}
	for _, msg := range msgs {
		besideIn(t, "the answer", strings.TrimSpace(msg))
	}
}

// withOuter adds the members to a message.
func withOuter(msg string) string { return strings.Replace(msg, `"jsonrpc":"2.0"`, outer, 1) }

// The same for a request of the server and its response, and for unrelated messages.
func TestM196MembersOfTheEnvelopeOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan string, 1)
		s := gatewaytest.ServerWithTools(false, "x")
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("", `{`+outer+`,"id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
			answer := <-answered
			x.Event("", `{`+outer+`,"method":"notifications/message","params":{"level":"error","data":1}}`)
			x.Response(`{"content":[]}`)
			besideIn(t, "the answer to the question", answer)
		}
		s.On[""] = func(x *faultyserver.Exchange) {
			x.W.WriteHeader(http.StatusAccepted)
			answered <- string(x.Msg.Raw)
		}
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		sess := h.Legacy()
		e := h.Stream(h.Request(t.Context(), http.MethodPost, gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__x"}`), sess))
		question := e.Next()
		besideIn(t, "the question", question)
		m, err := mcp.Parse([]byte(question), mcp.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		h.Post(`{`+outer+`,"id":`+m.ID.String()+`,"result":{"action":"decline"}}`, sess)
		besideIn(t, "the log message", e.Next())
		gatewaytest.WantEqual(t, "the result", e.Next(), `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		h.Post(`{`+outer+`,"method":"notifications/roots/list_changed"}`, sess)
		synctest.Wait()
		for _, r := range s.Seen() {
			if r.Method == "notifications/roots/list_changed" {
				besideIn(t, "the notification", r.Body)
			}
		}
		if s.Count("notifications/roots/list_changed") != 1 {
			t.Error("the notification did not arrive")
		}
	})
}

// Additional members cannot repeat those of JSON-RPC, nor anything that another parser
// would read as one of them.
func TestMembersOfTheEnvelopeRepeatNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.ServerWithTools(false, "x")
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		sess := h.Legacy()
		for _, member := range []string{
			`"id":2`, `"\u0069d":2`, `"ID":2`, `"jsonrpc":"2.0"`, `"method":"ping"`, `"Method":"ping"`, `"params":{}`, `"PARAMS":{}`,
			`"result":{}`, `"error":{"code":1,"message":""}`, `"extra":1,"extra":1`, `"extra":1,"\u0065xtra":1`,
		} {
			call := gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__x"}`)
			got := h.Post(strings.Replace(call, `"id"`, member+`,"id"`, 1), sess)
			if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "-32600") {
				t.Errorf("%s: %d %s", member, got.Status, got.Body)
			}
		}
		if n := s.Count("tools/call"); n != 0 {
			t.Errorf("%d calls arrived", n)
		}
	})
}

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

// polling is a server with a tool that ends the connection of its call and waits for
// the client to reconnect. result receives the result of Poll.
func polling(result chan<- bool, back <-chan struct{}) mcp.Handler {
	tools := mux.New(mux.Tool{Name: "slow", Call: func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("done"), nil }})
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if req.Method == "tools/call" {
			polled := caller.Extension().Poll(time.Millisecond)
			result <- polled
			if polled {
				<-back
			}
		}
		return tools.Serve(ctx, req, caller)
	})
}

// A Handler can poll as a backend in the gateway's process, as it can behind
// server.New.
func TestHandlerPollsBehindTheGateway(t *testing.T) {
	result, back := make(chan bool, 1), make(chan struct{}, 1)
	direct := server.New(polling(result, back), server.Config{})
	gateway, err := signalbox.New(config.Config{}, signalbox.Options{
		InProcess: []signalbox.InProcess{{Name: "p", Handler: polling(result, back)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		direct.Close()
		gateway.Close()
	})
	for tool, h := range map[string]http.Handler{"slow": direct, "p__slow": gateway} {
		t.Run(tool, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-ID") != "" {
					back <- struct{}{}
				}
				h.ServeHTTP(w, r)
			}))
			defer s.Close()
			c := client.NewHTTP(s.URL, client.Config{Version: mcp.V20251125})
			defer c.Close()
			req, err := mcp.NewRequest("tools/call", []byte(`{"name":"`+tool+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.Serve(t.Context(), req, nil)
			if err != nil || string(res.Raw(mcp.FieldContent)) != `[{"type":"text","text":"done"}]` {
				t.Errorf("%v, %v", res, err)
			}
			if !<-result {
				t.Error("Poll = false")
			}
		})
	}
}

// A tool with a schema that nests deeper than messages may does not affect other tools,
// on the whole way from a server over HTTP to a client.
func TestDeepSchemaCostsNoOtherTool(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%t", modern), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tools []string
				for i := range 20 {
					tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
				}
				deep := strings.Repeat(`{"type":"object","properties":{"a":`, 70) + "{}" + strings.Repeat("}}", 70)
				tools[7] = `{"name":"deep","inputSchema":` + deep + `}`
				s := &faultyserver.HTTP{Modern: modern, Sessions: !modern, On: map[string]func(*faultyserver.Exchange){
					"tools/list": gatewaytest.ResultHandler(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` + strings.Join(tools, ",") + `]}`),
				}}
				h := gatewaytest.Backends{"b": s}.Open(t, nil)
				status := h.G.Status()
				if b := status.Backends[0]; b.State != "live" || b.Tools != 20 {
					t.Errorf("backend %+v", b)
				}
				want := `backend "b": tool "deep": left out: it is nested deeper than the 125 levels allowed for an item of a list`
				if len(status.Problems) != 1 || status.Problems[0] != want {
					t.Errorf("problems %q, want %q", status.Problems, want)
				}
				got := h.Post(gatewaytest.LegacyRequest("1", "tools/list", `{}`), h.Legacy())
				if n := strings.Count(got.Body, `"name":"b__t`); n != 19 {
					t.Errorf("%d tools in %s", n, got.Body)
				}
			})
		})
	}
}
