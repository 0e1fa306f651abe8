// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// A client of ServeLocal is the principal "local" in both eras, and one of ServeStdio has
// none.
func TestServeLocalPrincipal(t *testing.T) {
	t.Parallel()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	synctest.Test(t, func(t *testing.T) {
		named := mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			switch req.Method {
			case "server/discover":
				return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
			case "tools/list":
				return mcp.NewResult([]byte(`{"tools":[{"name":"principal","inputSchema":{"type":"object"}}]}`))
			}
			return mcp.NewResult([]byte(`{"content":[{"type":"text","text":"<` + req.Principal + `>"}]}`))
		})
		none := ""
		gw, err := signalbox.New(config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "s", Prefix: &none, Handler: named}}})
		if err != nil {
			t.Fatal(err)
		}
		for want, serve := range map[string]func(context.Context, io.Reader, io.Writer) error{"<local>": gw.ServeLocal, "<>": gw.ServeStdio} {
			client, end := memnet.Pipe(memnet.DefaultBuffer)
			served := make(chan error, 1)
			go func() { served <- serve(t.Context(), end, end) }()
			lines := bufio.NewScanner(client)
			for _, line := range []string{
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"principal",` + meta + `}}`,
				`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
				`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"principal"}}`,
			} {
				if _, err := io.WriteString(client, line+"\n"); err != nil || !lines.Scan() {
					t.Fatal(err, lines.Err())
				}
				if strings.Contains(line, "principal") && !strings.Contains(lines.Text(), want) {
					t.Errorf("%s: got %s, want %s", line, lines.Text(), want)
				}
			}
			_ = client.Close()
			<-served
		}
		if err := gw.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The policy judges the requests of the operator's listener as those of the principal "local", with
// and without authentication of others.
func TestPolicyOfLocalRequests(t *testing.T) {
	rules := config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{
		{Name: "operator", Allow: `principal.name == "local" && principal.via == "local"`, On: []string{"*__get"}},
	}}
	for _, auth := range []bool{false, true} {
		g, _ := withPolicy(t, rules, func(cfg *config.Config) {
			if auth {
				gatewaytest.WithPrincipals(cfg, "ann")
			}
		})
		body, headers := gatewaytest.ModernRequest("1", "tools/list", "", "")
		list := func(h http.Handler, token string) string {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
			for name, value := range headers {
				r.Header.Set(name, value)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Body.String()
		}
		if got := list(signalbox.Local(g), ""); !strings.Contains(got, "office__get") || strings.Contains(got, "office__set") {
			t.Errorf("authentication: %t, the operator sees %s", auth, got)
		}
		if got := list(g, gatewaytest.TokenOf("ann")); strings.Contains(got, "office__") || !strings.Contains(got, `"tools":[]`) {
			t.Errorf("authentication: %t, others see %s", auth, got)
		}
	}
}
