// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// replica returns a replica: another server with the same Handler, in the same bubble, and a
// function that ends it.
func (s *site) replica(h mcp.Handler, cfg server.Config) (o *site, end func()) {
	s.t.Helper()
	o = &site{t: s.t, server: server.New(h, cfg), net: memnet.Listen()}
	o.http = &http.Server{Handler: o.server}
	o.tr = o.net.Transport()
	o.client = &http.Client{Transport: o.tr}
	served := make(chan error, 1)
	go func() { served <- o.http.Serve(o.net) }() // ends with end, which waits for it
	return o, func() {
		if err := o.server.Close(); err != nil {
			s.t.Errorf("Close: %v", err)
		}
		o.tr.CloseIdleConnections()
		_ = o.http.Close()
		<-served
	}
}

// The state of a parked request is redeemed once, on whichever replica and however often it
// is sent: a replica with the same keys does not have the request, and starts none in its
// place.
//
// Q3- 2026-07-28 basic/patterns/mrtr: "Servers for which a given `requestState` must be
// consumed at most once (e.g., one-time redemptions) MUST enforce that invariant
// server-side."
func TestStateIsRedeemedOnceAmongReplicas(t *testing.T) {
	d := new(parkTool)
	cfg := server.Config{StateKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}, Authenticate: identified(byWhoHeader)}
	ann := headers{"Who": "ann"}
	bubble(t, d.askOnce(), cfg, func(s *site) {
		other, end := s.replica(d.askOnce(), cfg)
		defer end()
		retry := retryParams(s.tool("", ann), `"q1":`+roots)
		var replies []<-chan reply
		for range 4 {
			replies = append(replies, other.async(other.toolRequest(s.ctx(), retry, ann)), s.async(s.toolRequest(s.ctx(), retry, ann)))
		}
		won := 0
		for _, r := range replies {
			if got := readRound(t, (<-r).body); got.Result.Text == "done" {
				won++
			} else if got.Error == nil || got.Error.Code != -32602 {
				t.Errorf("a retry got %+v", got)
			}
		}
		if won != 1 || d.runs.Load() != 1 {
			t.Errorf("%d retries won, and the tool ran %d times; want once", won, d.runs.Load())
		}
	})
}

// A result that asks for input is not cacheable and has no cache hints, even for methods
// that have them.
//
// Q7+ 2026-07-28 server/utilities/caching: "are not cacheable and carry no caching
// hints."
func TestQuestionsHaveNoCacheHints(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"resources/read": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if err := askRoots(ctx, c); err != nil {
			return nil, err
		}
		return result(`{"contents":[]}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		read := func(more string) string {
			body := strings.Replace(askableCall("1", `"uri":"x:y"`+more), "tools/call", "resources/read", 1)
			return s.post(body, modernHeaders("resources/read", "x:y")).body
		}
		first := read("")
		if !strings.Contains(first, `"resultType":"input_required"`) || strings.Contains(first, "ttlMs") || strings.Contains(first, "cacheScope") {
			t.Errorf("the question: %s; want no hints", first)
		}
		equal(t, "the answer", read(retryParams(readRound(t, first), `"q1":`+roots)),
			`{"jsonrpc":"2.0","id":1,"result":{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}}`)
	})
}

// A state of one backend is sent to no other, nor to another tool of the same backend,
// although all are called with one credential: if principals are known, and if they are not
// and there are keys to seal with.
//
// Q8- own: "The state of a backend is returned to that backend only, and only from the user
// that it was issued to."
func TestStateGoesToNoOtherBackend(t *testing.T) {
	var reached []string
	h := mcp.HandlerFunc(func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		name, _ := req.Params.Text(mcp.FieldName)
		reached = append(reached, req.Method+" "+name)
		return result(`{"resultType":"input_required","requestState":"theirs"}`)
	})
	ann, bob := headers{"Who": "ann"}, headers{"Who": "bob"}
	foreign := func(s *site, anonymous bool) {
		send := func(method, name, more string, who headers) string {
			body := strings.Replace(askableCall("1", `"name":"`+name+`"`+more), "tools/call", method, 1)
			return s.post(body, modernHeaders(method, name), who).body
		}
		state := retryParams(readRound(t, send("tools/call", "a__x", "", ann)), "")
		reached = nil
		for _, to := range []struct {
			method, name string
			who          headers
		}{
			{"tools/call", "b__x", ann}, {"tools/call", "a__y", ann}, {"prompts/get", "a__x", ann}, {"tools/call", "a__x", bob}, {"tools/call", "b__x", bob},
		} {
			if anonymous && to.name == "a__x" && to.who["Who"] == "bob" {
				continue // all clients are one there
			}
			if got := readRound(t, send(to.method, to.name, state, to.who)); got.Error == nil || got.Error.Code != -32602 {
				t.Errorf("%s %s of %s: %+v", to.method, to.name, to.who["Who"], got)
			}
		}
		if len(reached) != 0 {
			t.Errorf("%q were reached with the state of another", reached)
		}
		if send("tools/call", "a__x", state, ann); len(reached) != 1 {
			t.Errorf("with its own state %q was reached", reached)
		}
	}
	bubble(t, h, server.Config{Authenticate: identified(byWhoHeader)}, func(s *site) { foreign(s, false) })
	bubble(t, h, server.Config{StateKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}}, func(s *site) { foreign(s, true) })
}
