// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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

// auditedConfig is a configuration with two principals and an audit file.
func auditedConfig(t *testing.T) (cfg config.Config, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.jsonl")
	cfg.Audit.File = path
	for _, name := range []string{"ann", "bob"} {
		cfg.Auth.Tokens = append(cfg.Auth.Tokens, config.Token{Principal: name, Value: config.NewSecret("token-of-" + name)})
	}
	return cfg, path
}

// post sends one message to the endpoint.
func post(g http.Handler, body string, header ...string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w.Result()
}

const (
	pingMessage       = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	initializeMessage = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
)

// auditOf reads the events of a record as "event principal detail", and fails on an
// incomplete line or one that contains a secret. recordOf reads the calls.
func auditOf(t *testing.T, path string, secrets ...string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(readFile(t, path)) {
		var e map[string]string
		if strings.Contains(line, `,"event":"call",`) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || len(e) != 6 {
			t.Errorf("%q has %d members: %v", line, len(e), err)
		}
		for _, secret := range secrets {
			if strings.Contains(line, secret) {
				t.Errorf("%s holds %s", line, secret)
			}
		}
		lines = append(lines, strings.TrimSpace(e["event"]+" "+e["principal"]+" "+e["detail"]))
	}
	return lines
}

// Each security event is one line of the file; ordinary events are not in it. No line
// contains a token or a session id.
func TestAuditFileHasTheEvents(t *testing.T) {
	cfg, path := auditedConfig(t)
	g := gatewaytest.New(t, cfg, signalbox.Options{})
	const ann, bob = "Bearer token-of-ann", "Bearer token-of-bob"
	session := post(g, initializeMessage, "Authorization", ann).Header.Get("Mcp-Session-Id")
	for _, tt := range []struct {
		header []string
		want   int
	}{
		{[]string{"Authorization", ann, "Host", "evil.example"}, 403},
		{[]string{"Authorization", ann, "Origin", "https://evil.example"}, 403},
		{[]string{"Authorization", "Bearer token-of-nobody"}, 401},
		{nil, 401},
		{[]string{"Authorization", bob, "Mcp-Session-Id", session}, 404},
		{[]string{"Authorization", bob, "Mcp-Session-Id", "MADEUPMADEUPMADEUPMADEUPMA"}, 404},
		{[]string{"Authorization", ann, "Mcp-Session-Id", session}, 200},
	} {
		if got := post(g, pingMessage, tt.header...).StatusCode; got != tt.want {
			t.Fatalf("%q: %d, want %d", tt.header, got, tt.want)
		}
	}
	if got := operate(g, http.MethodGet, "http://localhost/status?access_token=token-of-ann").StatusCode; got != 401 {
		t.Fatalf("a token in the query: %d", got)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"foreign_host  evil.example",
		"foreign_origin  https://evil.example",
		"unauthenticated  unknown bearer token",
		"unauthenticated  missing bearer token: send the header Authorization: Bearer TOKEN",
		"foreign_session bob",
		"query_token",
	}
	if diff := cmp.Diff(auditOf(t, path, "token-of", session, "MADEUP"), want); diff != "" {
		t.Errorf("record (-got +want):\n%s", diff)
	}
	if got := metricsOf(t, g, "Authorization", ann)[`signalbox_events_total{kind="unknown_session"}`]; got != 1 {
		t.Errorf("%v unknown sessions are counted, want 1", got)
	}
}

// A call of a hidden tool is recorded with its principal and session. The tool's name
// cannot break a line.
func TestAuditOfAHiddenTool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var cfg config.Config
	cfg.Audit.File = path
	none := ""
	both := []signalbox.InProcess{
		{Name: "a", Prefix: &none, Handler: clock()}, {Name: "b", Prefix: &none, Handler: clock()},
	}
	g := gatewaytest.New(t, cfg, signalbox.Options{InProcess: both})
	list, err := mcp.NewRequest("tools/list", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Serve(t.Context(), list, nil); err != nil { // after both backends are known
		t.Fatal(err)
	}
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"now"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Client, req.Principal, req.Scope = &mcp.Peer{Version: mcp.LatestLegacy}, "ann", mcp.NewScope("s1", nil)
	if _, err := g.Serve(t.Context(), req, nil); err == nil {
		t.Error("a tool that two backends have is called")
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(auditOf(t, path), []string{`hidden_item ann tool "now"`}); diff != "" {
		t.Errorf("record (-got +want):\n%s", diff)
	}
	if text := readFile(t, path); !strings.Contains(text, `"session":"s1"`) {
		t.Errorf("no session: %s", text)
	}
}

// An audit file that cannot be written is reported before the first request, with its
// name and its key.
func TestAuditFileRefusesTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "audit.jsonl")
	var cfg config.Config
	cfg.Audit.File = path
	g, err := signalbox.New(cfg, signalbox.Options{})
	if err == nil {
		g.Close()
		t.Fatal("the gateway starts")
	}
	problems, ok := errors.AsType[config.Problems](err)
	if !ok || len(problems) != 1 || problems[0].Path != "audit.file" || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one problem of audit.file that names %s", err, path)
	}
}

// It also refuses a reload: the old file stays in use. A valid reload opens the new
// file and releases one that was moved away.
func TestAuditFileAndReload(t *testing.T) {
	cfg, path := auditedConfig(t)
	g := gatewaytest.New(t, cfg, signalbox.Options{})
	try := func(origin string) {
		if got := post(g, pingMessage, "Origin", origin).StatusCode; got != 403 {
			t.Fatalf("%s: %d", origin, got)
		}
	}
	try("https://one.example")
	bad := cfg
	bad.Audit.File = filepath.Join(path, "below", "a", "file")
	if err := g.Reload(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "audit.file") {
		t.Errorf("reload: %v", err)
	}
	if status := g.Status(); status.ReloadRefused == nil || !strings.Contains(status.ReloadRefused.Problems[0], bad.Audit.File) {
		t.Errorf("status %+v", status.ReloadRefused)
	}
	try("https://two.example")
	moved := path + ".1"
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	try("https://three.example")
	other := cfg
	other.Audit.File = filepath.Join(filepath.Dir(path), "other.jsonl")
	if err := g.Reload(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	try("https://four.example")
	// A reload that is refused for another reason does not change the file.
	fixed := cfg
	fixed.Path = "/elsewhere"
	if err := g.Reload(t.Context(), fixed); err == nil {
		t.Error("the path is changed")
	}
	try("https://five.example")
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		moved:            {"foreign_origin  https://one.example", "foreign_origin  https://two.example"},
		path:             {"foreign_origin  https://three.example"},
		other.Audit.File: {"foreign_origin  https://four.example", "foreign_origin  https://five.example"},
	} {
		if diff := cmp.Diff(auditOf(t, file), want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", filepath.Base(file), diff)
		}
	}
}

// Refused requests cannot flood the record, which counts at the end what it dropped,
// nor the log, which contains none of them. Without a record, the transcript log-flood
// shows the same for the log.
func TestFloodOfRefusals(t *testing.T) {
	cfg, path := auditedConfig(t)
	var log strings.Builder
	g := gatewaytest.New(t, cfg, signalbox.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const n = 3000
	for i := range n {
		post(g, pingMessage, "Host", fmt.Sprintf("h%d.example", i))
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "foreign_host") {
		t.Error("the content of the record is in the log, too")
	}
	// A busy machine may take seconds for it; the limit is per second.
	record := auditOf(t, path)
	if len(record) > n/5 || !slices.ContainsFunc(record, func(line string) bool { return strings.HasPrefix(line, "dropped") }) {
		t.Errorf("the record has %d lines, the last %q", len(record), record[len(record)-1])
	}
	if got := metricsOf(t, g, "Authorization", "Bearer token-of-ann")[`signalbox_events_total{kind="foreign_host"}`]; got != n {
		t.Errorf("%v are counted, want each of %d", got, n)
	}
}

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
			{"resources/read", `{"uri":"ui://shop/me:secret@x.example/a?key=secret"}`, "ui://shop/x.example/a  error -32002 0"},
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
