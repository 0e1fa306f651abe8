// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
)

// T5+ 2026-07-28 basic/transports/streamable-http: "The server **MUST** provide a
// single HTTP endpoint path (hereafter referred to as the **MCP endpoint**) that
// supports POST."
func TestRoutes(t *testing.T) {
	t.Parallel()
	answers := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	routes := (&endpoint{path: "/mcp"}).routes(answers(http.StatusTeapot), answers(http.StatusNoContent), answers(http.StatusAccepted))
	for _, tt := range []struct {
		name, method, path string
		status             int
		body               string
	}{
		{"endpoint", "POST", "/mcp", http.StatusTeapot, ""},
		{"endpoint's stream", "GET", "/mcp", http.StatusTeapot, ""},
		{"transport of 2024-11-05", "GET", "/sse", http.StatusNoContent, ""},
		{"its messages", "POST", "/sse", http.StatusNoContent, ""},
		{"alive", "GET", "/healthz", http.StatusAccepted, ""},
		{"ready", "GET", "/readyz", http.StatusAccepted, ""},
		{"status", "GET", "/status", http.StatusAccepted, ""},
		{"metrics", "GET", "/metrics", http.StatusAccepted, ""},
		{"nothing", "GET", "/", http.StatusNotFound, "nothing is here; the MCP endpoint is /mcp\n"},
		{"a client without the path", "POST", "/", http.StatusNotFound,
			`{"jsonrpc":"2.0","error":{"code":-32600,"message":"nothing is here; the MCP endpoint is /mcp: add it to the URL"}}`},
		{"below", "POST", "/mcp/", http.StatusNotFound, "nothing is here; the MCP endpoint is /mcp\n"},
		{"below the status", "GET", "/status/x", http.StatusNotFound, "nothing is here; the MCP endpoint is /mcp\n"},
		{"not cleaned", "POST", "//mcp", http.StatusNotFound, "nothing is here; the MCP endpoint is /mcp\n"},
		{"not cleaned upwards", "GET", "/x/../status", http.StatusNotFound, "nothing is here; the MCP endpoint is /mcp\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			r := httptest.NewRequest(tt.method, "/", http.NoBody)
			r.URL.Path = tt.path
			routes.ServeHTTP(w, r)
			if w.Code != tt.status || w.Body.String() != tt.body {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, tt.status, tt.body)
			}
		})
	}
}

// A browser at / is shown what this is and where the endpoint is.
func TestRootPage(t *testing.T) {
	t.Parallel()
	none := http.NotFoundHandler()
	routes := (&endpoint{path: "/a&b"}).routes(none, none, none)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	routes.ServeHTTP(w, r)
	if got := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(got, "<h1>Signalbox</h1>") || !strings.Contains(got, "<code>/a&amp;b</code>") {
		t.Errorf("got %d %q", w.Code, got)
	}
	if got := w.Header().Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("got the type %q", got)
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ addr, configured, want string }{
		{"127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:80"},
		{"[::1]:80", "[::1]:80", "[::1]:80"},
		{"0.0.0.0:80", "0.0.0.0:0", "127.0.0.1:80"},
		{"[::]:80", ":0", "127.0.0.1:80"},
		{"[::]:80", "[::]:80", "[::1]:80"},
	} {
		t.Run(tt.configured, func(t *testing.T) {
			t.Parallel()
			addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tt.addr))
			if got := reachable(addr, tt.configured); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestExplainListen(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"taken", &os.SyscallError{Syscall: "bind", Err: syscall.EADDRINUSE}, "the port is in use by another program"},
		{"elsewhere", &os.SyscallError{Syscall: "bind", Err: syscall.EADDRNOTAVAIL}, "this machine does not have that address"},
		{"rights", &os.SyscallError{Syscall: "bind", Err: syscall.EACCES}, "permission denied; ports below 1024 need privileges"},
		{"other", other, "other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// Nothing listens on port 0.
			got := explainListen("127.0.0.1:0", tt.err).Error()
			if !strings.HasPrefix(got, "listen on 127.0.0.1:0: "+tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if hasCode := strings.HasSuffix(got, "[SB_PORT_TAKEN]"); hasCode != errors.Is(tt.err, syscall.EADDRINUSE) {
				t.Errorf("got %q, with the code: %t", got, hasCode)
			}
		})
	}
}

func TestDefaultLocalDrain(t *testing.T) {
	t.Parallel()
	own := config.Config{Listen: "127.0.0.1:1"}
	own.Drain.Delay, own.Drain.Spread = time.Second, 2*time.Second
	for _, tt := range []struct {
		name          string
		cfg           config.Config
		http          bool
		delay, spread time.Duration
	}{
		{"default address", config.Config{}, true, -1, -1},
		{"loopback", config.Config{Listen: "[::1]:80"}, true, -1, -1},
		{"localhost", config.Config{Listen: "LocalHost:80"}, true, -1, -1},
		{"configured", own, true, time.Second, 2 * time.Second},
		{"beyond", config.Config{Listen: "0.0.0.0:80"}, true, 0, 0},
		{"everywhere", config.Config{Listen: ":80"}, true, 0, 0},
		{"name", config.Config{Listen: "example.com:80"}, true, 0, 0},
		{"no address", config.Config{Listen: "nowhere"}, true, 0, 0},
		{"stdio", config.Config{Listen: "0.0.0.0:80"}, false, -1, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := tt.cfg
			defaultLocalDrain(&cfg, tt.http)
			if cfg.Drain.Delay != tt.delay || cfg.Drain.Spread != tt.spread {
				t.Errorf("got %v, %v; want %v, %v", cfg.Drain.Delay, cfg.Drain.Spread, tt.delay, tt.spread)
			}
		})
	}
}

func TestNilEndpoint(t *testing.T) {
	t.Parallel()
	var p *endpoint
	p.serve(nil, nil)
	p.close(t.Context())
	if p.failed() != nil {
		t.Error("an endpoint that is not there failed")
	}
}
