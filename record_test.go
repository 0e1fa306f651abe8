// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// outcomeServer offers one of each kind of item that can be called, and each outcome of
// a call.
func outcomeServer() mcp.Handler {
	fails := func(name string, err error) mux.Tool {
		return mux.Tool{Name: name, Call: func(context.Context, *mux.Call) (*mux.Result, error) { return nil, err }}
	}
	m := mux.New(
		mux.Tool{Name: "buy", Call: func(context.Context, *mux.Call) (*mux.Result, error) {
			time.Sleep(1500 * time.Microsecond)
			return mux.Say("a secret result"), nil
		}},
		fails("broken", mux.Errorf("a secret complaint")),
		fails("barred", mcp.Errorf(-32099, "a secret refusal")),
		fails("far", &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Message: "a secret address"}),
		fails("odd", errors.New("a secret of the backend")),
		mux.Tool{Name: "panics", Call: func(context.Context, *mux.Call) (*mux.Result, error) { panic("a secret panic") }},
		mux.Tool{Name: "waits", Call: func(ctx context.Context, _ *mux.Call) (*mux.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		fails("asks", nil), fails("begins", nil), // below
	)
	said := map[string]string{
		"asks":   `{"resultType":"input_required","requestState":"a secret state"}`,
		"begins": `{"resultType":"task","taskId":"a secret id","status":"working"}`,
	}
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		name, _ := req.Params.Text(mcp.FieldName)
		if raw, ok := said[name]; ok && req.Method == "tools/call" {
			return mcp.NewResult([]byte(raw))
		}
		return m.Serve(ctx, req, caller)
	})
}

// recordOf reads the calls of a record, each as the texts of some members.
func recordOf(t *testing.T, path string, members ...string) []string {
	t.Helper()
	var calls []string
	for line := range strings.Lines(readFile(t, path)) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if e["event"] != "call" {
			continue
		}
		if strings.Contains(line, "secret") {
			t.Errorf("%s contains data of the call", line)
		}
		var texts []string
		for _, m := range members {
			if v, ok := e[m]; ok {
				texts = append(texts, fmt.Sprint(v))
			}
		}
		calls = append(calls, strings.Join(texts, " "))
	}
	return calls
}

// withRecord returns a gateway with a record, before an outcomeServer.
func withRecord(t *testing.T) (g *signalbox.Gateway, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.jsonl")
	var cfg config.Config
	cfg.Audit.File = path
	return gatewaytest.New(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "shop", Handler: outcomeServer()}}}), path
}

// request is a request of the principal ann, with the client name inspector.
func request(t *testing.T, method, params string) *mcp.Request {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	req.Principal = "ann"
	req.Client = &mcp.Peer{
		Version: mcp.LatestModern, Info: []byte(`{"name":"inspector","version":"1"}`), Capabilities: []byte(`{"elicitation":{}}`),
	}
	req.TakesInputRequired = true
	return req
}

// However a call ends, the record has one line with its outcome; none contains any of
// its content.
//
// X3- 2026-07-28 server/tools: "Log tool usage for audit purposes"
func TestNoCallIsMissingInTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, path := withRecord(t)
		if _, err := g.Serve(t.Context(), request(t, "tools/list", `{}`), nil); err != nil { // the backend is known
			t.Fatal(err)
		}
		var want []string
		for _, tt := range []struct{ method, params, want string }{
			{"tools/call", `{"name":"shop__buy","arguments":{"card":"a secret number"}}`, "shop__buy shop ok 1.5"},
			{"tools/call", `{"name":"shop__broken"}`, "shop__broken shop tool_error 0"},
			{"tools/call", `{"name":"shop__barred"}`, "shop__barred shop error -32099 0"},
			{"tools/call", `{"name":"shop__far"}`, "shop__far shop failed 1001 not_dispatched 0"},
			{"tools/call", `{"name":"shop__odd"}`, "shop__odd shop failed -32603 unknown 0"},
			{"tools/call", `{"name":"shop__panics"}`, "shop__panics shop failed 1002 unknown 0"},
			{"tools/call", `{"name":"shop__asks"}`, "shop__asks shop input_required 0"},
			{"tools/call", `{"name":"shop__begins"}`, "shop__begins shop task 0"},
			{"tools/call", `{"name":"shop__waits"}`, "shop__waits shop failed 1003 unknown 60000"},
			{"tools/call", `{"name":"shop__waits","_meta":{"cancelled":true}}`, "shop__waits shop cancelled -32603 unknown 10000"},
			{"tools/call", `{"name":"shop__\"gone\"\n` + strings.Repeat("x", 1000) + `"}`, `shop__\"gone\"\n` + strings.Repeat("x", 183) + "  error -32602 0"},
			{"tools/call", `{}`, "  error -32602 0"},
			{"prompts/get", `{"name":"shop__nosuch"}`, "shop__nosuch  error -32602 0"},
			{"resources/read", `{"uri":"https://me:secret@x.example/a?key=secret#secret"}`, "https://x.example/a  error -32002 0"},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			if strings.Contains(tt.params, "cancelled") {
				time.AfterFunc(10*time.Second, cancel)
			}
			_, _ = g.Serve(ctx, request(t, tt.method, tt.params), nil) // the record has the outcome
			cancel()
			want = append(want, tt.want)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(recordOf(t, path, "name", "backend", "outcome", "code", "delivery", "durationMs"), want); diff != "" {
			t.Errorf("calls (-got +want):\n%s", diff)
		}
	})
}

// The record identifies the caller, for clients of either era: by principal, client
// name, session if there is one, and trace.
//
// X3+ 2026-07-28 server/tools: "Log tool usage for audit purposes"
func TestRecordNamesTheCaller(t *testing.T) {
	cfg, path := auditedConfig(t)
	g := gatewaytest.New(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "shop", Handler: outcomeServer()}}})
	const ann, bob = "Bearer token-of-ann", "Bearer token-of-bob"
	session := post(g, initializeMessage, "Authorization", ann).Header.Get("Mcp-Session-Id")
	const legacy = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shop__buy"}}`
	const modern = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shop__buy","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"m","version":"\u202e2"},` +
		`"io.modelcontextprotocol/clientCapabilities":{},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}`
	for _, res := range []*http.Response{
		post(g, legacy, "Authorization", ann, "Mcp-Session-Id", session),
		post(g, modern, "Authorization", bob, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "shop__buy"),
		post(g, strings.Replace(modern, "00-0af", "00-xyz", 1), "Authorization", bob, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "shop__buy"),
	} {
		if res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	got := recordOf(t, path, "principal", "session", "client", "method", "name", "outcome", "trace")
	key, _, _ := strings.Cut(strings.TrimPrefix(got[0], "ann "), " ")
	want := []string{
		"ann " + key + " t 1 tools/call shop__buy ok",
		`bob  m \u202e2 tools/call shop__buy ok 0af7651916cd43dd8448eb211c80319c`,
		`bob  m \u202e2 tools/call shop__buy ok`,
	}
	if diff := cmp.Diff(got, want); diff != "" || key == "" || key == session {
		t.Errorf("session %q; calls (-got +want):\n%s", key, diff)
	}
}
