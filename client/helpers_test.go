// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain(os.Getenv(childEnv)))
	}
	// Parallel tests wait for real time rather than for a processor.
	if err := flag.Set("test.parallel", "16"); err != nil {
		log.Fatal(err)
	}
	goleak.VerifyTestMain(m)
}

// inBubble runs a test with its own time. What it starts ends with it.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// dialHTTP returns a client of the handler. Both end with the test.
func dialHTTP(t *testing.T, h http.Handler, cfg client.Config) *client.Client {
	t.Helper()
	return dialHTTPThrough(t, h, cfg, func(rt http.RoundTripper) http.RoundTripper { return rt })
}

// dialHTTPThrough is dialHTTP with a wrapper around its transport.
func dialHTTPThrough(t *testing.T, h http.Handler, cfg client.Config, around func(http.RoundTripper) http.RoundTripper) *client.Client {
	t.Helper()
	return dialThrough(t, h, cfg, around, client.NewHTTP)
}

// dialSSE is dialHTTP for the transport of 2024-11-05.
func dialSSE(t *testing.T, h http.Handler, cfg client.Config) *client.Client {
	t.Helper()
	return dialThrough(t, h, cfg, func(rt http.RoundTripper) http.RoundTripper { return rt }, client.NewSSE)
}

func dialThrough(t *testing.T, h http.Handler, cfg client.Config, around func(http.RoundTripper) http.RoundTripper,
	dial func(string, client.Config) *client.Client,
) *client.Client {
	t.Helper()
	tr := serve(t, h).HTTP1()
	if cfg.Transport == nil {
		cfg.Transport = around(tr)
	}
	if cfg.Name == "" {
		cfg.Name = "b"
	}
	c := dial("http://backend.test/mcp", cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		tr.CloseIdleConnections()
	})
	return c
}

// serve serves the handler until the test ends, and with it what was started later.
func serve(t *testing.T, h http.Handler) *memnet.Listener {
	t.Helper()
	ln := memnet.Listen()
	srv := &http.Server{Handler: h, ErrorLog: discardLog()}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }() // ends with srv.Close below
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return ln
}

// dialLines returns a client of the server, and a function that counts its connections.
func dialLines(t *testing.T, s *faultyserver.Lines, cfg client.Config) (c *client.Client, opened func() int) {
	t.Helper()
	var (
		mu sync.Mutex
		wg sync.WaitGroup
		n  int
	)
	open := func(context.Context) (io.ReadWriteCloser, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		a, b := memnet.Pipe(1 << 20)
		wg.Go(func() { s.Serve(b) }) // ends when the client closes its end; waited for below
		return a, nil
	}
	if cfg.Name == "" {
		cfg.Name = "b"
	}
	c = client.NewPipe(open, cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		wg.Wait()
	})
	return c, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// recorder is a caller that records what it receives.
type recorder struct {
	answer func(ctx context.Context, req *mcp.Request) (*mcp.Result, error)
	block  chan struct{} // if set, Notify waits for it

	mu   sync.Mutex
	got  []string
	asks []string
}

func (r *recorder) Notify(ctx context.Context, n *mcp.Notification) error {
	if r.block != nil {
		select {
		case <-r.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, strings.TrimSpace(strings.TrimPrefix(n.Method, "notifications/")+" "+string(n.Params.Bytes())))
	return nil
}

func (r *recorder) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return r.ask(ctx, req) }, nil
}

func (*recorder) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (r *recorder) ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	r.note(req.Method)
	if r.answer == nil {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "not here")
	}
	return r.answer(ctx, req)
}

func (r *recorder) note(method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asks = append(r.asks, method)
}

func (r *recorder) notifications() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *recorder) asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asks)
}

// respondWith returns a response to every request of the server.
func respondWith(result string) func(context.Context, *mcp.Request) (*mcp.Result, error) {
	return func(context.Context, *mcp.Request) (*mcp.Result, error) { return mcp.NewResult([]byte(result)) }
}

// request makes a request of a client without capabilities.
func request(t testing.TB, method, params string) *mcp.Request {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatalf("request %s %s: %v", method, params, err)
	}
	req.Client = &mcp.Peer{Info: []byte(`{"name":"test","version":"1"}`)}
	return req
}

// in puts a request into a scope.
func in(s *mcp.Scope, req *mcp.Request) *mcp.Request {
	req.Scope = s
	return req
}

func echo(t testing.TB) *mcp.Request {
	return request(t, "tools/call", `{"name":"echo","arguments":{}}`)
}

// running is a request in progress.
type running struct {
	done   chan struct{}
	cancel context.CancelFunc
	res    *mcp.Result
	err    error
}

// launch serves a request in a goroutine, which the test waits for.
func launch(t *testing.T, h mcp.Handler, req *mcp.Request, caller mcp.Caller) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{done: make(chan struct{}), cancel: cancel}
	go func() { // ends with the request; the cleanup waits for it
		defer close(r.done)
		r.res, r.err = h.Serve(ctx, req, caller)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// wantResult waits for the request's result.
func (r *running) wantResult(t *testing.T, want string) {
	t.Helper()
	<-r.done
	wantResult(t, r.res, r.err, want)
}

func wantResult(t *testing.T, res *mcp.Result, err error, want string) {
	t.Helper()
	if err != nil {
		t.Fatalf("error %v, want the result %s", err, want)
	}
	if got := string(res.Bytes()); got != want {
		t.Errorf("result %s, want %s", got, want)
	}
}

// wantFault checks a fault of the gateway.
func wantFault(t *testing.T, err error, code int64, outcome mcp.Outcome, text string) {
	t.Helper()
	f, ok := errors.AsType[*mcp.Fault](err)
	if !ok {
		t.Fatalf("error %v (%T), want a fault", err, err)
	}
	if f.Code != code || f.Outcome != outcome || f.Backend != "b" || !strings.Contains(f.Message, text) {
		t.Errorf("fault {%d %s %q %q}, want {%d %s \"b\" ...%q...}", f.Code, f.Outcome, f.Backend, f.Message, code, outcome, text)
	}
}

// wantError checks an error of the backend.
func wantError(t *testing.T, err error, code int64) {
	t.Helper()
	if !errors.Is(err, &mcp.Error{Code: code}) {
		t.Fatalf("error %v (%T), want one of the backend with code %d", err, err, code)
	}
}

func wantStrings(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// within serves a request with a deadline, so that a hang is a failure.
func within(t *testing.T, h mcp.Handler, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	return h.Serve(ctx, req, caller)
}

// last returns the last message of a method that a server has received.
func last(s *faultyserver.HTTP, method string) faultyserver.Seen {
	for _, r := range slices.Backward(s.Seen()) {
		if r.Method == method {
			return r
		}
	}
	return faultyserver.Seen{}
}
