// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/server"
)

// nested returns an object of that many levels.
func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat(`}`, depth-1)
}

// wide returns an object of that many members.
func wide(members int) string {
	return `{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, members), ",") + `}`
}

// FAULTS 8, 13: the error for an exceeded limit names the key that raises it, in every era
// and on every transport; a message that just fits is served.
func TestLimitsOfAMessage(t *testing.T) {
	limits := server.Limits{Depth: 10, Members: 30, Batch: 3}
	depth := "nesting is deeper than 10 at byte 94; send a flatter message (limits.depth)"
	members := "the message has too many members at byte 205; send a smaller message (limits.members)"
	tests := []struct{ name, body, want string }{
		{"as deep as may be", raw("1", "ping", nested(9)), ""},
		{"one deeper", raw("1", "ping", nested(10)), wireError("1", "-32600", depth)},
		{"as many members as may be", raw("1", "ping", `{"x":`+wide(25)+`}`), ""},
		{"one more", raw("1", "ping", `{"x":`+wide(26)+`}`), wireError("1", "-32600", members)},
	}
	bubble(t, tools(nil), server.Config{Limits: limits}, func(s *site) {
		sess := s.session()
		for _, tt := range tests {
			got := s.post(tt.body, sess)
			if tt.want == "" {
				equal(t, tt.name, got.body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
				continue
			}
			equal(t, tt.name, got.body, tt.want)
			equal(t, tt.name+", without a session", s.post(tt.body).body, tt.want)
			if got.status != 400 {
				t.Errorf("%s: status %d, want 400", tt.name, got.status)
			}
		}
	})
	pipes(t, tools(nil), server.Config{Limits: limits}, func(c *console) {
		for _, tt := range tests {
			c.send(tt.body)
			if tt.want == "" {
				tt.want = `{"jsonrpc":"2.0","id":1,"result":{}}`
			}
			c.expect(tt.want)
		}
	})
}

// J11, FAULTS 13: a batch may have a limited number of messages, and its messages share the
// limit of members.
func TestLimitsOfABatch(t *testing.T) {
	limits := server.Limits{Members: 30, Batch: 3}
	ping := raw("1", "ping", "")
	tests := []struct{ name, body, want string }{
		{"one more message", "[" + strings.Repeat(ping+",", 3) + ping + "]",
			"the batch has more than 3 messages at byte 124; send fewer at once (limits.batch)"},
		{"members of all together", "[" + raw("1", "ping", wide(14)) + "," + raw("2", "ping", wide(14)) + "]",
			"the message has too many members at byte 235; send a smaller message (limits.members)"},
	}
	bubble(t, tools(nil), server.Config{Limits: limits}, func(s *site) {
		sess := s.handshake(opening("2025-03-26"))
		for _, tt := range tests {
			got := s.post(tt.body, sess)
			equal(t, tt.name, got.body, invalid(tt.want))
			if got.status != 400 {
				t.Errorf("%s: status %d, want 400", tt.name, got.status)
			}
		}
		if got := s.post("["+ping+","+strings.ReplaceAll(ping, "1", "2")+","+strings.ReplaceAll(ping, "1", "3")+"]", sess); len(got.events(t)) != 3 {
			t.Errorf("a batch of three: %d %s; want three answers", got.status, got.body)
		}
	})
	pipes(t, tools(nil), server.Config{Limits: limits}, func(c *console) {
		c.send(opening("2025-03-26"))
		c.next()
		for _, tt := range tests {
			c.send(tt.body)
			c.expect(invalid(tt.want))
		}
	})
}

// An error that is not about a limit names none.
func TestOtherErrorsNameNoLimit(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"ping"`,
			`{"jsonrpc":"2.0","id":1,"method":"ping","nesting is deeper than ":1,"nesting is deeper than ":1}`,
			`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2000) + `","method":"ping"}`,
			`{"jsonrpc":"2.0","id":1,"method":"ping","` + strings.Repeat("x", 70_000) + `":1}`,
		} {
			if got := s.post(body); got.status != 400 || strings.Contains(got.body, "limits.") {
				t.Errorf("%.60s: %d %s; want 400 without a key", body, got.status, got.body)
			}
		}
	})
}

// DELIVERY 5.7: an exceeded limit is reported with its key, to the client and as an event.
// A failed authentication is not an oversized header.
//
// H13- seps 2243-http-standardization: "Deployments SHOULD reject requests with
// oversized or excessive headers early in the pipeline — before performing Base64
// decoding or body parsing — to mitigate denial-of-service risks from crafted
// payloads."
func TestLimitsOfRequests(t *testing.T) {
	w := &watcher{}
	cfg := server.Config{Observe: w.observe, Limits: server.Limits{RequestBody: 2000, RequestHeaders: 1000, Depth: 10, Members: 30}}
	deep := raw("1", "tools/call", `{"x":`+strings.Repeat("[", 20)+strings.Repeat("]", 20)+"}")
	tests := []struct {
		name   string
		body   string
		header headers
		status int
		key    string
		kind   server.EventKind
	}{
		{"body", strings.Repeat(" ", 2001), nil, 413, "limits.requestBody", server.Limited},
		{"header", raw("1", "ping", ""), headers{"X-Mine": strings.Repeat("x", 1000)}, 431, "limits.requestHeaders", server.Limited},
		{"encoded header", "no message", headers{"Mcp-Name": "=?base64?" + strings.Repeat("!", 1000) + "?="}, 431, "limits.requestHeaders", server.Limited},
		{"many headers", raw("1", "ping", ""), headers{"X-A": strings.Repeat("x", 400), "X-B": strings.Repeat("x", 400), "X-C": strings.Repeat("x", 400)}, 431, "limits.requestHeaders", server.Limited},
		{"token", raw("1", "ping", ""), headers{"Authorization": "Bearer " + strings.Repeat("x", 1000)}, 401, "limits.requestHeaders", server.Unauthenticated},
		{"depth", deep, nil, 400, "limits.depth", server.Limited},
	}
	bubble(t, tools(nil), cfg, func(s *site) {
		for _, tt := range tests {
			r := s.post(tt.body, tt.header)
			if r.status != tt.status || !strings.Contains(r.body, "("+tt.key+")") {
				t.Errorf("%s: %d %s; want %d and (%s)", tt.name, r.status, r.body, tt.status, tt.key)
			}
			w.wantOnly(t, tt.name, server.Event{Kind: tt.kind, Remote: connection, Detail: tt.key})
		}
		if r := s.post(initialize, headers{"X-Mine": strings.Repeat("x", 600)}); r.status != 200 {
			t.Errorf("below the limit: %d %s", r.status, r.body)
		}
	})
}
