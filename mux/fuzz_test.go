// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// everyMethod are the methods that a Mux serves, and one that it does not.
var everyMethod = []string{
	"server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read",
	"prompts/list", "prompts/get", "completion/complete", "tasks/get", "tasks/update", "tasks/cancel", "nothing",
}

// fullMux has one item of every kind.
func fullMux(t testing.TB) *Mux {
	m := New(
		Tool{Name: "x", Call: interview},
		Tool{Name: "b", InputSchema: `{"type":"object","required":["name"]}`, Task: TaskOptional, Call: Bound(func(ctx context.Context, call *Call, in greetee) (*Result, error) {
			return call.Background(ctx, Always(Say("%v", in)))
		})},
		note("x:y"), Template{URI: "t:{a}/{+b}", Name: "t", Read: note("").Read, Complete: map[string]Completer{"a": noCompletions}},
		verse("v", Argument{Name: "a", Complete: noCompletions}, Argument{Name: "r", Required: true}))
	m.PageSize = 1
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// Any request has a result that is a JSON object, or an error of the protocol, never an
// unexpected error.
func FuzzServe(f *testing.F) {
	for _, params := range []string{
		``, `{}`, `{"name":"x"}`, `{"name":"b","arguments":{"name":"Ada","times":1e3}}`, `{"name":"b","arguments":{"name":"a","name":"b"}}`, `{"name":"b","arguments":"\ud800"}`,
		`{"uri":"t:a/b%2F"}`, `{"uri":"x:y"}`, `{"cursor":"AQ"}`, `{"cursor":"gICAgICAgICA_w"}`, `{"taskId":"x","inputResponses":{}}`,
		`{"name":"x","requestState":"AAAA","inputResponses":{"who":` + ada + `}}`, `{"name":"x","inputResponses":{"who":{"action":"accept","content":null}}}`,
		`{"name":"v","arguments":{"r":"","a":null}}`, `{"ref":{"type":"ref/prompt","name":"v"},"argument":{"name":"a","value":"x"},"context":{"arguments":[]}}`,
		`{"ref":{"type":"ref/resource","uri":"t:{a}/{+b}"},"argument":{"name":"a","value":""}}`,
	} {
		for i := range everyMethod {
			f.Add(uint8(i), params)
		}
	}
	m := fullMux(f)
	f.Fuzz(func(t *testing.T, method uint8, params string) {
		req, err := mcp.NewRequest(everyMethod[int(method)%len(everyMethod)], []byte(params))
		if err != nil {
			return // which the edge rejects
		}
		req.Client = &mcp.Peer{Version: mcp.LatestModern, Capabilities: []byte(everything)}
		req.TakesInputRequired = true
		res, err := m.Serve(t.Context(), req, &recorder{})
		if _, ok := errors.AsType[*mcp.Error](err); err != nil && !ok {
			t.Errorf("%s %s: %v is no error of the protocol", req.Method, params, err)
		}
		var object map[string]json.RawMessage
		if err == nil && (json.Unmarshal(res.Bytes(), &object) != nil || object == nil) {
			t.Errorf("%s %s: the result is %s", req.Method, params, res.Bytes())
		}
	})
}

// A URI made from a template and values is matched with the same values.
func FuzzPattern(f *testing.F) {
	f.Add("x:{a}/{+b}", "1", "2/3")
	f.Add("{a}", "ä/ö", "")
	f.Add("x:{+a}-{b}.txt", "1-2", "{}%")
	f.Fuzz(func(t *testing.T, template, a, b string) {
		p, err := parsePattern(template)
		if err != nil || a == "" || b == "" {
			return
		}
		values, uri := map[string]string{}, p.texts[0]
		for i, name := range p.names {
			value := map[bool]string{true: a, false: b}[i%2 == 0]
			values[name] = value
			uri += url.PathEscape(value) + p.texts[i+1]
		}
		got, ok := p.vars(uri)
		if len(values) < len(p.names) || ambiguous(p, a+b) {
			return // a duplicate name, or a value that contains the text after it
		}
		for name, want := range values {
			if !ok || got[name] != want {
				t.Errorf("%q makes %q of %q and %q, and reads %q, %v", template, uri, a, b, got, ok)
			}
		}
	})
}

// ambiguous reports whether a text between two variables may be part of a value.
func ambiguous(p pattern, values string) bool {
	escaped := url.PathEscape(values)
	for i, text := range p.texts[1:] {
		if i+1 < len(p.names) && (strings.ContainsAny(escaped, text) || text == "") {
			return true
		}
	}
	return false
}
