// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// countingHandler is a Handler of every method that counts its requests.
func countingHandler(n *int) mcp.Handler {
	return mcp.HandlerFunc(func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if req.Method == "server/discover" {
			return result(discovered)
		}
		*n++
		return result(`{}`)
	})
}

// withTasks declares the extension that defines the methods of tasks.
const withTasks = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// Each method that has headers, with each way in which a header can be wrong.
//
// H2+ 2026-07-28 basic/transports/streamable-http: "The header value MUST match the
// io.modelcontextprotocol/protocolVersion field carried in the request body's _meta."
//
// H3+ 2026-07-28 basic/transports/streamable-http: "These headers are REQUIRED for
// compliance."
//
// H3- 2026-07-28 basic/transports/streamable-http: "A required standard header
// (MCP-Protocol-Version, Mcp-Method, Mcp-Name) is missing."
//
// H4+ seps 2663-tasks-extension: "the client MUST set the Mcp-Name header"
//
// H4- seps 2663-tasks-extension: "the client MUST set the Mcp-Name header"
//
// H5+ 2026-07-28 basic/transports/streamable-http: "Header names (called "field names"
// in RFC 9110) are case-insensitive."
func TestStandardHeadersOfEveryMethod(t *testing.T) {
	methods := []struct{ method, params, name string }{
		{"tools/call", `{"name":"it",` + withTasks + `}`, "it"},
		{"prompts/get", `{"name":"it",` + withTasks + `}`, "it"},
		{"resources/read", `{"uri":"file:///it",` + withTasks + `}`, "file:///it"},
		{"tasks/get", `{"taskId":"it",` + withTasks + `}`, "it"},
		{"tasks/update", `{"taskId":"it","inputResponses":{},` + withTasks + `}`, "it"},
		{"tasks/cancel", `{"taskId":"it",` + withTasks + `}`, "it"},
		{"tools/list", `{` + withTasks + `}`, ""},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"it"},` + withTasks + `}`, ""},
	}
	n := 0
	bubble(t, countingHandler(&n), server.Config{}, func(s *site) {
		for _, m := range methods {
			right := modernHeaders(m.method, m.name)
			body := raw("1", m.method, m.params)
			for _, pass := range []headers{
				{}, {"Mcp-Method": "  " + m.method + "\t"}, {"MCP-PROTOCOL-VERSION": "2026-07-28"},
			} {
				before := n
				if got := s.post(body, right, pass); got.status != 200 || n != before+1 {
					t.Errorf("%s with %v: %d %s", m.method, pass, got.status, got.body)
				}
			}
			for header, value := range right {
				wrong := map[string][]string{
					"missing": nil, "empty": {""}, "another": {"x" + value}, "a part": {value[:len(value)-1]}, "another case": {strings.ToUpper(value)},
					"twice": {value, value}, "two in one": {value + ", " + value}, "another character": {value + "\u00e9"},
				}
				if header == "MCP-Protocol-Version" {
					delete(wrong, "another case") // it has no case
				}
				for what, values := range wrong {
					r := s.request(s.ctx(), http.MethodPost, body, right)
					r.Header[http.CanonicalHeaderKey(header)] = values
					before := n
					if got := s.do(r); got.status != 400 || !strings.Contains(got.body, `"id":1,"error":{"code":-32020,`) || n != before {
						t.Errorf("%s with %s %s: %d %s", m.method, header, what, got.status, got.body)
					}
				}
			}
		}
	})
}

// The principal is determined by the credential of this request alone: no header that the
// client fills in from the body matters, nor one that claims an identity. A header that
// mirrors an argument is checked against it by the backend, and changes nothing there
// either.
//
// H13+ seps 2243-http-standardization: "Intermediaries and servers MUST NOT treat these
// values as trusted input for security-sensitive decisions."
//
// H13- seps 2243-http-standardization: "Header values MUST NOT be used as the sole basis
// for granting elevated privileges"
func TestHeadersDoNotAuthenticate(t *testing.T) {
	var seen []string
	h := tools(map[string]mcp.HandlerFunc{"who": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		seen = append(seen, req.Principal)
		return result(`{}`)
	}})
	bubble(t, h, server.Config{Authenticate: identified(byToken)}, func(s *site) {
		body := modern("1", "tools/call", `"name":"who"`)
		for _, claim := range []headers{
			{}, {"Mcp-Param-Tenant": "bob"}, {"Mcp-Param-Principal": "bob", "X-Tenant-Id": "bob", "X-Forwarded-User": "bob"}, {"Mcp-Session-Id": "bob"},
		} {
			if got := s.post(body, modernHeaders("tools/call", "who"), claim, headers{"Authorization": "Bearer ann"}); got.status != 200 {
				t.Errorf("%v: %d %s", claim, got.status, got.body)
			}
			if got := s.post(body, modernHeaders("tools/call", "who"), claim); got.status != 401 {
				t.Errorf("%v and no token: %d %s; want 401", claim, got.status, got.body)
			}
		}
		for i, principal := range seen {
			if principal != "ann" {
				t.Errorf("call %d was one of %q; want ann", i, principal)
			}
		}
		if len(seen) != 4 {
			t.Errorf("%d calls came through, want the 4 with a token", len(seen))
		}
	})
}

// In a revision without such headers they have no meaning, whatever they contain: the body
// decides, and no header becomes the mirror of an argument.
//
// H14+ 2026-07-28 basic/transports/streamable-http: "Intermediaries that enforce policy
// based on mirrored headers (e.g., routing or rate-limiting by tenant) SHOULD verify that
// the MCP-Protocol-Version header indicates a version that requires header–body
// validation."
//
// H14- 2026-07-28 basic/transports/streamable-http: "the intermediary SHOULD reject the
// request rather than trusting unvalidated header values."
func TestHeadersOfEarlierRevisionsDecideNothing(t *testing.T) {
	var seen []string
	tool := func(name string) mcp.HandlerFunc {
		return func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			seen = append(seen, fmt.Sprint(name, " ", req.ParamHeaders == nil))
			return result(`{}`)
		}
	}
	h := tools(map[string]mcp.HandlerFunc{"this": tool("this"), "that": tool("that"), "tools/list": tool("list")})
	forged := headers{"Mcp-Method": "tools/list", "Mcp-Name": "that", "Mcp-Param-Region": "us"}
	bubble(t, h, server.Config{}, func(s *site) {
		for _, v := range []mcp.Version{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125} {
			seen = nil
			sess := s.sessionIn(v)
			for _, h := range []headers{forged, {"Mcp-Method": "tools/call", "Mcp-Name": "this"}, {}} {
				if got := s.post(raw("1", "tools/call", `{"name":"this"}`), sess, h); got.status != 200 {
					t.Errorf("%s with %v: %d %s", v, h, got.status, got.body)
				}
			}
			equal(t, string(v), strings.Join(seen, ", "), "this true, this true, this true")
		}
		// Without a session nothing is served either, whichever revision is named.
		seen = nil
		for _, version := range []string{"2025-11-25", "2025-06-18", "-"} {
			got := s.post(raw("1", "tools/call", `{"name":"this"}`), forged, headers{"MCP-Protocol-Version": version})
			if got.status != 400 {
				t.Errorf("%s without a session: %d %s; want 400", version, got.status, got.body)
			}
		}
		if len(seen) > 0 {
			t.Errorf("%q was called", seen)
		}
	})
}

// If a request cannot be served without asking its client for something that the client has
// not declared, the error names the missing capabilities. A client that has declared them
// is asked, in the declared ways only. The declarations of other requests do not matter.
//
// J9+ 2026-07-28 basic/index: "**MUST** use defined codes only with their specified
// meanings."
//
// H16+ 2026-07-28 basic/index: "whose data.requiredCapabilities lists the missing
// capabilities"
//
// H16- 2026-07-28 basic/index: "the server MUST return a
// MissingRequiredClientCapabilityError (-32021) whose data.requiredCapabilities lists the
// missing capabilities. On HTTP, the response status MUST be 400 Bad Request."
func TestUndeclaredCapabilityIsNamed(t *testing.T) {
	tests := []struct{ method, params, declared, other, missing string }{
		{"sampling/createMessage", `{"messages":[],"maxTokens":1}`, `{"sampling":{}}`, `{"roots":{},"elicitation":{}}`, `{"sampling":{}}`},
		{"sampling/createMessage", `{"messages":[],"maxTokens":1,"tools":[]}`, `{"sampling":{"tools":{}}}`, `{"sampling":{}}`, `{"sampling":{"tools":{}}}`},
		{"elicitation/create", `{"message":"?","requestedSchema":{"type":"object","properties":{}}}`, `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`},
		{"elicitation/create", `{"mode":"url","message":"?","url":"https://x.example/","elicitationId":"e"}`, `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}}}`},
		{"roots/list", `{}`, `{"roots":{}}`, `{"sampling":{}}`, `{"roots":{}}`},
	}
	for _, tt := range tests {
		h := tools(map[string]mcp.HandlerFunc{"ask": ask(tt.method, tt.params)})
		bubble(t, h, server.Config{}, func(s *site) {
			call := func(caps string) reply {
				meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + caps + `}`
				return s.post(raw("1", "tools/call", `{"name":"ask",`+meta+`}`), modernHeaders("tools/call", "ask"))
			}
			if got := call(tt.declared); got.status != 200 || !strings.Contains(got.body, `"input_required"`) || !strings.Contains(got.body, tt.method) {
				t.Errorf("%s with %s: %d %s; want the question", tt.method, tt.declared, got.status, got.body)
			}
			for _, caps := range []string{`{}`, tt.other} {
				got := call(caps)
				equal(t, tt.method+" with "+caps, got.body, `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":`+
					string(jsonscan.AppendString(nil, "the client did not declare what "+tt.method+" needs: "+tt.missing))+`,"data":{"requiredCapabilities":`+tt.missing+`}}}`)
				if got.status != 400 {
					t.Errorf("%s with %s: status %d, want 400", tt.method, caps, got.status)
				}
			}
		})
	}
}

// A client's name, in either era, changes nothing: every client gets the same answers.
//
// H17+ 2026-07-28 basic/index: "io.modelcontextprotocol/clientInfo and
// io.modelcontextprotocol/serverInfo are self-reported by the sender and are not verified
// by the protocol."
//
// H17- 2026-07-28 basic/index: "Implementations SHOULD NOT use them to change the behavior
// of the client or server, and SHOULD NOT rely on them for security decisions."
func TestClientNameChangesNothing(t *testing.T) {
	infos := []string{
		"", `{"name":"admin","version":"1"}`, `{"name":"signalbox","version":"999"}`, `{"name":"Claude Code","version":"2"}`,
		`{"name":"","version":""}`, `{"name":"../../etc","version":"\u001b[0m","trusted":true,"capabilities":{"roots":{}}}`, `{}`, `7`,
	}
	h := tools(map[string]mcp.HandlerFunc{
		"echo": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			return result(fmt.Sprintf(`{"content":[],"who":%q,"can":%s,"level":%d}`, req.Principal, req.Client.Capabilities, req.LogLevel))
		},
		"ask": ask("roots/list", `{}`),
	})
	bubble(t, h, server.Config{Authenticate: identified(func(r *http.Request) (string, error) {
		if r.Header.Get("Authorization") == "" {
			return "", errors.New("nobody")
		}
		return "ann", nil
	})}, func(s *site) {
		ann := headers{"Authorization": "x"}
		first := map[string]string{}
		same := func(what, info, got string) {
			t.Helper()
			if want, ok := first[what]; ok && got != want {
				t.Errorf("%s as %s:\n got %s\nwant %s", what, info, got, want)
			}
			first[what] = got
		}
		for _, info := range infos {
			meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
			client := ""
			if info != "" {
				meta += `,"io.modelcontextprotocol/clientInfo":` + info
				client = `,"clientInfo":` + info
			}
			for _, name := range []string{"echo", "ask", "hidden"} {
				body, hs := raw("1", "tools/call", `{"name":"`+name+`",`+meta+`}}`), modernHeaders("tools/call", name)
				got := s.post(body, hs, ann)
				same(name, info, fmt.Sprint(got.status, got.body))
				got = s.post(body, hs)
				same(name+" without a token", info, fmt.Sprint(got.status, got.body))
			}
			if info == "7" {
				continue // no object: the handshake requires one
			}
			opened := s.post(raw("0", "initialize", `{"protocolVersion":"2025-11-25","capabilities":{}`+client+`}`), ann)
			same("initialize", info, fmt.Sprint(opened.status, opened.body))
			sess := maps.Clone(ann)
			sess["Mcp-Session-Id"] = opened.header.Get("Mcp-Session-Id")
			for _, name := range []string{"echo", "ask", "hidden"} {
				got := s.post(raw("1", "tools/call", `{"name":"`+name+`"}`), sess)
				same("legacy "+name, info, fmt.Sprint(got.status, got.body))
			}
		}
		equal(t, "echo", first["echo"], `200{"jsonrpc":"2.0","id":1,"result":{"content":[],"who":"ann","can":{},"level":0,"resultType":"complete"}}`)
		equal(t, "legacy echo", first["legacy echo"], `200{"jsonrpc":"2.0","id":1,"result":{"content":[],"who":"ann","can":{},"level":1}}`)
	})
}

// All headers that could mirror an argument reach the Handler, undecoded and in order; no
// others do, and none that the client has limited to this connection.
//
// H9+ 2026-07-28 basic/transports/streamable-http: "Intermediate servers that do not
// recognize an Mcp-Param-{Name} header MUST forward it and otherwise ignore it"
//
// H9- 2026-07-28 basic/transports/streamable-http: "Intermediate servers that do not
// recognize an Mcp-Param-{Name} header MUST forward it and otherwise ignore it"
func TestParamHeadersReachTheHandler(t *testing.T) {
	var seen string
	h := tools(map[string]mcp.HandlerFunc{"echo": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		seen = fmt.Sprint(req.ParamHeaders)
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		head := "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
		got := s.exchange(head+"mcp-param-REGION: =?base64?w6Q=?=\r\nMcp-Param-Twice: b\r\nMcp-Param-Twice: a\r\nMcp-Param-Empty:\r\n"+
			"X-Other: x\r\nMcp-Parameter: x\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n"+
			"Mcp-Param-Hop: x\r\nMcp-Param-Leg: x\r\nConnection: close, mcp-param-hop,Mcp-Param-LEG\r\n", modern("1", "tools/call", `"name":"echo"`))
		if !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("%.200s; want 200", got)
		}
		equal(t, "headers", seen, "map[Mcp-Param-Empty:[] Mcp-Param-Region:[=?base64?w6Q=?=] Mcp-Param-Twice:[b a]]")
	})
}
