// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// bench is a server that records calls. It lists two tools on two pages, and one that
// cannot be called.
type bench struct {
	mu       sync.Mutex
	called   []string
	revision mcp.Version // of the last list request
}

func (b *bench) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
	case "tools/list":
		b.revision = req.Client.Version
		if _, ok := req.Params.Text(mcp.FieldCursor); ok {
			return mcp.NewResult([]byte(`{"tools":[{"name":"test_reconnection","inputSchema":{"type":"object"}}]}`))
		}
		return mcp.NewResult([]byte(`{"nextCursor":"","tools":[{"name":"add_numbers","inputSchema":{"type":"object"}},` +
			`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}}]}`))
	case "tools/call":
		return b.call(ctx, req, caller)
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
}

// call asks for input before it responds, and fails for the tool that must fail.
func (b *bench) call(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	name, _ := req.Params.Text(mcp.FieldName)
	ask, err := mcp.NewRequest("elicitation/create", []byte(`{"message":"?","requestedSchema":{"type":"object","properties":{"n":{"type":"number","default":1.0},"s":{"type":"string"}}}}`))
	if err != nil {
		return nil, err
	}
	answer, err := mcp.Ask(ctx, caller, ask)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.called = append(b.called, fmt.Sprintf("%s %s %s", name, req.Params.Raw(mcp.FieldArguments), answer.Bytes()))
	return mcp.NewResult(fmt.Appendf(nil, `{"content":[],"isError":%v}`, strings.Contains(string(req.Params.Bytes()), "fail")))
}

// TestScenarios plays some of them without the suite: every page is read, a tool that
// cannot be called is not called, and a form is filled in with its defaults, unmodified.
func TestScenarios(t *testing.T) {
	const answer = ` {"action":"accept","content":{"n":1.0}}`
	tests := []struct {
		scenario, given string
		called          []string
		err             string
	}{
		{"initialize", "", nil, ""},
		{"tools_call", "", []string{`add_numbers {"a":5,"b":3}` + answer}, ""},
		{"sse-retry", "", []string{`test_reconnection {}` + answer}, ""},
		{"sep-2322-client-request-state", "", []string{`add_numbers {}` + answer, `test_reconnection {}` + answer}, ""},
		{"http-invalid-tool-headers", "", []string{`add_numbers {"region":"us-west1"}` + answer, `test_reconnection {"region":"us-west1"}` + answer}, ""},
		{"http-custom-headers", `{"toolCalls":[{"name":"x","arguments":{"b":1.50,"a":null}}]}`, []string{`x {"b":1.50,"a":null}` + answer}, ""},
		{"http-custom-headers", `{"toolCalls":[{"name":"x","arguments":{"a":"fail"}}]}`, []string{`x {"a":"fail"}` + answer}, "the tool reported an error"},
		{"http-custom-headers", `?`, nil, envContext},
		{"json-schema-2020-12-preservation", "", nil, `no tool "json_schema_2020_12_tool"`},
		{"elicitation-sep1034-client-defaults", "", nil, "no tool"},
		{"http-standard-headers", "", nil, "resources/list"},
		{"auth/basic-cimd", "", []string{`test-tool {}` + answer}, ""}, // of a server without authorization
		{"basic-cimd", "", nil, "is unknown; known are auth/*"},
	}
	for _, tt := range tests {
		t.Run(tt.scenario, func(t *testing.T) {
			b := &bench{}
			getenv := func(key string) string {
				return map[string]string{envScenario: tt.scenario, envContext: tt.given}[key]
			}
			err := run(t.Context(), []string{shown(t, b)}, getenv)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if slices.Sort(b.called); !slices.Equal(b.called, tt.called) {
				t.Errorf("called %q, want %q", b.called, tt.called)
			}
		})
	}
}

// TestRevision uses a given revision with a server that supports all of them.
func TestRevision(t *testing.T) {
	for _, revision := range []string{"2025-03-26", "2025-11-25", "2026-07-28"} {
		b := &bench{}
		if err := run(t.Context(), []string{"-revision", revision, shown(t, b)}, scene("initialize")); err != nil {
			t.Errorf("%s: %v", revision, err)
		}
		if string(b.revision) != revision {
			t.Errorf("it speaks %q, want %q", b.revision, revision)
		}
	}
}

// TestArguments refuses to start without exactly one URL, or with an unknown revision.
func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"a", "b"}, {"-revision", "2000-01-01", "a"}, {"-x", "a"}} {
		if err := run(t.Context(), args, scene("initialize")); err == nil {
			t.Errorf("%q were taken", args)
		}
	}
}
