// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// uiExtension is the extension as a host declares it, and rendering the capabilities of one that
// declares nothing else.
const (
	uiExtension = `"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`
	rendering   = `{` + uiExtension + `}`
)

// appServer is a server with an app. It has other tools for clients that render apps.
type appServer struct {
	*faultyserver.HTTP

	mu        sync.Mutex
	plain, ui []string        // the tools
	sessions  map[string]bool // by id, whether the client renders apps
}

func newAppServer(modern bool, plain, ui []string) *appServer {
	s := &appServer{HTTP: gatewaytest.ServerWithTools(modern), plain: plain, ui: ui, sessions: make(map[string]bool)}
	s.Capabilities = `{"tools":{"listChanged":true},"resources":{}}`
	s.On["initialize"] = func(x *faultyserver.Exchange) {
		x.Polite()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sessions[x.W.Header().Get("Mcp-Session-Id")] = strings.Contains(string(x.Msg.Params.Raw(mcp.FieldCapabilities)), uiExtension)
	}
	s.On["tools/list"] = func(x *faultyserver.Exchange) { x.Result(`{"tools":[` + strings.Join(s.tools(x), ",") + `]}`) }
	s.On["tools/call"] = func(x *faultyserver.Exchange) {
		name, _ := x.Msg.Params.Text(mcp.FieldName)
		x.Result(fmt.Sprintf(`{"content":[{"type":"text","text":"%s of %s, renders %t"}]}`, name, x.R.Host, s.renders(x)))
	}
	return s
}

func (s *appServer) renders(x *faultyserver.Exchange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[x.R.Header.Get("Mcp-Session-Id")] || strings.Contains(string(x.Msg.Params.Raw(mcp.MetaClientCapabilities)), uiExtension)
}

func (s *appServer) tools(x *faultyserver.Exchange) []string {
	renders := s.renders(x)
	s.mu.Lock()
	defer s.mu.Unlock()
	if renders {
		return s.ui
	}
	return s.plain
}

// set replaces the tools.
func (s *appServer) set(tools ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plain, s.ui = tools, tools
}

// tool returns a tool with this _meta, or without for "".
func tool(name, meta string) string {
	if meta != "" {
		meta = `,"_meta":` + meta
	}
	return `{"name":"` + name + `","inputSchema":{"type":"object"}` + meta + `}`
}

func page(name string) string { return tool(name, `{"ui":{"resourceUri":"ui://`+name+`"}}`) }

func appOnly(name string) string { return tool(name, `{"ui":{"visibility":["app"]}}`) }

// appClient is a client of the gateway, of either era.
type appClient struct {
	*gatewaytest.Gateway

	version      mcp.Version
	capabilities string
	session      gatewaytest.Header
	hello        string // the answer to initialize
}

// openAs opens a client of the revision with capabilities.
func openAs(h *gatewaytest.Gateway, v mcp.Version, capabilities string, headers ...gatewaytest.Header) *appClient {
	h.T.Helper()
	c := &appClient{Gateway: h, version: v, capabilities: capabilities, session: gatewaytest.Header{}}
	for _, hs := range headers {
		maps.Copy(c.session, hs)
	}
	if v.Era() != mcp.EraLegacy {
		return c
	}
	got := h.Post(gatewaytest.LegacyRequest("0", "initialize", `{"protocolVersion":"`+string(v)+`","capabilities":`+capabilities+`,"clientInfo":{"name":"test","version":"1"}}`), c.session)
	c.hello = got.Body
	c.session["Mcp-Session-Id"], c.session["Mcp-Protocol-Version"] = got.Header.Get("Mcp-Session-Id"), string(v)
	if got := h.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, c.session); got.Status != 202 {
		h.T.Fatalf("initialized: %d %s", got.Status, got.Body)
	}
	return c
}

func (c *appClient) request(method, name, params string) string {
	c.T.Helper()
	if c.version.Era() == mcp.EraLegacy {
		if name != "" {
			params = `"name":"` + name + `",` + params
		}
		return c.Post(gatewaytest.LegacyRequest("1", method, `{`+strings.TrimSuffix(params, ",")+`}`), c.session).Body
	}
	body, hs := gatewaytest.ModernRequest("1", method, name, params)
	body = strings.Replace(body, `clientCapabilities":{}`, `clientCapabilities":`+c.capabilities, 1)
	return c.Post(body, hs, c.session).Body
}

// list returns the listed tools by their names.
func (c *appClient) list() map[string]string {
	c.T.Helper()
	var got struct {
		Result struct{ Tools []json.RawMessage }
	}
	body := c.request("tools/list", "", "")
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.Result.Tools == nil {
		c.T.Fatalf("tools/list: %v: %s", err, body)
	}
	tools := make(map[string]string)
	for _, raw := range got.Result.Tools {
		var named struct{ Name string }
		if err := json.Unmarshal(raw, &named); err != nil {
			c.T.Fatal(err)
		}
		tools[named.Name] = string(raw)
	}
	return tools
}

func (c *appClient) call(name string) string { return c.request("tools/call", name, "") }

// wantNames checks the names of the listed tools.
func (c *appClient) wantNames(names ...string) {
	c.T.Helper()
	tools := c.list()
	for _, name := range names {
		if tools[name] == "" {
			c.T.Errorf("%s is not listed: %v", name, tools)
		}
	}
	if len(tools) != len(names) {
		c.T.Errorf("listed are %v, want %q", tools, names)
	}
}

func (c *appClient) wantCalled(name, text string) {
	c.T.Helper()
	if got := c.call(name); !strings.Contains(got, `"text":"`+text) {
		c.T.Errorf("%s: %s, want %s", name, got, text)
	}
}

func (c *appClient) wantUnknown(name string) {
	c.T.Helper()
	if got := c.call(name); !strings.Contains(got, `-32602`) || !strings.Contains(got, "unknown tool") {
		c.T.Errorf("%s: %s, want the error of an unknown tool", name, got)
	}
}

// eraCells runs a test for each pair of eras of a client and of a server.
func eraCells(t *testing.T, test func(t *testing.T, client mcp.Version, modern bool)) {
	for _, v := range []mcp.Version{mcp.V20250618, mcp.V20260728} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, modern server %t", v, modern), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, v, modern) })
			})
		}
	}
}

// A client that renders apps is declared the extension, and has the tools that the server has for
// such clients; another one has neither these nor a tool for apps alone (C11; row 3).
func TestClientsThatRenderApps(t *testing.T) {
	eraCells(t, func(t *testing.T, v mcp.Version, modern bool) {
		s := newAppServer(modern,
			[]string{page("show"), appOnly("refresh"), tool("text", "")},
			[]string{page("show"), appOnly("refresh"), page("more")})
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		host, plain := openAs(h, v, rendering), openAs(h, v, `{}`)
		if v.Era() == mcp.EraLegacy && !strings.Contains(host.hello, `"extensions":{"io.modelcontextprotocol/ui":{}}`) {
			t.Errorf("the answer to initialize is %s", host.hello)
		}
		plain.wantNames("b__show", "b__text")
		host.wantNames("b__show", "b__refresh", "b__more")
		plain.wantNames("b__show", "b__text")
		host.wantCalled("b__more", "more of b, renders true")
		if seen := s.Seen(); modern && seen[len(seen)-1].Header.Get("Mcp-Name") != "more" {
			t.Errorf("the headers of the call are %v", seen[len(seen)-1].Header)
		}
		host.wantCalled("b__refresh", "refresh of b, renders true")
		plain.wantCalled("b__text", "text of b, renders false")
		plain.wantUnknown("b__refresh")
		plain.wantUnknown("b__more")
		if got, want := plain.list()["b__show"], strings.NewReplacer(`"show"`, `"b__show"`, `ui://show`, `ui://b/show`).Replace(page("show")); got != want {
			t.Errorf("another client is shown %s, want %s", got, want)
		}
	})
}

// The page of an app calls the tools of its server by their own names (C10).
func TestOwnNames(t *testing.T) {
	eraCells(t, func(t *testing.T, v mcp.Version, modern bool) {
		app := newAppServer(modern, []string{page("show"), appOnly("refresh"), tool("secret", `{"ui":{"visibility":["model"]}}`)}, nil)
		app.ui = app.plain
		other := newAppServer(modern, []string{tool("plain", "")}, []string{tool("plain", "")})
		h := gatewaytest.Backends{"a": app, "o": other}.Open(t, nil)
		host, plain := openAs(h, v, rendering), openAs(h, v, `{}`)
		host.wantCalled("refresh", "refresh of a, renders true") // before it has listed anything
		host.wantCalled("show", "show of a, renders true")
		host.wantUnknown("secret") // for the model alone
		host.wantUnknown("plain")  // of a server without an app
		for _, name := range []string{"show", "refresh", "secret", "plain"} {
			plain.wantUnknown(name)
		}
	})
}

// Two servers with one name: it is refused, and nothing is sent to either.
func TestOwnNameOfSeveral(t *testing.T) {
	eraCells(t, func(t *testing.T, v mcp.Version, modern bool) {
		tools := []string{page("get-time")}
		a, b := newAppServer(modern, tools, tools), newAppServer(modern, tools, tools)
		h := gatewaytest.Backends{"a": a, "b": b}.Open(t, func(cfg *config.Config) {
			cfg.Profiles = []config.Profile{{Name: "a", Servers: []string{"a"}}}
		})
		host := openAs(h, v, rendering)
		const want = `"get-time\" is a tool of 2 servers here (a__get-time, b__get-time); give them profiles of their own`
		if got := host.call("get-time"); !strings.Contains(got, want) || !strings.Contains(got, "-32602") || !strings.Contains(got, "SB_APP_NAME") {
			t.Errorf("got %s", got)
		}
		if n := a.Count("tools/call") + b.Count("tools/call"); n != 0 {
			t.Errorf("%d calls were sent", n)
		}
		host.wantCalled("b__get-time", "get-time of b")
		openAs(h.At("a"), v, rendering).wantCalled("get-time", "get-time of a")
	})
}
