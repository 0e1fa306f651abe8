// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

var http2 = flag.Bool("http2", false, "have all clients speak HTTP/2, but for those who are here to say bytes of HTTP/1.1")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// speakHTTP2 makes the client use HTTP/2 from now on.
func (s *site) speakHTTP2() { s.speak(s.net.HTTP2()) }

func (s *site) speak(tr *http.Transport) {
	tr.DisableCompression = true
	s.tr, s.client = tr, &http.Client{Transport: tr}
}

// site is a Server behind a real http.Server, in memory, and a real client of it. It must
// be used inside a bubble.
type site struct {
	t      *testing.T
	server *server.Server
	http   *http.Server
	net    *memnet.Listener
	tr     *http.Transport
	client *http.Client
}

// bubble runs f in a bubble with a site that serves h, and ends the site afterwards, so
// that whatever is left running fails the test.
func bubble(t *testing.T, h mcp.Handler, cfg server.Config, f func(*site)) {
	t.Helper()
	bubbleWith(t, h, cfg, func(*http.Server) {}, f)
}

// bubbleWith is bubble with an http.Server that tune can configure.
func bubbleWith(t *testing.T, h mcp.Handler, cfg server.Config, tune func(*http.Server), f func(*site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{t: t, server: server.New(h, cfg), net: memnet.Listen()}
		s.http = &http.Server{Handler: s.server, Protocols: memnet.AnyHTTP()}
		tune(s.http)
		s.speak(s.net.Transport())
		if *http2 {
			s.speakHTTP2()
		}
		served := make(chan error, 1)
		go func() { served <- s.http.Serve(s.net) }() // ends with the Close below
		f(s)
		if err := s.server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		s.tr.CloseIdleConnections()
		if err := s.http.Close(); err != nil {
			t.Errorf("closing the HTTP server: %v", err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve = %v, want http.ErrServerClosed", err)
		}
		time.Sleep(time.Second) // net/http lingers for half of that on a connection that it closes
	})
}

// reply is an HTTP response that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// isTruncated reports whether the error means that a body ended prematurely.
func isTruncated(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || err != nil && strings.Contains(err.Error(), "stream error: ") // of HTTP/2, for which net/http has no type
}

// events returns the data of the messages of an event stream.
func (r reply) events(t *testing.T) []string {
	t.Helper()
	if got := r.header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("events come as %q", got)
	}
	var all []string
	er := frame.NewEventReader(strings.NewReader(r.body), 4<<20)
	for {
		e, err := er.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("reading events of %q: %v", r.body, err)
		}
		if len(e.Data) > 0 { // else it only has the id or the retry time
			all = append(all, string(e.Data))
		}
	}
}

// headers are the headers of a request; the value "-" removes a header.
type headers map[string]string

func (s *site) request(ctx context.Context, method, body string, hs ...headers) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/mcp", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range hs {
		for k, v := range h {
			switch {
			case v == "-":
				r.Header.Del(k)
			case k == "Host":
				r.Host = v
			default:
				r.Header.Set(k, v)
			}
		}
	}
	return r
}

// do sends a request and reads the whole response.
func (s *site) do(r *http.Request) reply {
	s.t.Helper()
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("reading the response: %v", err)
	}
	return reply{res.StatusCode, res.Header, string(body)}
}

func (s *site) post(body string, hs ...headers) reply {
	s.t.Helper()
	return s.do(s.request(s.ctx(), http.MethodPost, body, hs...))
}

// async sends a request and returns a channel with its reply.
func (s *site) async(r *http.Request) <-chan reply {
	out := make(chan reply, 1)
	go func() { out <- s.do(r) }() // ends with the response
	return out
}

// sleep advances the time of the bubble.
func sleep(d time.Duration) { time.Sleep(d) }

// advance advances the time and waits until every goroutine is blocked.
func (s *site) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// ctx returns the context of the bubble.
func (s *site) ctx() context.Context { return s.t.Context() }

// open sends a request and returns the event stream of the response.
func (s *site) open(ctx context.Context, method, body string, hs ...headers) *stream {
	s.t.Helper()
	res, err := s.client.Do(s.request(ctx, method, body, hs...))
	if err != nil {
		s.t.Fatalf("%s: %v", method, err)
	}
	if ct := res.Header.Get("Content-Type"); res.StatusCode != 200 || ct != "text/event-stream" {
		b, _ := io.ReadAll(res.Body)
		s.t.Fatalf("%s answered %d %s %s; want an event stream", method, res.StatusCode, ct, b)
	}
	return &stream{t: s.t, res: res, er: frame.NewEventReader(res.Body, 1<<20)}
}

// stream is an event stream that is read as it arrives.
type stream struct {
	t   *testing.T
	res *http.Response
	er  *frame.EventReader

	last  string        // id
	retry time.Duration // the last retry field
}

// patience bounds the wait for a message, in the time of the bubble: keep-alives hold a
// stream open for ever, and so would a missing message its test.
const patience = 24 * time.Hour

// read returns the next event that has a message, or the error after the last.
func (st *stream) read() (string, error) {
	late := time.AfterFunc(patience, func() { st.res.Body.Close() })
	defer late.Stop()
	for {
		e, err := st.er.Next()
		if err != nil {
			return "", err
		}
		if e.HasID {
			st.last = e.ID
		}
		if e.Retry >= 0 {
			st.retry = e.Retry
		}
		if len(e.Data) > 0 {
			return string(e.Data), nil
		}
	}
}

// next returns the data of the next message.
func (st *stream) next() string {
	st.t.Helper()
	data, err := st.read()
	if err != nil {
		st.t.Fatalf("next event: %v", err)
	}
	return data
}

// end checks that nothing follows, except a retry time.
func (st *stream) end() {
	st.t.Helper()
	if data, err := st.read(); !errors.Is(err, io.EOF) {
		st.t.Errorf("after the last event: %q, %v; want the end", data, err)
	}
	st.res.Body.Close()
}

func (st *stream) close() { st.res.Body.Close() }

// meta is the metadata of a modern request without the braces.
const meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

// modern returns a modern request: params without braces, _meta added.
func modern(id, method, params string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `"_meta":{` + meta + `}}}`
}

// modernHeaders returns the headers of a modern request.
func modernHeaders(method, name string) headers {
	h := headers{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if name != "" {
		h["Mcp-Name"] = name
	}
	return h
}

// call calls the tool of that name as a modern client.
func (s *site) call(name string) reply {
	s.t.Helper()
	return s.post(modern("1", "tools/call", `"name":"`+name+`"`), modernHeaders("tools/call", name))
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{"roots":{},"sampling":{},"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}`

// session opens a legacy session and returns the headers of its requests.
func (s *site) session() headers {
	s.t.Helper()
	h := s.handshake(initialize)
	if got := s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, h); got.status != 202 {
		s.t.Fatalf("initialized: %d %s; want 202", got.status, got.body)
	}
	return h
}

// handshake sends only initialize.
func (s *site) handshake(initialize string) headers {
	s.t.Helper()
	got := s.post(initialize)
	id := got.header.Get("Mcp-Session-Id")
	if got.status != 200 || id == "" {
		s.t.Fatalf("initialize: %d %s, session %q; want 200 and a session", got.status, got.body, id)
	}
	return headers{"Mcp-Session-Id": id}
}

// keepScope are tools with a list, which keeps the scope of the session that requests it.
func keepScope(scope **mcp.Scope) map[string]mcp.HandlerFunc {
	return map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		*scope = req.Scope
		return result(`{"tools":[]}`)
	}}
}

// withScope is bubble with a legacy session and its scope, as the Handler gets it.
func withScope(t *testing.T, f func(s *site, sess headers, scope *mcp.Scope)) {
	t.Helper()
	var scope *mcp.Scope
	bubble(t, tools(keepScope(&scope)), server.Config{}, func(s *site) {
		sess := s.session()
		s.post(raw("1", "tools/list", ""), sess)
		f(s, sess, scope)
	})
}

// result returns the result with the JSON text.
func result(text string) (*mcp.Result, error) { return mcp.NewResult([]byte(text)) }

// note returns the notification with the JSON text of its parameters.
func note(t *testing.T, method, params string) *mcp.Notification {
	t.Helper()
	n, err := mcp.NewNotification(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"extensions":{"x/y":{}}},` +
	`"instructions":"be <kind>","ttlMs":1,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`

// tools is a Handler with a server/discover and the tools of the map.
func tools(m map[string]mcp.HandlerFunc) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		switch req.Method {
		case "server/discover":
			return result(discovered)
		case "tools/call":
			name, _ := req.Params.Text(mcp.FieldName)
			if f, ok := m[name]; ok {
				return f(ctx, req, c)
			}
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown tool %q", name)
		case "subscriptions/listen":
			return listenUntilEnd(ctx, c)
		default:
			if f, ok := m[req.Method]; ok {
				return f(ctx, req, c)
			}
			return nil, mcp.Errorf(mcp.CodeMethodNotFound, "unknown method %q", req.Method)
		}
	})
}

// listenUntilEnd serves a listen on which nothing happens.
func listenUntilEnd(ctx context.Context, c mcp.Caller) (*mcp.Result, error) {
	n, err := mcp.NewNotification("notifications/subscriptions/acknowledged", []byte(`{"notifications":{}}`))
	if err != nil {
		return nil, err
	}
	if err := c.Notify(ctx, n); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return result(`{}`)
}

func fixedResult(text string) mcp.HandlerFunc {
	return func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return result(text) }
}

// gate is a tool that waits until it is released, or for its context.
type gate struct {
	entered chan struct{}
	release chan struct{}
	cause   chan error // why the context ended
}

func newGate() *gate {
	return &gate{entered: make(chan struct{}, 64), release: make(chan struct{}), cause: make(chan error, 64)}
}

func (g *gate) serve(ctx context.Context, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	g.entered <- struct{}{}
	select {
	case <-g.release:
		return result(`{"content":[]}`)
	case <-ctx.Done():
		g.cause <- context.Cause(ctx)
		return nil, ctx.Err()
	}
}

// gated runs f in a bubble with a site with a gate as its tool "wait", and so is the
// Handler of notifications/roots/list_changed. The gate belongs to the bubble.
func gated(t *testing.T, cfg server.Config, f func(*site, *gate)) {
	t.Helper()
	var g *gate
	wait := func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		return g.serve(ctx, req, c)
	}
	h := tools(map[string]mcp.HandlerFunc{"wait": wait, "notifications/roots/list_changed": wait, "echo": fixedResult(`{"content":[]}`)})
	bubble(t, h, cfg, func(s *site) {
		g = newGate()
		f(s, g)
	})
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// ctxType is short for the type of a Handler's first parameter.
type ctxType = context.Context

// noLength hides the length of a body.
type noLength struct{ io.Reader }

func (noLength) Close() error { return nil }

// slowBody is a body that arrives in pieces.
type slowBody struct {
	every time.Duration
	text  string // endless blanks if empty
	piece int
}

func (d *slowBody) Read(p []byte) (int, error) {
	time.Sleep(d.every)
	if d.text == "" && d.piece == 0 {
		p[0] = ' '
		return 1, nil
	}
	if d.text == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), d.piece)], d.text)
	d.text = d.text[n:]
	return n, nil
}

// identified returns an authentication that finds a principal and nothing else.
func identified(principal func(*http.Request) (string, error)) func(*http.Request) (*mcp.Identity, error) {
	return func(r *http.Request) (*mcp.Identity, error) {
		name, err := principal(r)
		return &mcp.Identity{Principal: name}, err
	}
}
