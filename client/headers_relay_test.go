// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// paramHeadersOf returns the Mcp-Param headers of the last request of a method.
func paramHeadersOf(s *faultyserver.HTTP, method string) string {
	found := map[string][]string{}
	for k, v := range last(s, method).Header {
		if strings.HasPrefix(k, "Mcp-Param-") {
			found[k] = v
		}
	}
	return fmt.Sprint(found)
}

// withParamHeaders adds headers to a request, as the server side of the gateway does.
func withParamHeaders(req *mcp.Request, h map[string][]string) *mcp.Request {
	req.ParamHeaders = h
	return req
}

// An unknown header is forwarded unmodified with each request, including encoded, empty
// and repeated ones. Known headers are made anew, and those set by the operator stay.
//
// H9+ 2026-07-28 basic/transports/streamable-http: "Intermediate servers that do not
// recognize an Mcp-Param-{Name} header MUST forward it and otherwise ignore it"
//
// H9- 2026-07-28 basic/transports/streamable-http: "Intermediate servers that do not
// recognize an Mcp-Param-{Name} header MUST forward it and otherwise ignore it"
func TestUnknownParamHeadersAreForwarded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){
			"tools/list": func(x *faultyserver.Exchange) {
				x.Result(`{"tools":[{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`)
			},
			"resources/read": func(x *faultyserver.Exchange) { x.Result(`{"contents":[]}`) },
		}}
		c := dialHTTP(t, s, client.Config{Header: http.Header{"mcp-param-tenant": {"ours"}}})
		serve := func(req *mcp.Request) {
			t.Helper()
			if _, err := within(t, c, req, &recorder{}); err != nil {
				t.Fatalf("%s: %v", req.Method, err)
			}
		}
		came := map[string][]string{
			"Mcp-Param-Region": {"us"}, "Mcp-Param-Zone": {"=?base64?w6Q=?="}, "Mcp-Param-Empty": {""},
			"Mcp-Param-Twice": {"a", "b"}, "Mcp-Param-Tenant": {"theirs"},
		}
		const others = "Mcp-Param-Tenant:[ours] Mcp-Param-Twice:[a b] Mcp-Param-Zone:[=?base64?w6Q=?=]]"

		serve(withParamHeaders(request(t, "tools/list", ""), map[string][]string{}))
		if got := paramHeadersOf(s, "tools/list"); got != "map[Mcp-Param-Tenant:[ours]]" {
			t.Errorf("a list that came without: %s", got)
		}
		serve(withParamHeaders(request(t, "tools/call", `{"name":"q","arguments":{"region":"eu"}}`), came))
		if got, want := paramHeadersOf(s, "tools/call"), "map[Mcp-Param-Empty:[] Mcp-Param-Region:[eu] "+others; got != want {
			t.Errorf("a call:\n got %s\nwant %s", got, want)
		}
		serve(withParamHeaders(request(t, "tools/call", `{"name":"q","arguments":{}}`), came))
		if got, want := paramHeadersOf(s, "tools/call"), "map[Mcp-Param-Empty:[] "+others; got != want {
			t.Errorf("a call without the argument:\n got %s\nwant %s", got, want)
		}
		serve(withParamHeaders(request(t, "resources/read", `{"uri":"file:///a"}`), came))
		if got, want := paramHeadersOf(s, "resources/read"), "map[Mcp-Param-Empty:[] Mcp-Param-Region:[us] "+others; got != want {
			t.Errorf("another request:\n got %s\nwant %s", got, want)
		}
	})
}

// The list that is read because a call was refused is the gateway's own request,
// without the call's headers. Servers of other transports and eras get no headers.
//
// H9- 2026-07-28 basic/transports/streamable-http: "Intermediate servers that do not
// recognize an Mcp-Param-{Name} header MUST forward it and otherwise ignore it"
func TestUnknownParamHeadersStayWithTheirRequest(t *testing.T) {
	came := map[string][]string{"Mcp-Param-Zone": {"z"}}
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){}}
		s.On["tools/list"] = func(x *faultyserver.Exchange) {
			x.Result(`{"tools":[{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`)
		}
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Mcp-Param-Region") == "" {
				x.Status(400, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"Header mismatch"}}`, x.Msg.ID))
				return
			}
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		if _, err := within(t, c, withParamHeaders(request(t, "tools/call", `{"name":"q","arguments":{"region":"eu"}}`), came), &recorder{}); err != nil {
			t.Fatal(err)
		}
		if got := paramHeadersOf(s, "tools/list"); got != "map[]" {
			t.Errorf("our own list has the headers %s", got)
		}
		if got := paramHeadersOf(s, "tools/call"); got != "map[Mcp-Param-Region:[eu] Mcp-Param-Zone:[z]]" {
			t.Errorf("the second attempt has the headers %s", got)
		}
	})
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Sessions: true}
		if _, err := within(t, dialHTTP(t, s, client.Config{}), withParamHeaders(echo(t), came), &recorder{}); err != nil {
			t.Fatal(err)
		}
		if got := paramHeadersOf(s, "tools/call"); got != "map[]" {
			t.Errorf("a legacy server gets the headers %s", got)
		}
	})
}
