// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// oauthPair is a backend and its authorization server, which issues one token.
type oauthPair struct {
	issuer, backend *httptest.Server
	issued          atomic.Int64
	token           string
	refuses         atomic.Bool            // the authorization server
	foreign         atomic.Pointer[string] // an Authorization header that is not the gateway's
}

func newOAuthPair(t *testing.T) *oauthPair {
	t.Helper()
	p := &oauthPair{token: "canary-access-token-of-the-gateway"}
	write := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v) // the client has disconnected
	}
	issuer := http.NewServeMux()
	issuer.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, map[string]any{"issuer": p.issuer.URL, "token_endpoint": p.issuer.URL + "/token"})
	})
	issuer.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		if p.refuses.Load() {
			write(w, 401, map[string]any{"error": "invalid_client"})
			return
		}
		p.issued.Add(1)
		write(w, 200, map[string]any{"access_token": p.token, "token_type": "Bearer", "expires_in": 3600})
	})
	p.issuer = httptest.NewServer(issuer)
	t.Cleanup(p.issuer.Close)
	server := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/list": func(x *faultyserver.Exchange) {
		x.Result(`{"resultType":"complete","tools":[{"name":"find","inputSchema":{"type":"object"}}]}`)
	}}}
	p.backend = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Authorization")
		if got != "" && got != "Bearer "+p.token {
			p.foreign.Store(&got)
		}
		switch {
		case r.URL.Path != "/mcp":
			http.NotFound(w, r)
		case got != "Bearer "+p.token:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			server.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.backend.Close)
	return p
}

// open starts a gateway in front of the backend, with its entry in a file.
func (p *oauthPair) open(t *testing.T, log io.Writer) (*signalbox.Gateway, *httptest.Server) {
	t.Helper()
	text := fmt.Sprintf(`{
		"mcpServers": {"crm": {"url": "%s/mcp", "oauth": {"as": "gateway", "issuer": %q, "clientId": "gw", "clientSecret": "canary-client-secret", "scopes": ["crm.read"]}}},
		"auth": {"tokens": [{"principal": "ci", "env": "CI_TOKEN"}]}
	}`, p.backend.URL, p.issuer.URL)
	env := func(name string) (string, bool) { return "canary-inbound-token-of-ci", name == "CI_TOKEN" }
	cfg, err := config.Parse("x.json", []byte(text), env)
	if err != nil {
		t.Fatal(err)
	}
	g, err := signalbox.New(*cfg, signalbox.Options{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	edge := httptest.NewServer(g)
	t.Cleanup(func() {
		edge.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g, edge
}

// retried tries to reach the backend, and checks its state then.
func retried(t *testing.T, g *signalbox.Gateway, state string) signalbox.BackendStatus {
	t.Helper()
	s, err := g.RetryBackend(t.Context(), "crm")
	if err != nil || s.State != state {
		t.Fatalf("state %s, reason %q, %v, want %s", s.State, s.Reason, err, state)
	}
	return s
}

// syncBuffer is a bytes.Buffer for several writers.
type syncBuffer struct {
	text chan bytes.Buffer
}

func newSyncBuffer() *syncBuffer {
	b := &syncBuffer{make(chan bytes.Buffer, 1)}
	b.text <- bytes.Buffer{}
	return b
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	text := <-b.text
	n, err := text.Write(p)
	b.text <- text
	return n, err
}

func (b *syncBuffer) String() string {
	text := <-b.text
	defer func() { b.text <- text }()
	return text.String()
}

// A backend with "as: gateway" is called with a token for the gateway, for all callers, and the
// status has all but the token. No credential reaches the log, and the caller's no backend (N1).
func TestAsGateway(t *testing.T) {
	p, log := newOAuthPair(t), newSyncBuffer()
	g, edge := p.open(t, log)
	s := retried(t, g, "live")
	for range 3 {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crm__find","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, edge.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Authorization": "Bearer canary-inbound-token-of-ci", "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "crm__find",
		} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(text), `"content":[]`) {
			t.Fatalf("status %d, %s, %v", resp.StatusCode, text, err)
		}
	}
	if n := p.issued.Load(); n != 1 {
		t.Errorf("%d tokens were requested, want 1", n)
	}
	if foreign := p.foreign.Load(); foreign != nil {
		t.Errorf("the backend got %q", *foreign)
	}
	o := s.OAuth
	if o == nil || o.As != "gateway" || o.Grant != "clientCredentials" || o.Issuer != p.issuer.URL || o.Outcome != "ok" || strings.Join(o.Scopes, " ") != "crm.read" || o.Until.Before(time.Now()) {
		t.Errorf("status %+v", o)
	}
	wantRefreshes(t, g, "ok", "1")
	wantRefreshes(t, g, "refused", "0")
	status, err := json.Marshal(g.Status())
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"the status": string(status), "the log": log.String()} {
		if strings.Contains(text, "canary") {
			t.Errorf("%s has a credential:\n%s", what, text)
		}
	}
}

// refreshesOf returns the number of refreshes for the backend with an outcome.
func refreshesOf(t *testing.T, g *signalbox.Gateway, outcome string) string {
	t.Helper()
	w := httptest.NewRecorder()
	signalbox.Local(g.Operations()).ServeHTTP(w, operatorRequest(t, "/metrics"))
	_, rest, _ := strings.Cut(w.Body.String(), "\nsignalbox_refreshes_total{backend=\"crm\",outcome=\""+outcome+"\"} ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

func wantRefreshes(t *testing.T, g *signalbox.Gateway, outcome, want string) {
	t.Helper()
	if got := refreshesOf(t, g, outcome); got != want {
		t.Errorf("refreshes with the outcome %s: %q, want %s", outcome, got, want)
	}
}

// A backend is down if its authorization server refuses the gateway, with the keys to correct,
// and comes back when that is corrected there, at once if an operator retries.
func TestAsGatewayRefused(t *testing.T) {
	p, log := newOAuthPair(t), newSyncBuffer()
	p.refuses.Store(true)
	g, _ := p.open(t, log)
	s := retried(t, g, "down")
	if s.Code != "SB_AUTH_BACKEND" || !strings.Contains(s.Reason, "invalid_client") || !strings.Contains(s.Reason, "oauth.clientSecret") || s.OAuth == nil || !strings.Contains(s.OAuth.Outcome, "invalid_client") {
		t.Errorf("reason %q, code %s, status %+v", s.Reason, s.Code, s.OAuth)
	}
	wantRefreshes(t, g, "ok", "0")
	if n := refreshesOf(t, g, "refused"); n == "0" || n == "" {
		t.Errorf("%q refreshes were refused", n)
	}
	p.refuses.Store(false)
	// An attempt that had begun before may end now.
	for deadline := time.Now().Add(10 * time.Second); ; {
		if s, err := g.RetryBackend(t.Context(), "crm"); err != nil || s.State == "live" || time.Now().After(deadline) {
			if s.State != "live" {
				t.Errorf("state %s, reason %q, %v", s.State, s.Reason, err)
			}
			break
		}
	}
}
