// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/demo"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/test/callertest"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// A Handler that is a backend in the process of a gateway has everything that the Caller
// of the gateway can do: for each kind of request, in a session and without one, behind
// one gateway and behind two. Only results do not pass while they arrive: such a Handler
// may change them after its own backend has returned them.
func TestGatewayPassesEverything(t *testing.T) {
	r := new(callertest.Recorder)
	served := 0
	check := func(ctx context.Context, c mcp.Caller) {
		served++
		callertest.Check(ctx, t, c, r, "Receive")
	}
	var h mcp.Handler = mux.New(
		mux.Tool{Name: "a", Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
			check(ctx, call.Caller)
			return mux.Say("done"), nil
		}},
		mux.Prompt{Name: "b", Get: func(ctx context.Context, call *mux.Call) ([]mux.Message, error) {
			check(ctx, call.Caller)
			return nil, nil
		}},
		mux.Resource{URI: "c:d", Name: "c", Read: func(ctx context.Context, call *mux.Call) ([]mux.Contents, error) {
			check(ctx, call.Caller)
			return []mux.Contents{mux.TextContents("c:d", "", "x")}, nil
		}},
	)
	prefix := ""
	for _, name := range []string{"inner", "outer"} {
		g, err := signalbox.New(config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: name, Handler: h}}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		h, prefix = g, name+"__"+prefix
		for _, scope := range []*mcp.Scope{nil, mcp.NewScope("s", r)} {
			for method, params := range map[string]string{
				"tools/call":     `{"name":"` + prefix + `a"}`,
				"prompts/get":    `{"name":"` + prefix + `b"}`,
				"resources/read": `{"uri":"c:d"}`,
			} {
				req, err := mcp.NewRequest(method, []byte(params))
				if err != nil {
					t.Fatal(err)
				}
				req.Scope, served = scope, 0
				if _, err := g.Serve(t.Context(), req, r); err != nil || served != 1 {
					t.Errorf("%s %s behind %s: served %d times, %v", method, params, name, served, err)
				}
			}
		}
	}
}

// The limit "none" is never reached, and not always.
func TestNoLimits(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"mcpServers": {}, "limits": {`)
	sep := ""
	for key := range limitKeys() {
		text.WriteString(sep + `"` + key + `": "none"`)
		sep = ", "
	}
	text.WriteString("}}")
	cfg, err := config.Parse("limits.json", []byte(text.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := signalbox.New(*cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "demo", Handler: demo.New()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"demo__echo","arguments":{"text":"hi"}}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Serve(ctx, req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(res.Bytes()), `{"content":[{"type":"text","text":"hi"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

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

// With "drain.timeout: none" the calls to a backend that a reload removes may take any
// time.
func TestReloadWithoutDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		server := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){
			"tools/list":      func(x *faultyserver.Exchange) { x.Result(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`) },
			"tools/call":      func(x *faultyserver.Exchange) { close(entered); <-release; x.Result(`{"content":[]}`) },
			http.MethodDelete: func(x *faultyserver.Exchange) { x.Status(http.StatusOK, "", "") },
		}}
		cfg := gatewaytest.ConfigOf(1)
		cfg.Drain.Timeout, cfg.Limits.CallIdle, cfg.Limits.CallMax = -1, -1, -1
		g, err := signalbox.New(cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, server)})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		synctest.Wait()
		called := make(chan struct{})
		go func() { // ends with the call
			defer close(called)
			callTool(t, g, "b0__x")
		}()
		<-entered
		without := cfg
		without.Servers = nil
		if err := g.Reload(t.Context(), without); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		close(release)
		<-called
	})
}

// blockedHandler is a log handler that blocks until the channel is closed.
type blockedHandler struct {
	slog.Handler

	open chan struct{}
}

func (blockedHandler) Enabled(context.Context, slog.Level) bool { return true }

func (u blockedHandler) Handle(context.Context, slog.Record) error {
	<-u.open
	return nil
}

// A blocked log delays neither the lists, although their problems are logged before
// they are returned, nor the shutdown.
func TestBlockedLogBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := blockedHandler{slog.DiscardHandler, make(chan struct{})}
		defer close(log.open)
		none := ""
		g, err := signalbox.New(config.Config{}, signalbox.Options{Logger: slog.New(log), InProcess: []signalbox.InProcess{
			{Name: "a", Prefix: &none, Handler: demo.New()}, {Name: "b", Prefix: &none, Handler: demo.New()},
		}})
		if err != nil {
			t.Fatal(err)
		}
		list, err := mcp.NewRequest("tools/list", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := g.Serve(ctx, list, nil); err != nil {
			t.Errorf("tools/list: %v", err)
		}
		if len(g.Status().Problems) == 0 {
			t.Error("there is nothing to log")
		}
		began := time.Now()
		if err := g.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("to end took %v, want what its last words may take", took)
		}
	})
}

// echo is a server that refuses all requests and repeats their headers in the error.
type echo struct{}

func (echo) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := mcp.Parse(body, mcp.Limits{})
	if err != nil {
		return nil, err
	}
	id := m.ID
	answer := jsonrpc.AppendError(nil, id, mcp.Errorf(-32000, "unknown: %s", r.Header.Get("Authorization")))
	return &http.Response{
		StatusCode: http.StatusUnauthorized, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(answer))), Request: r,
	}, nil
}

// The log contains nothing of a backend's credentials, even if the backend repeats
// them: an error of the backend may contain them, and is logged.
//
// X9- 2026-07-28 server/utilities/logging: "Credentials or secrets"
func TestLogHasNoCredentialsOfBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		cfg := config.Config{Servers: []config.Backend{{
			Name: "p", URL: "http://p.example/mcp", Headers: map[string]config.Secret{"Authorization": config.NewSecret("Bearer swordfish-1")},
		}}}
		g := gatewaytest.New(t, cfg, signalbox.Options{
			Transport: echo{}, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		post(g, strings.Replace(initializeMessage, "initialize", "tools/list", 1))
		time.Sleep(time.Minute)
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if text := log.String(); !strings.Contains(text, "[redacted]") || strings.Contains(text, "swordfish") {
			t.Errorf("logged %s", text)
		}
	})
}

// limitKeys returns the keys of "limits" as in a file.
func limitKeys() map[string]bool {
	keys := map[string]bool{}
	for f := range reflect.TypeFor[config.Limits]().Fields() {
		keys[f.Tag.Get("json")] = true
	}
	return keys
}

// A setting named in an error must exist.
func TestLimitsInTextsExist(t *testing.T) {
	named := regexp.MustCompile(`\(limits\.([a-zA-Z]+)\)`)
	keys, found := limitKeys(), 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "test/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			for _, m := range named.FindAllStringSubmatch(lit.Value, -1) {
				found++
				if !keys[m[1]] {
					t.Errorf("%s: names limits.%s, which is no key", path, m[1])
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no text names a limit: the pattern is wrong")
	}
}

// readFile returns the contents of a file.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each call of Close returns after the last goroutine has ended, also one beside another.
func TestCloseBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			if req.Method == "tools/list" {
				<-release
				return mcp.NewResult([]byte(`{"tools":[]}`))
			}
			return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
		})
		g := gatewaytest.New(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "b", Handler: h}}})
		synctest.Wait()
		var ended atomic.Int32
		for range 2 {
			go func() {
				if err := g.Close(); err != nil {
					t.Error(err)
				}
				ended.Add(1)
			}()
			synctest.Wait()
		}
		if n := ended.Load(); n != 0 {
			t.Errorf("%d calls of Close returned while a backend was still in use", n)
		}
		close(release)
		synctest.Wait()
		if n := ended.Load(); n != 2 {
			t.Errorf("%d calls of Close returned after the backend had ended, want 2", n)
		}
	})
}
