// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/demo"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// way is a path from a caller to the demo: through the gateway's server and client, in one
// revision, over one transport.
type way struct {
	version mcp.Version
	stdio   bool
}

func (w way) String() string {
	if w.stdio {
		return string(w.version) + " stdio"
	}
	return string(w.version) + " HTTP"
}

// everyWay runs a test with each way to the demo, in a synctest bubble.
func everyWay(t *testing.T, f func(t *testing.T, w way, h mcp.Handler)) {
	for _, v := range []mcp.Version{mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		for _, stdio := range []bool{false, true} {
			w := way{v, stdio}
			t.Run(w.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { f(t, w, w.open(t)) })
			})
		}
	}
}

// open returns the demo at the end of the way. Everything ends with the test.
func (w way) open(t *testing.T) mcp.Handler {
	s := server.New(demo.New(), server.Config{})
	cfg := client.Config{Name: "demo", Version: w.version}
	if w.stdio {
		return openPipe(t, s, cfg)
	}
	return openHTTP(t, s, cfg)
}

func openHTTP(t *testing.T, s *server.Server, cfg client.Config) mcp.Handler {
	ln := memnet.Listen()
	hs := &http.Server{Handler: s}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(ln) }() // ends with hs.Close below
	tr := ln.HTTP1()
	cfg.Transport = tr
	c := client.NewHTTP("http://127.0.0.1/mcp", cfg)
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), s.Close(), hs.Close()); err != nil {
			t.Error(err)
		}
		tr.CloseIdleConnections()
		<-served
	})
	return c
}

func openPipe(t *testing.T, s *server.Server, cfg client.Config) mcp.Handler {
	ctx := context.WithoutCancel(t.Context()) // t.Context() ends before the cleanup
	var pipes sync.WaitGroup
	c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := memnet.Pipe(1 << 20)
		pipes.Go(func() { // ends when the client closes its end; the cleanup waits
			_ = s.ServeStdio(ctx, theirs, theirs)
			_ = theirs.Close()
		})
		return ours, nil
	}, cfg)
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		pipes.Wait()
	})
	return c
}

// person is a Caller that records messages and answers questions.
type person struct {
	answer string
	after  int    // cancel after so many messages
	cancel func() // may be nil

	mu    sync.Mutex
	heard []string
	asked []string
}

func (p *person) Notify(_ context.Context, n *mcp.Notification) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	progress, _ := n.Params.Int(mcp.FieldProgress)
	data, _ := n.Params.Text(mcp.FieldData)
	p.heard = append(p.heard, strings.Repeat("*", int(progress))+data)
	if p.cancel != nil && len(p.heard) == p.after {
		p.cancel()
	}
	return nil
}

func (p *person) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return p.ask(ctx, req) }, nil
}

func (*person) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (p *person) ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, req.Method)
	return mcp.NewResult([]byte(p.answer))
}

func (p *person) says() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heard)
}

// request returns a request of a client that can be asked and wants log messages. Its session,
// if any, ends with the test.
func request(t *testing.T, method, params string) *mcp.Request {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{
		Info:         []byte(`{"name":"person","version":"1"}`),
		Capabilities: []byte(`{"elicitation":{"form":{}}}`),
	}
	req.LogLevel = mcp.LogInfo
	req.Scope = mcp.NewScope("s", nil)
	t.Cleanup(req.Scope.End)
	return req
}

// members are those of the demo's own results. The server or client may add others (how long a
// list may be cached, that a result is complete).
var members = []mcp.Field{
	mcp.FieldTools, mcp.FieldResources, mcp.FieldResourceTemplates, mcp.FieldPrompts,
	mcp.FieldContent, mcp.FieldStructuredContent, mcp.FieldIsError,
}

// Lists and results arrive byte for byte as the demo sent them, on every way.
func TestEveryWayCarriesTheSameBytes(t *testing.T) {
	everyWay(t, func(t *testing.T, w way, h mcp.Handler) {
		for _, r := range [][2]string{
			{"tools/list", ``}, {"resources/list", ``}, {"resources/templates/list", ``}, {"prompts/list", ``},
			{"tools/call", `{"name":"echo","arguments":{"text":"日本 <&> \u0000 1e400"}}`},
			{"tools/call", `{"name":"echo","arguments":{"text":7}}`},
			{"tools/call", `{"name":"roll_dice","arguments":{"count":99}}`},
		} {
			want, err := demo.New().Serve(t.Context(), request(t, r[0], r[1]), &person{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.Serve(t.Context(), request(t, r[0], r[1]), &person{})
			if err != nil {
				t.Fatalf("%s %s: %v", r[0], r[1], err)
			}
			for _, f := range members {
				if g, expected := string(got.Raw(f)), w.carried(want.Raw(f)); g != expected {
					t.Errorf("%s %s: %s is %s, want %s", r[0], r[1], f.Key(), g, expected)
				}
			}
		}
	})
}

// carried returns a JSON text as it arrives: "Messages are delimited by newlines,
// and MUST NOT contain embedded newlines" (2026-07-28, basic/transports/stdio,
// "Protocol Messages"), and on an event stream a data field is one line.
func (w way) carried(text []byte) string {
	if w.stdio {
		return strings.ReplaceAll(string(text), "\n", " ")
	}
	return string(text)
}

func TestEveryWayAnswers(t *testing.T) {
	everyWay(t, func(t *testing.T, _ way, h mcp.Handler) {
		for _, tt := range []struct{ method, params, want string }{
			{"tools/call", `{"name":"roll_dice"}`, `"structuredContent":{"dice":[`},
			{"resources/read", `{"uri":"demo://about"}`, `"mimeType":"text/markdown"`},
			{"resources/read", `{"uri":"demo://greeting/japanese"}`, `"text":"こんにちは"`},
			{"resources/read", `{"uri":"demo://languages"}`, `"text":"[\"arabic\",`},
			{"prompts/get", `{"name":"greet","arguments":{"language":"spanish"}}`, `"resource":{"uri":"demo://greeting/spanish"`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"language","value":"sw"}}`, `"values":["swahili"]`},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"demo://greeting/{language}"},"argument":{"name":"language","value":"j"}}`, `"values":["japanese"]`},
			{"server/discover", ``, `"title":"Signalbox demo"`},
		} {
			got, err := h.Serve(t.Context(), request(t, tt.method, tt.params), &person{})
			if err != nil {
				t.Fatalf("%s %s: %v", tt.method, tt.params, err)
			}
			if flat := strings.ReplaceAll(string(got.Bytes()), `": "`, `":"`); !strings.Contains(flat, tt.want) {
				t.Errorf("%s %s: %s; want it to contain %s", tt.method, tt.params, got.Bytes(), tt.want)
			}
		}
	})
}

func TestEveryWayRefuses(t *testing.T) {
	everyWay(t, func(t *testing.T, w way, h mcp.Handler) {
		missing := int64(mcp.CodeInvalidParams) // of a resource, in each era
		if w.version.Era() == mcp.EraLegacy {
			missing = mcp.CodeResourceNotFound
		}
		for _, tt := range []struct {
			method, params, want string
			code                 int64
		}{
			{"tools/call", `{"name":"nothing"}`, `unknown tool: "nothing"`, mcp.CodeInvalidParams},
			{"prompts/get", `{"name":"nothing"}`, `unknown prompt: "nothing"`, mcp.CodeInvalidParams},
			{"prompts/get", `{"name":"greet"}`, `prompt greet: the argument "language" is missing`, mcp.CodeInvalidParams},
			{"resources/read", `{"uri":"demo://nothing"}`, `resource not found`, missing},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":""}}`,
				`unknown reference: nothing to complete`, mcp.CodeInvalidParams},
		} {
			_, err := h.Serve(t.Context(), request(t, tt.method, tt.params), &person{})
			e, ok := errors.AsType[*mcp.Error](err)
			if !ok || e.Message != tt.want || e.Code != tt.code {
				t.Errorf("%s %s: %v, want %q with code %d", tt.method, tt.params, err, tt.want, tt.code)
			}
		}
	})
}

// Progress and log messages arrive in order, all before the result, in the time that the steps
// take.
func TestEveryWayShowsTheCountdown(t *testing.T) {
	everyWay(t, func(t *testing.T, _ way, h mcp.Handler) {
		p, start := &person{}, time.Now()
		req := request(t, "tools/call", `{"name":"countdown","arguments":{"from":3,"stepMs":1000},"_meta":{"progressToken":"up"}}`)
		got, err := h.Serve(t.Context(), req, p)
		if err != nil || !strings.Contains(string(got.Bytes()), "Lift-off after 3 steps.") {
			t.Fatalf("got %v, %v", got, err)
		}
		if want := []string{"*", "2 to go", "**", "1 to go", "***", "0 to go"}; !slices.Equal(p.says(), want) {
			t.Errorf("heard %q, want %q", p.says(), want)
		}
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("it took %v, want 3s", took)
		}
	})
}

// A call of a minute, which is longer than the timeout of many proxies for a silent
// connection, returns its result.
func TestEveryWaySurvivesAMinute(t *testing.T) {
	everyWay(t, func(t *testing.T, _ way, h mcp.Handler) {
		req := request(t, "tools/call", `{"name":"countdown","arguments":{"from":60,"stepMs":1000}}`)
		start := time.Now()
		got, err := h.Serve(t.Context(), req, &person{})
		if err != nil || !strings.Contains(string(got.Bytes()), "Lift-off after 60 steps.") || time.Since(start) < time.Minute {
			t.Errorf("got %v, %v after %v", got, err, time.Since(start))
		}
	})
}

// A canceled call sends no more messages, and returns at once.
func TestEveryWayCancels(t *testing.T) {
	everyWay(t, func(t *testing.T, _ way, h mcp.Handler) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := &person{after: 4, cancel: cancel}
		start := time.Now()
		req := request(t, "tools/call", `{"name":"countdown","arguments":{"from":60,"stepMs":1000},"_meta":{"progressToken":1}}`)
		if res, err := h.Serve(ctx, req, p); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v, want the context's error", res, err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the cancelled call ended after %v", took)
		}
		synctest.Wait()
		heard := len(p.says())
		time.Sleep(5 * time.Second)
		if now := len(p.says()); now != heard {
			t.Errorf("%d messages after the end", now-heard)
		}
	})
}

// The question reaches the client and the answer the tool, even in a revision without such
// questions: the client has declared the capability.
func TestEveryWayAsks(t *testing.T) {
	everyWay(t, func(t *testing.T, _ way, h mcp.Handler) {
		p := &person{answer: `{"action":"accept","content":{"name":"Ada"}}`}
		got, err := h.Serve(t.Context(), request(t, "tools/call", `{"name":"introduce"}`), p)
		if err != nil {
			t.Fatal(err)
		}
		want, asked := "Hello, Ada!", []string{"elicitation/create"}
		if !strings.Contains(string(got.Bytes()), want) || !slices.Equal(p.asked, asked) {
			t.Errorf("got %s after %q; want %q after %q", got.Bytes(), p.asked, want, asked)
		}
	})
}

// Concurrent calls on one way do not receive each other's progress, because of their tokens.
// Log messages of a pipe do not identify a call.
func TestEveryWayKeepsCallsApart(t *testing.T) {
	everyWay(t, func(t *testing.T, _ way, h mcp.Handler) {
		var calls sync.WaitGroup
		for _, from := range []string{"1", "2", "3", "4", "5", "6"} {
			req := request(t, "tools/call", `{"name":"countdown","arguments":{"from":`+from+`},"_meta":{"progressToken":`+from+`}}`)
			calls.Go(func() { // ends with its call, which takes two seconds at most
				p := &person{}
				got, err := h.Serve(t.Context(), req, p)
				if err != nil || !strings.Contains(string(got.Bytes()), "Lift-off after "+from+" steps.") {
					t.Errorf("from %s: %v, %v", from, got, err)
				}
				n := int(from[0] - '0')
				steps := slices.DeleteFunc(p.says(), func(s string) bool { return s[0] != '*' })
				if len(steps) != n || steps[n-1] != strings.Repeat("*", n) {
					t.Errorf("from %s: heard %q", from, steps)
				}
			})
		}
		calls.Wait()
	})
}
