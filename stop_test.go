// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// Slow backends are stopped concurrently: a gateway with many of them takes no longer
// to close than one with a single one.
func TestBackendsEndTogether(t *testing.T) {
	const each = 3 * time.Second
	end := func(n int) time.Duration {
		var took time.Duration
		synctest.Test(t, func(t *testing.T) {
			server := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){
				http.MethodDelete: func(x *faultyserver.Exchange) { <-time.After(each); x.Status(http.StatusOK, "", "") },
				"tools/list":      func(x *faultyserver.Exchange) { x.Result(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`) },
			}}
			g, err := signalbox.New(gatewaytest.ConfigOf(n), signalbox.Options{Transport: gatewaytest.ServeBackends(t, server)})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for i := range n {
				callTool(t, g, fmt.Sprintf("b%d__x", i))
			}
			began := time.Now()
			if err := g.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			took = time.Since(began)
			if asked, ended := server.Count("initialize"), server.Count(http.MethodDelete); asked != ended {
				t.Errorf("%d sessions, and %d were ended", asked, ended)
			}
		})
		return took
	}
	one, many := end(1), end(5)
	if one < each {
		t.Errorf("one backend that takes %v to end took %v", each, one)
	}
	if many != one {
		t.Errorf("five backends took %v to end, one %v", many, one)
	}
}

// While load balancers learn that a gateway is about to close, it is not ready and
// refuses new sessions; existing ones are served.
func TestDrain(t *testing.T) {
	g, err := signalbox.New(config.Config{}, signalbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	post := func(body, sessionID string) *http.Response {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if sessionID != "" {
			r.Header.Set("Mcp-Session-Id", sessionID)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w.Result()
	}
	const (
		initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		list       = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	)
	before := post(initialize, "")
	if before.StatusCode != http.StatusOK || !g.Ready() {
		t.Fatalf("before: status %d, ready %v; want 200, true", before.StatusCode, g.Ready())
	}
	g.Drain()
	if g.Ready() {
		t.Error("a draining gateway is ready")
	}
	if refused := post(initialize, ""); refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("initialize: %d, Retry-After %q; want 503 and one", refused.StatusCode, refused.Header.Get("Retry-After"))
	}
	if served := post(list, before.Header.Get("Mcp-Session-Id")); served.StatusCode != http.StatusOK {
		t.Errorf("a request of a session: %d, want 200", served.StatusCode)
	}
	if err := g.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// callTool calls a tool for a client without a session. The backend's session is kept
// for the next one.
func callTool(t *testing.T, g *signalbox.Gateway, name string) {
	t.Helper()
	req, err := mcp.NewRequest("tools/call", fmt.Appendf(nil, `{"name":%q}`, name))
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{Version: mcp.LatestModern}
	if _, err := g.Serve(t.Context(), req, nil); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
