// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// operate makes one request to the operational endpoints.
func operate(g *signalbox.Gateway, method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.Operations().ServeHTTP(w, r)
	return w.Result()
}

// Probes may use any Host and no credentials; endpoints that reveal more than "alive"
// require authentication.
//
// T1- 2026-07-28 basic/transports/streamable-http: "Servers **MUST** validate the
// `Origin` header on all incoming connections to prevent DNS rebinding attacks."
func TestOperationsAuthentication(t *testing.T) {
	cfg := config.Config{}
	cfg.Auth.Tokens = []config.Token{{Principal: "ops", Value: config.NewSecret("tok-ops-0123456789")}}
	g := gatewaytest.New(t, cfg, signalbox.Options{})
	const bearer = "Bearer tok-ops-0123456789"
	for _, tt := range []struct {
		method, target, token, origin string
		want                          int
	}{
		{"GET", "http://localhost/healthz", "", "", 200},
		{"GET", "http://10.1.2.3:8080/healthz", "", "", 200},
		{"GET", "http://gateway.internal/readyz", "", "https://evil.example", 200},
		{"HEAD", "http://localhost/healthz", "", "", 200},
		{"GET", "http://localhost/status", bearer, "", 200},
		{"GET", "http://localhost/metrics", bearer, "", 200},
		{"HEAD", "http://localhost/status", bearer, "", 200},
		{"GET", "http://localhost/status", "", "", 401},
		{"GET", "http://localhost/metrics", "Bearer guess", "", 401},
		{"GET", "http://localhost/status?access_token=tok-ops-0123456789", "", "", 401},
		{"GET", "http://evil.example/status", bearer, "", 403},
		{"GET", "http://evil.example/metrics", bearer, "", 403},
		{"GET", "http://localhost/status", bearer, "https://evil.example", 403},
		{"POST", "http://localhost/status", bearer, "", 405},
		{"DELETE", "http://localhost/metrics", bearer, "", 405},
		{"GET", "http://localhost/", "", "", 404},
		{"GET", "http://localhost/status/", bearer, "", 404},
		{"GET", "http://localhost//status", bearer, "", 404},
		{"GET", "http://localhost/mcp", bearer, "", 404},
	} {
		header := []string{"Authorization", tt.token}
		if tt.origin != "" {
			header = append(header, "Origin", tt.origin)
		}
		res := operate(g, tt.method, tt.target, header...)
		if res.StatusCode != tt.want {
			t.Errorf("%s %s (token %q, origin %q): %d, want %d", tt.method, tt.target, tt.token, tt.origin, res.StatusCode, tt.want)
		}
		if tt.want == 405 && res.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow %q", tt.method, tt.target, res.Header.Get("Allow"))
		}
		if got := res.Header.Get("Cache-Control"); tt.want < 400 && got != "no-store" {
			t.Errorf("%s %s: Cache-Control %q, want no-store", tt.method, tt.target, got)
		}
	}
}

func TestReadyEndsWithTheDrain(t *testing.T) {
	g := gatewaytest.New(t, config.Config{}, signalbox.Options{})
	ready := func() int { return operate(g, "GET", "http://localhost/readyz").StatusCode }
	before := ready()
	g.Drain()
	if after := ready(); before != 200 || after != 503 {
		t.Errorf("ready: %d, and %d after the drain began; want 200, 503", before, after)
	}
	if got := operate(g, "GET", "http://localhost/healthz").StatusCode; got != 200 {
		t.Errorf("alive: %d while it drains, want 200", got)
	}
	if status := statusOf(t, g); !status.Draining {
		t.Error("the status does not report the drain")
	}
}

// wireStatus is /status as its clients read it.
type wireStatus struct {
	Version, Uptime string
	Started         time.Time
	Draining        bool
	Backends        []map[string]any
	Problems        []string
	ReloadRefused   *struct {
		At       time.Time
		Problems []string
	}
	Sessions, InFlight int
	Limits             map[string]string
	Promise            string
}

func statusOf(t *testing.T, g *signalbox.Gateway) wireStatus {
	t.Helper()
	res := operate(g, "GET", "http://localhost/status")
	if got := res.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	var s wireStatus
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){
			"tools/list": func(x *faultyserver.Exchange) {
				x.Result(`{"tools":[{"name":"x","inputSchema":{"type":"object"}},{"name":"broken"}]}`)
			},
		}}
		cfg := gatewaytest.ConfigOf(1)
		cfg.Version = "1.2.3"
		cfg.Limits.Sessions, cfg.Limits.CallMax, cfg.Limits.RequestBody = -1, 90*time.Minute, 1<<20
		g := gatewaytest.New(t, cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, server)})
		<-time.After(90 * time.Second)
		got := statusOf(t, g)
		if got.Version != "1.2.3" || got.Uptime != "1m30s" || got.Draining || time.Since(got.Started) != 90*time.Second {
			t.Errorf("version %q, uptime %q, started %v, draining %v", got.Version, got.Uptime, got.Started, got.Draining)
		}
		backend := got.Backends[0]
		delete(backend, "since")
		want := map[string]any{
			"name": "b0", "state": "live", "era": "legacy", "version": "2025-11-25",
			"tools": 2.0, "toolBytes": float64(len(`{"name":"b0__x","inputSchema":{"type":"object"}}`)), "resources": 0.0, "templates": 0.0, "prompts": 0.0,
			"offered": map[string]any{"tools": 1.0, "resources": 0.0, "templates": 0.0, "prompts": 0.0},
		}
		if diff := cmp.Diff(backend, want); diff != "" {
			t.Errorf("backend (-got +want):\n%s", diff)
		}
		if len(got.Problems) != 1 || !strings.Contains(got.Problems[0], "broken") {
			t.Errorf("problems %q, want one about the tool without a schema", got.Problems)
		}
		for key, want := range map[string]string{
			"sessions": "none", "callMax": "1h30m", "requestBody": "1MiB", "backendMessage": "16MiB", "batch": "100", "connect": "10s", "sessionIdle": "30m",
		} {
			if got.Limits[key] != want {
				t.Errorf("limits.%s: %q, want %q", key, got.Limits[key], want)
			}
		}
		if !strings.Contains(got.Promise, "unknown") || strings.Contains(got.Promise, "\n") {
			t.Errorf("promise %q", got.Promise)
		}
	})
}

// A configuration that cannot be applied is reported until a reload succeeds, and the
// previous one stays in use.
func TestReloadRefused(t *testing.T) {
	g := gatewaytest.New(t, config.Config{}, signalbox.Options{})
	refused := func() []string {
		status := g.Status()
		if fromWire := statusOf(t, g).ReloadRefused; (fromWire == nil) != (status.ReloadRefused == nil) {
			t.Errorf("/status returns %v, Status %v", fromWire, status.ReloadRefused)
		}
		if status.ReloadRefused == nil {
			return nil
		}
		return status.ReloadRefused.Problems
	}
	if got := refused(); got != nil {
		t.Errorf("before: %q", got)
	}
	bad := config.Config{Servers: []config.Backend{{Name: "a"}, {Name: "b"}}}
	err := g.Reload(t.Context(), bad)
	problems, ok := errors.AsType[config.Problems](err)
	if got := refused(); !ok || len(got) != len(problems) || len(got) < 2 {
		t.Errorf("%d problems in the status, %d in the error: %v", len(got), len(problems), err)
	}
	if got := g.Status().Problems; !strings.HasPrefix(got[0], "reload refused: ") {
		t.Errorf("problems %q", got)
	}
	g.RefuseReload(errors.New("open x.yaml: no such file"))
	if got := refused(); !slices.Equal(got, []string{"open x.yaml: no such file"}) {
		t.Errorf("a file that is gone: %q", got)
	}
	if err := g.Reload(t.Context(), config.Config{}); err != nil {
		t.Fatal(err)
	}
	if got := refused(); got != nil {
		t.Errorf("after one that works: %q", got)
	}
	if got := metricsOf(t, g)[`signalbox_reloads_total{result="refused"}`]; got != 2 {
		t.Errorf("%v refused reloads are counted, want 2", got)
	}
	if got := metricsOf(t, g)[`signalbox_reloads_total{result="applied"}`]; got != 1 {
		t.Errorf("%v applied reloads are counted, want 1", got)
	}
}

// A reload that was not tried reports nothing about the configuration.
func TestReloadAfterTheEndIsNoRefusal(t *testing.T) {
	g := gatewaytest.New(t, config.Config{}, signalbox.Options{})
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(t.Context(), config.Config{}); !errors.Is(err, signalbox.ErrClosed) {
		t.Errorf("reload: %v, want ErrClosed", err)
	}
	if got := g.Status().ReloadRefused; got != nil {
		t.Errorf("refused: %q", got.Problems)
	}
}

// An unknown path is answered in plain text, whatever the request: a client that reads
// the body of a 404 does not take it for the error of an MCP server about a method.
//
// H15+ 2026-07-28 basic/transports/streamable-http: "The JSON-RPC error body distinguishes
// this case from a 404 returned by a legacy HTTP+SSE server that does not host the modern
// MCP endpoint"
func TestUnknownPathIsNoUnknownMethod(t *testing.T) {
	g := gatewaytest.New(t, config.Config{}, signalbox.Options{})
	for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
		for _, path := range []string{"/", "/mcp/", "/sse", "/.well-known/oauth-protected-resource", "/mcp/tools"} {
			res := operate(g, method, "http://localhost"+path, "Mcp-Method", "tools/list", "MCP-Protocol-Version", "2026-07-28")
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 404 || strings.Contains(string(body), "jsonrpc") || strings.Contains(res.Header.Get("Content-Type"), "json") {
				t.Errorf("%s %s: %d %s %s; want 404 in plain words", method, path, res.StatusCode, res.Header.Get("Content-Type"), body)
			}
		}
	}
}

// metricsOf returns our metrics as a scraper reads them.
func metricsOf(t *testing.T, g *signalbox.Gateway, header ...string) map[string]float64 {
	t.Helper()
	res := operate(g, "GET", "http://localhost/metrics", header...)
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Fatalf("/metrics: %s", res.Status)
	}
	values := make(map[string]float64)
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, number, ok := strings.Cut(lines.Text(), " ")
		if !ok || !strings.HasPrefix(name, "signalbox_") && !strings.HasPrefix(name, "mcp_") {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		values[name] = n
	}
	return values
}

// docs/metrics.md lists exactly these metrics with their labels.
func TestMetricsAreDocumented(t *testing.T) {
	cfg := gatewaytest.ConfigOf(1)
	gatewaytest.WithPrincipals(&cfg, "ops")
	cfg.PublicURL = "https://mcp.example.com"
	cfg.Auth.Issuers = []config.Issuer{{Name: "corp", Issuer: "http://127.0.0.1:1"}} // where nothing listens
	g := gatewaytest.New(t, cfg, signalbox.Options{})
	label := regexp.MustCompile(`="[^"]*"`)
	histogram := regexp.MustCompile(`_(bucket|sum|count)\b`)
	bound := regexp.MustCompile(`\{le\}|,le\b`)
	shown := make(map[string]bool)
	for name := range metricsOf(t, g, "Authorization", "Bearer "+gatewaytest.TokenOf("ops")) {
		name = label.ReplaceAllString(name, "")
		if strings.HasPrefix(name, "mcp_") {
			name = bound.ReplaceAllString(histogram.ReplaceAllString(name, ""), "")
		}
		shown[name] = true
	}
	// Those of identity are not served until they are used; a test of internal/metrics
	// compares them.
	before, rest, _ := strings.Cut(readFile(t, "docs/metrics.md"), "\n## Identity\n")
	_, after, ok := strings.Cut(rest, "\n## ")
	if !ok {
		t.Fatal("docs/metrics.md has no section Identity")
	}
	documented := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:signalbox|mcp)_[^`]+)` \\|").FindAllStringSubmatch(before+after, -1) {
		documented[row[1]] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(shown))); diff != "" {
		t.Errorf("docs/metrics.md (-documented +there):\n%s", diff)
	}
}

// Every kind of event is counted from the start: an alert could not detect the first
// increase of a series that begins with it.
func TestEventsAreCountedFromTheStart(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "server/events.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"hidden_item", "foreign_task", "signin_begun", "signin_done", "signin_failed", "grant_ended", "issuer_changed",
		"foreign_signin", "foreign_proxy", "policy_denied", "policy_dry_run", "policy_failed", "policy_confirm", "step_up",
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "EventKind" {
				want = append(want, strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
			}
		}
		return true
	})
	var got []string
	for name := range metricsOf(t, gatewaytest.New(t, config.Config{}, signalbox.Options{})) {
		if kind, ok := strings.CutPrefix(name, `signalbox_events_total{kind="`); ok {
			got = append(got, strings.TrimSuffix(kind, `"}`))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(got, want); diff != "" || len(want) < 11 {
		t.Errorf("kinds of events (-counted +there are):\n%s", diff)
	}
}

func TestMetricsOfBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){
			"tools/list": func(x *faultyserver.Exchange) { x.Result(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`) },
			"tools/call": func(x *faultyserver.Exchange) { x.Result(`{"content":[]}`) },
		}}
		cfg := gatewaytest.ConfigOf(1)
		cfg.Servers = append(cfg.Servers, config.Backend{Name: "gone", Command: "/no/such/program"})
		g := gatewaytest.New(t, cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, server)})
		<-time.After(5 * time.Second)
		before := metricsOf(t, g)
		callTool(t, g, "b0__x")
		callTool(t, g, "b0__x")
		after := metricsOf(t, g)
		const requests = `signalbox_backend_requests_total{backend="b0"}`
		if got := after[requests] - before[requests]; got != 2 {
			t.Errorf("%v requests are counted for two calls", got)
		}
		for name, want := range map[string]float64{
			`signalbox_backend_live{backend="b0"}`:   1,
			`signalbox_backend_live{backend="gone"}`: 0,
			`signalbox_backends{state="live"}`:       1,
			`signalbox_backends{state="down"}`:       1,
			`signalbox_backends{state="starting"}`:   0,
			`signalbox_ready`:                        1,
			`signalbox_reload_refused`:               0,
			`signalbox_sessions`:                     0,
		} {
			if got, ok := after[name]; !ok || got != want {
				t.Errorf("%s: %v (there: %v), want %v", name, got, ok, want)
			}
		}
	})
}

// Two gateways in one process have separate metrics.
func TestMetricsOfTwoGateways(t *testing.T) {
	a := gatewaytest.New(t, config.Config{}, signalbox.Options{})
	b := gatewaytest.New(t, config.Config{}, signalbox.Options{})
	a.RefuseReload(signalbox.ErrClosed)
	const refused = `signalbox_reloads_total{result="refused"}`
	if one, other := metricsOf(t, a)[refused], metricsOf(t, b)[refused]; one != 1 || other != 0 {
		t.Errorf("%v and %v refusals, want 1 and 0", one, other)
	}
}

// Names from clients are not used as labels.
func TestMetricsHaveNoLabelsOfClients(t *testing.T) {
	g := gatewaytest.New(t, config.Config{}, signalbox.Options{})
	before := len(metricsOf(t, g))
	for _, host := range []string{"a.example", "b.example", "c.example"} {
		if got := operate(g, "GET", "http://"+host+"/status").StatusCode; got != 403 {
			t.Fatalf("%s: %d, want 403", host, got)
		}
	}
	after := metricsOf(t, g)
	if len(after) != before {
		t.Errorf("%d series, %d before", len(after), before)
	}
	if got := after[`signalbox_events_total{kind="foreign_host"}`]; got != 3 {
		t.Errorf("%v foreign hosts are counted, want 3", got)
	}
}
