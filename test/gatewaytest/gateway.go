// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gatewaytest runs a whole gateway in memory, for tests: real clients over HTTP, and
// servers that the test controls.
package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/http1"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// Gateway is a gateway in memory. It must be used inside a bubble.
type Gateway struct {
	T    *testing.T
	G    *signalbox.Gateway
	HTTP *http.Client

	path string // of its requests
}

// At returns the gateway with requests to a profile, or to everything for "".
func (h *Gateway) At(profile string) *Gateway {
	own := *h
	own.path = "/mcp"
	if profile != "" {
		own.path += "/p/" + profile
	}
	return &own
}

// Backends are the servers of a gateway, by the names of their backends.
type Backends map[string]http.Handler

// Open returns a gateway in front of the servers, at http://NAME/mcp. It returns after
// the gateway knows all that answer at once.
func (b Backends) Open(t *testing.T, change func(*config.Config)) *Gateway {
	t.Helper()
	way := ServeBackends(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b[r.Host].ServeHTTP(w, r) }))
	var cfg config.Config
	for _, name := range slices.Sorted(maps.Keys(b)) {
		cfg.Servers = append(cfg.Servers, config.Backend{Name: name, URL: "http://" + name + "/mcp"})
	}
	if change != nil {
		change(&cfg)
	}
	return Open(t, cfg, signalbox.Options{Transport: way})
}

// Open returns a gateway with the configuration.
func Open(t *testing.T, cfg config.Config, opt signalbox.Options) *Gateway {
	t.Helper()
	g := New(t, cfg, opt)
	ln := memnet.Listen()
	front := withProfiles(g)
	if cfg.Auth.IsZero() {
		front = canary.Authorized(front)
	}
	srv := &http.Server{Handler: front, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }() // ends with the Close below, which waits for it
	tr := ln.Transport()
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("closing the gateway: %v", err)
		}
		tr.CloseIdleConnections()
		srv.Close()
		<-served
	})
	synctest.Wait()
	return &Gateway{t, g, &http.Client{Transport: tr}, "/mcp"}
}

// withProfiles serves the profile that the path of a request names.
func withProfiles(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, name, ok := strings.Cut(r.URL.Path, "/p/"); ok {
			r = r.WithContext(signalbox.WithProfile(r.Context(), name))
		}
		next.ServeHTTP(w, r)
	})
}

// WithPrincipals admits only these principals, each by a token made of its name.
func WithPrincipals(cfg *config.Config, names ...string) {
	for _, name := range names {
		cfg.Auth.Tokens = append(cfg.Auth.Tokens, config.Token{Principal: name, Value: config.NewSecret(TokenOf(name))})
	}
}

// TokenOf returns the token of a principal.
func TokenOf(name string) string { return tokenMark + "-of-" + name + "-0123456789" }

// tokenMark is in each token of a principal.
const tokenMark = "canary-07b3d15c94aa61fe" //nolint:gosec // a credential of tests only

// Watch returns a watch for the tokens of principals, for those of a configuration, and for the
// token of clients without a principal.
func Watch(t *testing.T, cfg config.Config) *canary.Watch {
	t.Helper()
	w := canary.NewWatch(t)
	w.Add(t, "token of a principal", tokenMark)
	w.Add(t, "token of a client", canary.Token)
	for _, token := range cfg.Auth.Tokens {
		if text := token.Value.Reveal(); len(text) >= canary.Shortest {
			w.Add(t, "token of "+token.Principal, text)
		}
	}
	return w
}

// Header are headers of a request.
type Header map[string]string

// WithToken returns the headers of a principal.
func WithToken(name string) Header { return Header{"Authorization": "Bearer " + TokenOf(name)} }

// Response is an HTTP response that was read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Request returns a request to the gateway with the body and the headers.
func (h *Gateway) Request(ctx context.Context, verb, body string, headers ...Header) *http.Request {
	h.T.Helper()
	r, err := http.NewRequestWithContext(ctx, verb, "http://localhost"+h.path, strings.NewReader(body))
	if err != nil {
		h.T.Fatal(err)
	}
	if verb == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, hs := range headers {
		for k, v := range hs {
			r.Header.Set(k, v)
		}
	}
	return r
}

// Do sends a request and reads the whole response.
func (h *Gateway) Do(r *http.Request) Response {
	h.T.Helper()
	res, err := h.HTTP.Do(r)
	if err != nil {
		h.T.Fatalf("%s: %v", r.Method, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		h.T.Fatalf("reading the response: %v", err)
	}
	return Response{res.StatusCode, res.Header, string(body)}
}

// Post posts a message and reads the whole response.
func (h *Gateway) Post(body string, headers ...Header) Response {
	h.T.Helper()
	return h.Do(h.Request(h.T.Context(), http.MethodPost, body, headers...))
}

// Async posts, and returns a channel that receives the response.
func (h *Gateway) Async(body string, headers ...Header) <-chan Response {
	out := make(chan Response, 1)
	r := h.Request(h.T.Context(), http.MethodPost, body, headers...)
	go func() { out <- h.Do(r) }() // ends with the response
	return out
}

// Legacy opens a legacy session and returns its headers.
func (h *Gateway) Legacy(headers ...Header) Header {
	h.T.Helper()
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{"roots":{},"sampling":{},"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}`
	got := h.Post(hello, headers...)
	id := got.Header.Get("Mcp-Session-Id")
	if got.Status != 200 || id == "" {
		h.T.Fatalf("initialize: %d %s, session %q", got.Status, got.Body, id)
	}
	sess := Header{"Mcp-Session-Id": id, "Mcp-Protocol-Version": "2025-11-25"}
	for _, hs := range headers {
		maps.Copy(sess, hs)
	}
	if got := h.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess); got.Status != 202 {
		h.T.Fatalf("initialized: %d %s", got.Status, got.Body)
	}
	return sess
}

// LegacyRequest returns a legacy request; params is an object, or "" for none.
func LegacyRequest(id, method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"` + params + `}`
}

// ModernRequest returns a modern request and its headers; params is without braces.
func ModernRequest(id, method, name, params string) (string, Header) {
	hs := Header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if name != "" {
		hs["Mcp-Name"] = name
		params = `"name":"` + name + `",` + params
	}
	if params = strings.TrimSuffix(params, ","); params != "" {
		params += ","
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + meta + `}}`, hs
}

// PostModern makes a modern request.
func (h *Gateway) PostModern(id, method, name, params string, headers ...Header) Response {
	h.T.Helper()
	body, hs := ModernRequest(id, method, name, params)
	return h.Post(body, append(headers, hs)...)
}

// EventStream is an event stream that is read while it arrives.
type EventStream struct {
	t   *testing.T
	res *http.Response
	er  *frame.EventReader
}

// Listen opens the standalone stream of a session.
func (h *Gateway) Listen(headers ...Header) *EventStream {
	h.T.Helper()
	return h.Stream(h.Request(h.T.Context(), http.MethodGet, "", headers...))
}

// Stream makes a request that is answered with an event stream.
func (h *Gateway) Stream(r *http.Request) *EventStream {
	h.T.Helper()
	res, err := h.HTTP.Do(r)
	if err != nil {
		h.T.Fatal(err)
	}
	if ct := res.Header.Get("Content-Type"); res.StatusCode != 200 || ct != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		h.T.Fatalf("%s: %d %s %s; want a stream", r.Method, res.StatusCode, ct, body)
	}
	e := &EventStream{h.T, res, frame.NewEventReader(res.Body, 32<<20)}
	h.T.Cleanup(func() { res.Body.Close() })
	return e
}

// Next returns the next message. It waits at most an hour, because the keep-alive of a
// stream would otherwise make it wait for ever.
func (e *EventStream) Next() string {
	e.t.Helper()
	late := time.AfterFunc(time.Hour, func() { e.res.Body.Close() })
	defer late.Stop()
	for {
		ev, err := e.er.Next()
		if err != nil {
			e.t.Fatalf("next event: %v", err)
		}
		if len(ev.Data) > 0 {
			return string(ev.Data)
		}
	}
}

// WantSilence checks that no message arrives for that long, and closes the stream.
func (e *EventStream) WantSilence(d time.Duration) {
	e.t.Helper()
	got := make(chan string, 1)
	go func() { // ends with the stream
		defer close(got)
		for {
			ev, err := e.er.Next()
			if err != nil {
				return
			}
			if len(ev.Data) > 0 {
				got <- string(ev.Data)
				return
			}
		}
	}()
	time.Sleep(d) //nolint:forbidigo // in a bubble
	e.res.Body.Close()
	if m, ok := <-got; ok {
		e.t.Errorf("heard %s; want nothing", m)
	}
}

// ResultHandler returns a handler that answers a method with a result.
func ResultHandler(result string) func(*faultyserver.Exchange) {
	return func(x *faultyserver.Exchange) { x.Result(result) }
}

// ServerWithTools returns a server with these tools.
func ServerWithTools(modern bool, tools ...string) *faultyserver.HTTP {
	s := &faultyserver.HTTP{Modern: modern, Sessions: !modern, On: map[string]func(*faultyserver.Exchange){}}
	s.On["tools/list"] = ResultHandler(ToolList(tools...))
	return s
}

// ToolList returns a result with tools of these names.
func ToolList(tools ...string) string {
	items := make([]string, len(tools))
	for i, name := range tools {
		items[i] = `{"name":"` + name + `","inputSchema":{"type":"object"}}`
	}
	return `{"tools":[` + strings.Join(items, ",") + `]}`
}

// WantEqual reports an error if got is not want.
func WantEqual(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// New returns a gateway that is closed at the end of the test. Its log, at every level, and its
// status must not have a token of a client.
func New(t *testing.T, cfg config.Config, opt signalbox.Options) *signalbox.Gateway {
	t.Helper()
	w := Watch(t, cfg)
	var own slog.Handler
	if opt.Logger != nil {
		own = opt.Logger.Handler()
	}
	opt.Logger = slog.New(w.Handler(own))
	g, err := signalbox.New(cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Text("status", fmt.Sprintf("%+v", g.Status()))
		w.Text("metrics", metrics(t, g, cfg))
		for _, path := range []string{cfg.Audit.File, opt.StateFolder, opt.ListsFolder} {
			if path != "" {
				w.Files(t, path)
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// metrics returns the metrics of a gateway.
func metrics(t *testing.T, g *signalbox.Gateway, cfg config.Config) string {
	t.Helper()
	r := httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://localhost/metrics", nil)
	r.RemoteAddr = "127.0.0.1:1"
	if len(cfg.Auth.Tokens) > 0 {
		r.Header.Set("Authorization", "Bearer "+cfg.Auth.Tokens[0].Value.Reveal())
	}
	res := httptest.NewRecorder()
	g.Operations().ServeHTTP(res, r)
	return res.Body.String()
}

// ConfigOf returns a configuration with n backends at the same address.
func ConfigOf(n int) config.Config {
	var cfg config.Config
	for i := range n {
		cfg.Servers = append(cfg.Servers, config.Backend{Name: fmt.Sprintf("b%d", i), URL: "http://backend.test/mcp"})
	}
	return cfg
}

// ServeBackends serves h in memory until the test ends, and returns a transport to it,
// of the kind that a gateway has of its own.
func ServeBackends(t *testing.T, h http.Handler) *http1.Transport {
	t.Helper()
	ln := memnet.Listen()
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }() // ends with the Close below, which waits for it
	w := Watch(t, config.Config{})
	way := memnet.HTTP1(func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := ln.Dial(ctx)
		if err != nil {
			return nil, err
		}
		return w.Sent("server", c), nil
	})
	t.Cleanup(func() {
		way.CloseIdleConnections()
		srv.Close()
		<-served
	})
	return way
}

// ToolsChanged is in each notification of changed tools.
const ToolsChanged = `"method":"notifications/tools/list_changed"`

// Serve sends a request as a modern client and returns the backend that answered, and
// the time that it took.
func Serve(t *testing.T, g *signalbox.Gateway, method, params string) (by string, took time.Duration) {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{Version: mcp.LatestModern}
	began := time.Now()
	res, err := g.Serve(t.Context(), req, nil)
	took = time.Since(began)
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return "error: " + e.Message, took
	}
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		return "fault: " + f.Backend, took
	}
	if err != nil {
		t.Fatal(err)
	}
	_, by, _ = strings.Cut(string(res.Bytes()), `"by":"`)
	by, _, _ = strings.Cut(by, `"`)
	return by, took
}
