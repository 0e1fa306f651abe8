// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// The tests of the regress_*_test.go files replay published defects of other gateways,
// by their numbers in docs/regress.md, at a whole gateway: real clients over HTTP, and
// servers that the test controls.

// gateway is a gateway in memory. It must be used inside a bubble.
type gateway struct {
	t    *testing.T
	g    *signalbox.Gateway
	http *http.Client
}

// backends are the servers of a gateway, by the names of their backends.
type backends map[string]http.Handler

// open returns a gateway in front of the servers, at http://NAME/mcp. It returns after
// the gateway knows all that answer at once.
func (b backends) open(t *testing.T, change func(*config.Config)) *gateway {
	t.Helper()
	way := serveBackends(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b[r.Host].ServeHTTP(w, r) }))
	var cfg config.Config
	for _, name := range slices.Sorted(maps.Keys(b)) {
		cfg.Servers = append(cfg.Servers, config.Backend{Name: name, URL: "http://" + name + "/mcp"})
	}
	if change != nil {
		change(&cfg)
	}
	return openGateway(t, cfg, signalbox.Options{Transport: way})
}

// openGateway returns a gateway with the configuration.
func openGateway(t *testing.T, cfg config.Config, opt signalbox.Options) *gateway {
	t.Helper()
	g := newGateway(t, cfg, opt)
	ln := memnet.Listen()
	srv := &http.Server{Handler: g}
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
	return &gateway{t, g, &http.Client{Transport: tr}}
}

// withPrincipals admits only these principals, each by a token made of its name.
func withPrincipals(cfg *config.Config, names ...string) {
	for _, name := range names {
		cfg.Auth.Tokens = append(cfg.Auth.Tokens, config.Token{Principal: name, Value: config.NewSecret(tokenOf(name))})
	}
}

func tokenOf(name string) string { return "token-of-" + name + "-0123456789" }

// header are headers of a request.
type header map[string]string

// withToken returns the headers of a principal.
func withToken(name string) header { return header{"Authorization": "Bearer " + tokenOf(name)} }

// response is an HTTP response that was read to its end.
type response struct {
	status int
	header http.Header
	body   string
}

func (h *gateway) request(ctx context.Context, verb, body string, headers ...header) *http.Request {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, verb, "http://localhost/mcp", strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
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

// do sends a request and reads the whole response.
func (h *gateway) do(r *http.Request) response {
	h.t.Helper()
	res, err := h.http.Do(r)
	if err != nil {
		h.t.Fatalf("%s: %v", r.Method, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatalf("reading the response: %v", err)
	}
	return response{res.StatusCode, res.Header, string(body)}
}

func (h *gateway) post(body string, headers ...header) response {
	h.t.Helper()
	return h.do(h.request(h.t.Context(), http.MethodPost, body, headers...))
}

// async posts, and returns a channel that receives the response.
func (h *gateway) async(body string, headers ...header) <-chan response {
	out := make(chan response, 1)
	r := h.request(h.t.Context(), http.MethodPost, body, headers...)
	go func() { out <- h.do(r) }() // ends with the response
	return out
}

// legacy opens a legacy session and returns its headers.
func (h *gateway) legacy(headers ...header) header {
	h.t.Helper()
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{"roots":{},"sampling":{},"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}`
	got := h.post(hello, headers...)
	id := got.header.Get("Mcp-Session-Id")
	if got.status != 200 || id == "" {
		h.t.Fatalf("initialize: %d %s, session %q", got.status, got.body, id)
	}
	sess := header{"Mcp-Session-Id": id, "Mcp-Protocol-Version": "2025-11-25"}
	for _, hs := range headers {
		maps.Copy(sess, hs)
	}
	if got := h.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess); got.status != 202 {
		h.t.Fatalf("initialized: %d %s", got.status, got.body)
	}
	return sess
}

// legacyRequest returns a legacy request; params is an object, or "" for none.
func legacyRequest(id, method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"` + params + `}`
}

// modernRequest returns a modern request and its headers; params is without braces.
func modernRequest(id, method, name, params string) (string, header) {
	hs := header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
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

// postModern makes a modern request.
func (h *gateway) postModern(id, method, name, params string, headers ...header) response {
	h.t.Helper()
	body, hs := modernRequest(id, method, name, params)
	return h.post(body, append(headers, hs)...)
}

// eventStream is an event stream that is read while it arrives.
type eventStream struct {
	t   *testing.T
	res *http.Response
	er  *frame.EventReader
}

// listen opens the standalone stream of a session.
func (h *gateway) listen(headers ...header) *eventStream {
	h.t.Helper()
	return h.stream(h.request(h.t.Context(), http.MethodGet, "", headers...))
}

func (h *gateway) stream(r *http.Request) *eventStream {
	h.t.Helper()
	res, err := h.http.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	if ct := res.Header.Get("Content-Type"); res.StatusCode != 200 || ct != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		h.t.Fatalf("%s: %d %s %s; want a stream", r.Method, res.StatusCode, ct, body)
	}
	e := &eventStream{h.t, res, frame.NewEventReader(res.Body, 32<<20)}
	h.t.Cleanup(func() { res.Body.Close() })
	return e
}

// next returns the next message. It waits at most an hour, because the keep-alive of a
// stream would otherwise make it wait for ever.
func (e *eventStream) next() string {
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

// wantSilence checks that no message arrives for that long, and closes the stream.
func (e *eventStream) wantSilence(d time.Duration) {
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
	time.Sleep(d)
	e.res.Body.Close()
	if m, ok := <-got; ok {
		e.t.Errorf("heard %s; want nothing", m)
	}
}

// resultHandler returns a handler that answers a method with a result.
func resultHandler(result string) func(*faultyserver.Exchange) {
	return func(x *faultyserver.Exchange) { x.Result(result) }
}

// serverWithTools returns a server with these tools.
func serverWithTools(modern bool, tools ...string) *faultyserver.HTTP {
	s := &faultyserver.HTTP{Modern: modern, Sessions: !modern, On: map[string]func(*faultyserver.Exchange){}}
	s.On["tools/list"] = resultHandler(toolList(tools...))
	return s
}

func toolList(tools ...string) string {
	items := make([]string, len(tools))
	for i, name := range tools {
		items[i] = `{"name":"` + name + `","inputSchema":{"type":"object"}}`
	}
	return `{"tools":[` + strings.Join(items, ",") + `]}`
}

func wantEqual(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}
