// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// pass advances the time of a bubble.
func pass(d time.Duration) { time.Sleep(d) }

// everyEra runs a test of a Mux behind the edges of a server and a client, in each
// revision.
func everyEra(t *testing.T, build func() *mux.Mux, f func(t *testing.T, v mcp.Version, m *mux.Mux, h mcp.Handler)) {
	for _, v := range append(mcp.ModernVersions(), mcp.LegacyVersions()...) {
		if v == mcp.V20241105 {
			continue // which uses another transport
		}
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := build()
				f(t, v, m, open(t, v, m))
			})
		})
	}
}

type userKey struct{}

// signed sets the sender of each request, as middleware does.
func signed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, "Ada")))
	})
}

// open returns a client of the revision, connected to the Mux.
func open(t *testing.T, v mcp.Version, m *mux.Mux) mcp.Handler {
	s := server.New(m, server.Config{})
	ln := memnet.Listen()
	hs := &http.Server{Handler: signed(s)}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(ln) }() // ends with hs.Close below
	tr := ln.HTTP1()
	c := client.NewHTTP("http://127.0.0.1/mcp", client.Config{Version: v, Transport: tr})
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), s.Close(), m.Close(), hs.Close()); err != nil {
			t.Error(err)
		}
		tr.CloseIdleConnections()
		<-served
	})
	return c
}

// person answers each form, and records notifications.
type person struct{ heard chan string }

// next returns the next notification, or reports that an hour has passed.
func (p person) next() string {
	select {
	case what := <-p.heard:
		return what
	case <-time.After(time.Hour):
		return "nothing for an hour"
	}
}

func (p person) Notify(_ context.Context, n *mcp.Notification) error {
	p.heard <- strings.TrimPrefix(n.Method, "notifications/")
	return nil
}

func (p person) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return p.ask(ctx, req) }, nil
}

func (person) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (person) ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	if !strings.Contains(string(req.Params.Bytes()), `"message":"Who?"`) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "what?")
	}
	return mcp.NewResult([]byte(`{"action":"accept","content":{"name":"Ada"}}`))
}

func ask(t *testing.T, h mcp.Handler, p person, method, params string) (*mcp.Result, error) {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{Capabilities: []byte(`{"elicitation":{"form":{}}}`)}
	req.Scope = mcp.NewScope("s", nil)
	t.Cleanup(req.Scope.End)
	return h.Serve(t.Context(), req, p)
}

const nameForm = `{"type":"object","properties":{"name":{"type":"string"}}}`

// greeter has two tools that ask for a name and greet, by Ask and by Input, and one
// that does so in the background.
func greeter() *mux.Mux {
	who := mux.Elicit("who", "Who?", nameForm)
	hello := func(a mux.Answer) *mux.Result {
		var in struct {
			Name string `json:"name"`
		}
		a.Content(&in)
		return mux.Say("Hello, %s.", in.Name)
	}
	asks := func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
		a, err := call.Ask(ctx, who)
		return hello(a), err
	}
	return mux.New(
		mux.Tool{Name: "ask", Call: asks},
		mux.Tool{Name: "input", Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
			all, err := call.Input(ctx, who)
			return hello(all["who"]), err
		}},
		mux.Tool{Name: "background", Task: mux.TaskOptional, Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
			return call.Background(ctx, asks)
		}})
}

// The same function asks clients of every revision, each in its own way.
func TestEveryEraAsks(t *testing.T) {
	everyEra(t, greeter, func(t *testing.T, _ mcp.Version, _ *mux.Mux, h mcp.Handler) {
		for _, tool := range []string{"ask", "input", "background"} {
			res, err := ask(t, h, person{}, "tools/call", `{"name":"`+tool+`"}`)
			if err != nil || string(res.Raw(mcp.FieldContent)) != `[{"type":"text","text":"Hello, Ada."}]` {
				t.Errorf("%s: %v, %v", tool, res, err)
			}
		}
	})
}

// listens records notifications until the test's end.
func listens(t *testing.T, h mcp.Handler, filter string) person {
	t.Helper()
	p := person{heard: make(chan string, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := mcp.NewRequest("subscriptions/listen", []byte(`{"notifications":`+filter+`}`))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { // ends with ctx; the cleanup waits
		_, _ = h.Serve(ctx, req, p)
		close(over)
	}()
	t.Cleanup(func() { cancel(); <-over })
	if got := p.next(); got != "subscriptions/acknowledged" {
		t.Errorf("first: %s", got)
	}
	time.Sleep(time.Second) // until the streams of all revisions are open
	for len(p.heard) > 0 {
		<-p.heard
	}
	return p
}

// List changes reach clients of every revision.
func TestEveryEraListChanges(t *testing.T) {
	everyEra(t, greeter, func(t *testing.T, _ mcp.Version, m *mux.Mux, h mcp.Handler) {
		p := listens(t, h, `{"toolsListChanged":true}`)
		m.MustAdd(mux.Tool{Name: "new", Call: mux.Always(mux.Say("new"))})
		if got := p.next(); got != "tools/list_changed" {
			t.Errorf("then: %s", got)
		}
	})
}

// A changed resource, also one of a template, is announced in every revision, and no
// other is.
func TestEveryEraResourceUpdates(t *testing.T) {
	build := func() *mux.Mux {
		read := mux.Always([]mux.Contents{mux.TextContents("x:y", "text/plain", "")})
		return mux.New(mux.Resource{URI: "x:y", Name: "y", Read: read}, mux.Template{URI: "t:{a}", Name: "t", Read: read})
	}
	everyEra(t, build, func(t *testing.T, _ mcp.Version, m *mux.Mux, h mcp.Handler) {
		p := listens(t, h, `{"resourceSubscriptions":["x:y","t:1"]}`)
		for _, uri := range []string{"t:2", "x:y", "t:1"} {
			if err := m.Updated(uri); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		for _, want := range []string{"x:y", "t:1"} {
			if got := p.next(); got != "resources/updated" {
				t.Errorf("of %s: %s", want, got)
			}
		}
		time.Sleep(time.Minute)
		if len(p.heard) > 0 {
			t.Errorf("and then %s", <-p.heard)
		}
	})
}

// A server that declares tools in advance is asked for them when they are added.
func TestEveryEraToolsAddedLater(t *testing.T) {
	build := func() *mux.Mux { return &mux.Mux{HasTools: true} }
	everyEra(t, build, func(t *testing.T, _ mcp.Version, m *mux.Mux, h mcp.Handler) {
		res, err := ask(t, h, person{}, "tools/list", `{}`)
		if err != nil || !strings.HasPrefix(string(res.Bytes()), `{"tools":[]`) {
			t.Fatalf("got %v, %v; want that there are none yet", res, err)
		}
		p := listens(t, h, `{"toolsListChanged":true}`)
		m.MustAdd(mux.Tool{Name: "new", Call: mux.Always(mux.Say("new"))})
		if got := p.next(); got != "tools/list_changed" {
			t.Errorf("heard %s", got)
		}
		if res, err := ask(t, h, person{}, "tools/call", `{"name":"new"}`); err != nil {
			t.Errorf("the new tool: %v, %v", res, err)
		}
	})
}
