// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// No id is used twice in a session, whether the first request with it was answered,
// refused or cancelled, and whatever ids the gateway's clients use.
//
// J3+ 2025-11-25 basic/index: "The request ID **MUST NOT** have been previously used
// by the requestor within the same session."
func TestIDsAreUsedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["prompts/get"] = func(x *faultyserver.Exchange) { x.Error(-32602, "no") }
		s.On["resources/read"] = func(x *faultyserver.Exchange) { x.Hold() }
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		var all sync.WaitGroup
		for range 20 {
			for method, params := range map[string]string{"tools/call": `{"name":"x"}`, "prompts/get": `{"name":"x"}`, "resources/read": `{"uri":"x:"}`} {
				all.Go(func() { _, _ = within(t, c, in(scope, request(t, method, params)), &recorder{}) })
			}
		}
		all.Wait()
		ids := map[string]string{}
		for _, r := range s.Seen() {
			m, err := mcp.Parse([]byte(r.Body), mcp.Limits{})
			if err != nil || m.ID.IsZero() || m.Method == "server/discover" {
				continue // a GET, a notification, or the probe that comes before the session
			}
			if first, ok := ids[m.ID.String()]; ok {
				t.Errorf("%s has the id %s, which %s had", m.Method, m.ID, first)
			}
			ids[m.ID.String()] = m.Method
		}
		if n := s.Count("initialize"); n != 1 || len(ids) != 61 {
			t.Errorf("%d sessions, %d requests; want one, and what was asked of it", n, len(ids))
		}
	})
}

// A result of an unknown type is invalid in either era, for calls and for lists. A
// client that declared an extension knows the types of that extension.
//
// J8- 2026-07-28 basic/index: "A `resultType` of any value unrecognized by the client
// **MUST** be considered invalid."
func TestUnknownResultType(t *testing.T) {
	for _, tt := range []struct {
		name, kind, caps string
		modern, ok       bool
	}{
		{"complete", `"complete"`, `{}`, true, true},
		{"unknown", `"partial"`, `{}`, true, false},
		{"unknown to a legacy client", `"partial"`, `{}`, false, false},
		{"another case", `"Complete"`, `{}`, true, false},
		{"empty", `""`, `{}`, true, false},
		{"null", `null`, `{}`, true, false},
		{"no string", `["complete"]`, `{}`, true, false},
		{"of the client's extension", `"partial"`, `{"extensions":{"x/y":{}}}`, true, true},
		{"of no extension of the client's", `"partial"`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, true, false},
		{"of an extension that no legacy client has", `"partial"`, `{"extensions":{"x/y":{}}}`, false, false},
	} {
		for method, params := range map[string]string{"tools/call": `{"name":"x"}`, "prompts/list": `{}`} {
			t.Run(fmt.Sprintf("%s/%s", tt.name, method), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){method: func(x *faultyserver.Exchange) {
						x.Result(`{"content":[],"resultType":` + tt.kind + `}`)
					}}}
					req := request(t, method, params)
					req.TakesInputRequired = tt.modern
					req.Client = &mcp.Peer{Capabilities: []byte(tt.caps)}
					res, err := within(t, dialHTTP(t, s, client.Config{}), req, &recorder{})
					if tt.ok {
						wantResult(t, res, err, `{"content":[],"resultType":`+tt.kind+`}`)
						return
					}
					wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "unknown type")
				})
			})
		}
	}
}

// The same holds for a legacy server. Its results have no types, but its resultType
// once reached a modern client and asked it for input that nothing waited for. A legacy
// server may spell out the type "complete".
//
// J8+ 2026-07-28 basic/index: "For backward compatibility with servers implementing
// earlier protocol versions, which do not include `resultType`, clients **MUST** treat an
// absent `resultType` as `"complete"`."
//
// J8- 2026-07-28 basic/index: "A `resultType` of any value unrecognized by the client
// **MUST** be considered invalid."
func TestResultTypeOfALegacyServer(t *testing.T) {
	for kind, ok := range map[string]bool{
		``: true, `,"resultType":"complete"`: true, `,"resultType":"partial"`: false, `,"resultType":null`: false,
		`,"resultType":"input_required","requestState":"s"`: false, `,"resultType":"task","taskId":"t","status":"working"`: false,
	} {
		for _, modern := range []bool{false, true} {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Result(`{"content":[]` + kind + `}`) }
				req := echo(t)
				req.TakesInputRequired = modern
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				res, err := within(t, dialHTTP(t, s, client.Config{}), in(scope, req), &recorder{})
				if ok {
					wantResult(t, res, err, `{"content":[]`+kind+`}`)
					return
				}
				wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "unknown type")
			})
		}
	}
}

// An unanswered ping of ours is waited for only so long, and does not end the session,
// because the server has not reported its loss.
//
// S12- 2025-11-25 basic/utilities/ping: "If no response is received within a
// reasonable timeout period, the sender **MAY**:"
func TestUnansweredPing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Error(-32001, "Session not found") }
		s.On["ping"] = func(x *faultyserver.Exchange) { x.Hold() }
		c := dialHTTP(t, s, client.Config{Write: 7 * time.Second})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		for range 2 {
			began := time.Now()
			_, err := within(t, c, in(scope, echo(t)), &recorder{})
			wantError(t, err, -32001)
			if took := time.Since(began); took > 7*time.Second {
				t.Errorf("the call took %v, want no more than the wait for the ping", took)
			}
			<-time.After(8 * time.Second)
		}
		if pings, sessions := s.Count("ping"), s.Count("initialize"); pings != 2 || sessions != 1 {
			t.Errorf("%d pings in %d sessions, want 2 in the one", pings, sessions)
		}
	})
}
