// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// echoState is a modern backend: its tool "t" asks with a state, and returns the state of the
// retry.
func echoState(state string) mcp.Handler {
	return tools(map[string]mcp.HandlerFunc{"t": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if req.Params.Has(mcp.FieldRequestState) {
			return result(fmt.Sprintf(`{"text":%q}`, "got "+string(req.Params.Raw(mcp.FieldRequestState))))
		}
		return result(`{"resultType":"input_required","requestState":` + state + `}`)
	}})
}

func byWhoHeader(r *http.Request) (string, error) { return r.Header.Get("Who"), nil }

// Without authentication a state is passed byte for byte, so that any replica can serve the
// retry. A state that resembles the gateway's own is marked, so that a gateway behind this
// one gets back its own state.
//
// Q4+ 2026-07-28 basic/patterns/mrtr: "Clients MUST NOT inspect, parse, modify, or
// make any assumptions about the `requestState` contents."
func TestStateOfABackendPasses(t *testing.T) {
	tests := []struct{ name, state, sent string }{
		{"plain", `"state"`, `"state"`},
		{"escapes", `"st\u0061te\/"`, `"st\u0061te\/"`},
		{"empty", `""`, `""`},
		{"one of ours", `"sbp1.abc"`, `"sbm1.sbp1.abc"`},
		{"one of ours, sealed", `"sbs1.abc"`, `"sbm1.sbs1.abc"`},
		{"one of ours, to begin again", `"sba1.abc"`, `"sbm1.sba1.abc"`},
		{"marked twice", `"sbm1.sbp1.abc"`, `"sbm1.sbm1.sbp1.abc"`},
		{"one of ours in escapes", `"\u0073bp1.abc"`, `"sbm1.\u0073bp1.abc"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, echoState(tt.state), server.Config{}, func(s *site) {
				first := s.do(s.toolRequest(s.ctx(), ""))
				equal(t, "the question", first.body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":`+tt.sent+`}}`)
				got := s.tool(`,"requestState":` + tt.sent)
				equal(t, "the backend", got.Result.Text, "got "+tt.state)
			})
		})
	}
}

// A client may escape the mark differently.
func TestEscapedStateMark(t *testing.T) {
	bubble(t, echoState(`""`), server.Config{}, func(s *site) {
		got := s.tool(`,"requestState":"\u0073bm1.sbp1.\u00e9"`)
		equal(t, "the backend", got.Result.Text, `got "sbp1.é"`)
	})
}

// With authentication the state of a backend belongs to one principal and one request: no
// other can use it, even if the backend does not distinguish principals (Q8).
//
// Q8+ own: "The state of a backend is returned to that backend only, and only from the user
// that it was issued to."
//
// Q2- 2026-07-28 basic/patterns/mrtr: "the authenticated principal, rejecting state
// presented by a different principal."
//
// Q2- 2026-07-28 basic/patterns/mrtr: "a short expiry (TTL), rejecting state presented
// after it lapses;"
//
// S11+ 2026-07-28 tutorials/security/security_best_practices: "MCP servers **SHOULD**
// bind handles server-side to the authenticated user"
//
// S11- 2026-07-28 tutorials/security/security_best_practices: "MCP servers **MUST
// NOT** treat possession of a state handle as authentication."
func TestStateOfABackendIsSealed(t *testing.T) {
	ann, bob := headers{"Who": "ann"}, headers{"Who": "bob"}
	bubble(t, echoState(`"st\u0061te"`), server.Config{Authenticate: identified(byWhoHeader)}, func(s *site) {
		first := s.tool("", ann)
		if !strings.HasPrefix(first.Result.RequestState, "sbs1.") || strings.Contains(first.Result.RequestState, "state") {
			t.Fatalf("the state goes out as %q", first.Result.RequestState)
		}
		retry := retryParams(first, "")
		for name, got := range map[string]round{
			"another principal": s.tool(retry, bob),
			"other arguments":   s.tool(`,"arguments":{"a":1}`+retry, ann),
			"as it is":          s.tool(`,"requestState":"state"`, ann),
			"marked":            s.tool(`,"requestState":"sbm1.state"`, ann),
		} {
			if got.Error == nil || got.Error.Code != -32602 {
				t.Errorf("%s: %+v", name, got)
			}
		}
		// It is stateless, and may be used as often as the backend permits.
		for range 2 {
			equal(t, "the backend", s.tool(retry, ann).Result.Text, `got "st\u0061te"`)
		}
		s.advance(25 * time.Hour)
		if got := s.tool(retry, ann); got.Error == nil {
			t.Errorf("a day later: %+v", got)
		}
	})
}

// Any replica that has the keys can serve the retry, and one without cannot.
func TestStateKeys(t *testing.T) {
	a, b := bytes.Repeat([]byte("a"), 32), bytes.Repeat([]byte("b"), 32)
	ann := headers{"Who": "ann"}
	var retry string
	bubble(t, echoState(`"s"`), server.Config{Authenticate: identified(byWhoHeader), StateKeys: [][]byte{a}}, func(s *site) {
		retry = retryParams(s.tool("", ann), "")
	})
	for _, tt := range []struct {
		name string
		keys [][]byte
		want bool
	}{{"the same", [][]byte{a}, true}, {"a newer one first", [][]byte{b, a}, true}, {"another", [][]byte{b}, false}, {"a random one", nil, false}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, echoState(`"s"`), server.Config{Authenticate: identified(byWhoHeader), StateKeys: tt.keys}, func(s *site) {
				if got := s.tool(retry, ann); (got.Result.Text == `got "s"`) != tt.want {
					t.Errorf("the retry: %+v, want it taken: %t", got, tt.want)
				}
			})
		})
	}
}

func TestShortStateKeyIsAMistake(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New took it")
		}
	}()
	server.New(nil, server.Config{StateKeys: [][]byte{[]byte("short")}})
}

// The questions of a backend are checked before they are sent: the gateway is responsible
// for them.
//
// Q5- 2026-07-28 basic/patterns/mrtr: "Servers MUST NOT send an `inputRequests` that
// the client has not declared support for in its capabilities."
func TestQuestionsOfABackendAreChecked(t *testing.T) {
	const ask = `{"resultType":"input_required","inputRequests":`
	tests := []struct{ name, method, result, want string }{
		{"declared", "tools/call", ask + `{"a":{"method":"roots/list"}}}`, `"inputRequests"`},
		{"not declared", "tools/call", ask + `{"a":{"method":"x/y"}}}`, "-32601"},
		{"a list", "tools/call", ask + `[]}`, "1002"},
		{"null", "tools/call", ask + `null}`, "1002"},
		{"no params", "tools/call", ask + `{"a":{"method":"elicitation/create","params":[]}}}`, "1002"},
		{"nothing", "tools/call", `{"resultType":"input_required"}`, "1002"},
		{"elsewhere", "tools/list", ask + `{"a":{"method":"roots/list"}}}`, "1002"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := mcp.HandlerFunc(func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return result(tt.result) })
			bubble(t, h, server.Config{}, func(s *site) {
				body := strings.Replace(askableCall("1", `"name":"t"`), "tools/call", tt.method, 1)
				name := "t"
				if tt.method != "tools/call" {
					name = ""
				}
				if got := s.post(body, modernHeaders(tt.method, name)); !strings.Contains(got.body, tt.want) {
					t.Errorf("%s, want %s in it", got.body, tt.want)
				}
			})
		})
	}
	// "MissingRequiredClientCapability" has its own HTTP status.
	h := mcp.HandlerFunc(func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		return result(ask + `{"a":{"method":"sampling/createMessage","params":{}}}}`)
	})
	bubble(t, h, server.Config{}, func(s *site) {
		got := s.call("t") // declares nothing
		if got.status != 400 || !strings.Contains(got.body, `"requiredCapabilities":{"sampling":{}}`) {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// An error -32042 of a backend of 2025-11-25 becomes a question to a modern client. Its
// retry is a new request.
func TestURLElicitationError(t *testing.T) {
	const data = `{"elicitations":[{"mode":"url","message":"In","url":"https://x/1","elicitationId":"1"},{"mode":"url","message":"In","url":"https://x/2","elicitationId":"2"}]}`
	visit := func(data string) mcp.Handler {
		return tools(map[string]mcp.HandlerFunc{"t": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			if req.Params.Has(mcp.FieldRequestState) || req.Params.Has(mcp.FieldInputResponses) {
				return nil, errNotClean
			}
			return nil, &mcp.Error{Code: -32042, Message: "sign in", Data: []byte(data)}
		}})
	}
	bubble(t, visit(data), server.Config{Limits: server.Limits{Rounds: 2}}, func(s *site) {
		first := s.tool("")
		if first.keys() != "q1 q2" || string(first.Result.InputRequests["q2"].Params) != `{"mode":"url","message":"In","url":"https://x/2"}` {
			t.Fatalf("asked %+v", first)
		}
		s.wantParked(0)
		if got := s.tool(retryParams(first, `"q1":{"action":"accept"},"q2":{"action":"decline"}`)); got.Error == nil || !strings.Contains(got.Error.Message, "decline") {
			t.Errorf("after a decline: %+v", got)
		}
		if got := s.tool(`,"arguments":{}` + retryParams(first, ``)); got.Error == nil || got.Error.Code != -32602 {
			t.Errorf("another request: %+v", got)
		}
		second := s.tool(retryParams(first, `"q1":{"action":"accept"},"q2":{"action":"accept"}`))
		if second.keys() != "q1 q2" {
			t.Fatalf("asked again %+v", second)
		}
		if got := s.tool(retryParams(second, `"q1":{"action":"accept"},"q2":{"action":"accept"}`)); got.Error == nil || got.Error.Message != "sign in" {
			t.Errorf("a third time: %+v, want the error itself", got)
		}
	})
	for _, odd := range []string{`{}`, `{"elicitations":[]}`, `{"elicitations":[{"mode":"form"}]}`, `{"elicitations":[7]}`, `7`} {
		bubble(t, visit(odd), server.Config{}, func(s *site) {
			if got := s.tool(""); got.Error == nil || got.Error.Message != "sign in" {
				t.Errorf("%s: %+v, want the error itself", odd, got)
			}
		})
	}
	bubble(t, visit(data), server.Config{}, func(s *site) {
		if got := s.call("t"); !strings.Contains(got.body, `"message":"sign in"`) {
			t.Errorf("a client that cannot visit: %s", got.body)
		}
	})
}

var errNotClean = &mcp.Error{Code: 7, Message: "the retry is not as the request was"}
