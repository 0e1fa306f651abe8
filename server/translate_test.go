// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// fixedAnswers is a Handler that returns the same result or error for each call of a method,
// as a catalog does.
func fixedAnswers(t *testing.T, results map[string]string, errs map[string]*mcp.Error) mcp.Handler {
	t.Helper()
	made := map[string]*mcp.Result{"server/discover": {}}
	for method, text := range results {
		res, err := result(text)
		if err != nil {
			t.Fatal(err)
		}
		made[method] = res
	}
	return mcp.HandlerFunc(func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if err, ok := errs[req.Method]; ok {
			return nil, err
		}
		return made[req.Method], nil
	})
}

// A client receives results in the form of its revision.
func TestResultsByRevision(t *testing.T) {
	h := fixedAnswers(t, map[string]string{
		"tools/call":     `{"resultType":"complete","content":[{"type":"resource_link","uri":"x:y","name":"n"}],"structuredContent":[1.0]}`,
		"prompts/get":    `{"messages":[{"role":"user","content":{"type":"audio","data":"AA==","mimeType":"audio/wav"}}]}`,
		"resources/read": `{"contents":[],"ttlMs":5,"cacheScope":"public"}`,
	}, nil)
	const link = `{"type":"resource_link","uri":"x:y","name":"n"}`
	const asText = `{"type":"text","text":"n: x:y"}`
	const json = `{"type":"text","text":"[1.0]"}`
	const audio = `{"type":"audio","data":"AA==","mimeType":"audio/wav"}`
	prompt := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	for _, tt := range []struct{ version, call, prompt string }{
		{"2024-11-05", `{"content":[` + asText + `,` + json + `],"structuredContent":{"result":[1.0]}}`, prompt(`{"type":"resource","resource":{"uri":"cid:audio","blob":"AA==","mimeType":"audio/wav"}}`)},
		{"2025-03-26", `{"content":[` + asText + `,` + json + `],"structuredContent":{"result":[1.0]}}`, prompt(audio)},
		{"2025-06-18", `{"content":[` + link + `,` + json + `],"structuredContent":{"result":[1.0]}}`, prompt(audio)},
		{"2025-11-25", `{"content":[` + link + `,` + json + `],"structuredContent":{"result":[1.0]}}`, prompt(audio)},
	} {
		bubble(t, h, server.Config{}, func(s *site) {
			hs := s.handshake(opening(tt.version))
			answer := func(method string) string { return s.post(raw("1", method, `{"name":"x","uri":"x:y"}`), hs).body }
			equal(t, tt.version+" tools/call", answer("tools/call"), `{"jsonrpc":"2.0","id":1,"result":`+tt.call+`}`)
			equal(t, tt.version+" prompts/get", answer("prompts/get"), `{"jsonrpc":"2.0","id":1,"result":`+tt.prompt+`}`)
			equal(t, tt.version+" resources/read", answer("resources/read"), `{"jsonrpc":"2.0","id":1,"result":{"contents":[]}}`)
		})
	}
}

// A list is translated separately for each revision, however often it is requested, and a
// modern client in between receives it unmodified.
func TestListsByRevision(t *testing.T) {
	const icons, array = `,"icons":[{"src":"x:y"}]`, `,"outputSchema":{"type":"array"}`
	const wrapped = `,"outputSchema":{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}`
	list := func(members string) string {
		return `"tools":[{"name":"x","inputSchema":{"type":"object"}` + members + `}]`
	}
	h := fixedAnswers(t, map[string]string{"tools/list": `{"resultType":"complete","ttlMs":0,"cacheScope":"public",` + list(icons+array) + `}`}, nil)
	bubble(t, h, server.Config{}, func(s *site) {
		older, last := s.handshake(opening("2025-06-18")), s.handshake(opening("2025-11-25"))
		for range 3 {
			equal(t, "2025-06-18", s.post(raw("1", "tools/list", ""), older).body, `{"jsonrpc":"2.0","id":1,"result":{`+list(wrapped)+`}}`)
			equal(t, "2025-11-25", s.post(raw("1", "tools/list", ""), last).body, `{"jsonrpc":"2.0","id":1,"result":{`+list(icons+wrapped)+`}}`)
			got := s.post(modern("1", "tools/list", ""), modernHeaders("tools/list", "")).body
			equal(t, "2026-07-28", got, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public",`+list(icons+array)+`}}`)
		}
	})
}

// Many more lists than are cached, each of them new.
func TestManyDifferentLists(t *testing.T) {
	var names []string
	h := mcp.HandlerFunc(func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if req.Method != "tools/list" {
			return result(`{}`)
		}
		names = append(names, strings.Repeat("x", len(names)+1))
		return result(`{"tools":[{"name":"` + names[len(names)-1] + `"}],"ttlMs":1}`)
	})
	bubble(t, h, server.Config{}, func(s *site) {
		hs := s.session()
		for range 100 {
			got := s.post(raw("1", "tools/list", ""), hs).body
			equal(t, "list", got, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"`+names[len(names)-1]+`"}]}}`)
		}
	})
}

// An error has the code and the HTTP status of the client's era.
func TestErrorsByEra(t *testing.T) {
	missing := &mcp.Error{Code: mcp.CodeInvalidParams, Message: "no such resource", Data: []byte(`{"uri":"x:y"}`)}
	header := mcp.Errorf(mcp.CodeHeaderMismatch, "other headers, please")
	undefined := mcp.Errorf(-32050, "of a time to come")
	h := fixedAnswers(t, nil, map[string]*mcp.Error{"resources/read": missing, "tools/call": header, "prompts/get": undefined})
	wire := func(code, rest string) string {
		return `{"jsonrpc":"2.0","id":1,"error":{"code":` + code + `,"message":` + rest + `}}`
	}
	bubble(t, h, server.Config{}, func(s *site) {
		hs := s.session()
		for _, tt := range []struct {
			method, name   string
			legacy, modern string
			status         int // of the modern era
			message        string
		}{
			{"resources/read", "x:y", "-32002", "-32602", 200, `"no such resource","data":{"uri":"x:y"}`},
			{"tools/call", "x", "-32600", "-32020", 400, `"other headers, please"`},
			{"prompts/get", "x", "-32050", "-32603", 200, `"of a time to come"`},
		} {
			params := `"name":"` + tt.name + `","uri":"` + tt.name + `"`
			got := s.post(raw("1", tt.method, "{"+params+"}"), hs)
			equal(t, "legacy "+tt.method, got.body, wire(tt.legacy, tt.message))
			if got.status != 200 {
				t.Errorf("legacy %s: status %d", tt.method, got.status)
			}
			got = s.post(modern("1", tt.method, params), modernHeaders(tt.method, tt.name))
			equal(t, "modern "+tt.method, got.body, wire(tt.modern, tt.message))
			if got.status != tt.status {
				t.Errorf("modern %s: status %d, want %d", tt.method, got.status, tt.status)
			}
		}
	})
}

// The capabilities of a client are kept unmodified, whatever its revision defines.
// Extensions belong to the modern era.
func TestCapabilitiesOfClients(t *testing.T) {
	var seen []string
	h := mcp.HandlerFunc(func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if req.Method == "tools/call" {
			seen = append(seen, string(req.Client.Version)+" "+string(req.Client.Capabilities))
		}
		return result(`{}`)
	})
	bubble(t, h, server.Config{}, func(s *site) {
		for _, v := range []string{"2024-11-05", "2025-06-18", "2025-11-25"} {
			hs := s.handshake(raw("0", "initialize", `{"protocolVersion":"`+v+`","capabilities":{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}},"extensions":{"a/b":{}},"x-own":1.0},"clientInfo":{"name":"c","version":"1"}}`))
			s.post(raw("1", "tools/call", `{"name":"x"}`), hs)
		}
	})
	const capabilities = ` {"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}},"x-own":1.0}`
	want := []string{"2024-11-05" + capabilities, "2025-06-18" + capabilities, "2025-11-25" + capabilities}
	equal(t, "capabilities", strings.Join(seen, "\n"), strings.Join(want, "\n"))
}
