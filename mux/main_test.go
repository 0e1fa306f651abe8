// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a client that records notifications and answers requests.
type recorder struct {
	answers map[string]string // by method; without an answer it returns an error

	mu    sync.Mutex
	heard []string
	asked []string
}

func (a *recorder) Notify(_ context.Context, n *mcp.Notification) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = append(a.heard, strings.TrimPrefix(n.Method, "notifications/")+" "+string(n.Params.Bytes()))
	return nil
}

func (a *recorder) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return a.ask(ctx, req) }, nil
}

func (*recorder) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (a *recorder) ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, req.Method+" "+string(req.Params.Bytes()))
	text, ok := a.answers[req.Method]
	if !ok {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s here", req.Method)
	}
	return mcp.NewResult([]byte(text))
}

// notifications returns the notifications since the last call.
func (a *recorder) notifications() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	heard := a.heard
	a.heard = nil
	return heard
}

const (
	everything = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`
	takesTasks = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// request is a request of a modern client with all capabilities.
func request(t testing.TB, method, params string) *mcp.Request {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{Version: mcp.LatestModern, Capabilities: []byte(everything)}
	req.TakesInputRequired = true
	return req
}

// serve returns the bytes of the result.
func serve(t testing.TB, m *Mux, req *mcp.Request) (string, error) {
	t.Helper()
	res, err := m.Serve(t.Context(), req, &recorder{})
	if err != nil {
		return "", err
	}
	return string(res.Bytes()), nil
}

// answer serves a request that must succeed.
func answer(t testing.TB, m *Mux, method, params string) string {
	t.Helper()
	got, err := serve(t, m, request(t, method, params))
	if err != nil {
		t.Fatalf("%s %s: %v", method, params, err)
	}
	return got
}

// refused checks that a request fails with an error of the protocol.
func refused(t testing.TB, m *Mux, req *mcp.Request, code int64, message string) {
	t.Helper()
	got, err := serve(t, m, req)
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Message, message) {
		t.Errorf("%s %s: got %s, %v; want %q with code %d", req.Method, req.Params.Bytes(), got, err, message, code)
	}
}

func equal(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func heard(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// hello is a tool with that name.
func hello(name string) Tool {
	return Tool{Name: name, Call: func(context.Context, *Call) (*Result, error) { return Say("Hello from %s.", name), nil }}
}

func doing(call func(ctx context.Context, call *Call) (*Result, error)) *Mux {
	return New(Tool{Name: "x", Call: call})
}

func note(uri string) Resource {
	return Resource{URI: uri, Name: "note", Read: func(_ context.Context, call *Call) ([]Contents, error) {
		return []Contents{TextContents(call.URI(), "text/plain", "noted")}, nil
	}}
}

func verse(name string, arguments ...Argument) Prompt {
	return Prompt{Name: name, Arguments: arguments, Get: func(context.Context, *Call) ([]Message, error) {
		return []Message{User(Text("Roses are red")), Assistant(Text("violets are blue"))}, nil
	}}
}

// listeners returns the number of listening clients.
func listeners(m *Mux) int {
	return reflect.ValueOf(&m.feed).Elem().FieldByName("listeners").Len()
}
