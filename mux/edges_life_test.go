// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
)

func say(format string, args ...any) mux.Tool {
	return mux.Tool{Name: "say", Call: mux.Always(mux.Say(format, args...))}
}

// content calls a tool and returns its content.
func content(t *testing.T, h mcp.Handler, tool string) string {
	t.Helper()
	res, err := ask(t, h, person{}, "tools/call", `{"name":"`+tool+`"}`)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return string(res.Raw(mcp.FieldContent))
}

// The function's context ends when its client cancels the call, and its answer is
// dropped.
func TestEveryEraCancels(t *testing.T) {
	everyEra(t, func() *mux.Mux { return mux.New(say("x")) }, func(t *testing.T, _ mcp.Version, m *mux.Mux, h mcp.Handler) {
		told := make(chan error)
		m.MustAdd(mux.Tool{Name: "wait", Call: func(ctx context.Context, _ *mux.Call) (*mux.Result, error) {
			<-ctx.Done()
			told <- ctx.Err()
			return mux.Say("too late"), nil
		}})
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"wait"}`))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if res, err := h.Serve(ctx, req, person{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v; want that the time is up", res, err)
		}
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Errorf("the function was told %v", err)
		}
		content(t, h, "say")
	})
}

// A panic affects only its own request: its client gets an internal error, and other
// requests are served.
func TestEveryEraSurvivesAPanic(t *testing.T) {
	panics := func() *mux.Mux {
		return mux.New(say("x"),
			mux.Tool{Name: "panic", Call: func(context.Context, *mux.Call) (*mux.Result, error) { panic("secret") }},
			mux.Tool{Name: "wait", Call: func(context.Context, *mux.Call) (*mux.Result, error) {
				pass(time.Minute)
				return mux.Say("still here"), nil
			}})
	}
	everyEra(t, panics, func(t *testing.T, _ mcp.Version, _ *mux.Mux, h mcp.Handler) {
		other := make(chan string)
		go func() { // ends with the call, which the test waits for
			res, err := ask(t, h, person{}, "tools/call", `{"name":"wait"}`)
			if err != nil {
				other <- err.Error()
				return
			}
			other <- string(res.Raw(mcp.FieldContent))
		}()
		_, err := ask(t, h, person{}, "tools/call", `{"name":"panic"}`)
		if !errors.Is(err, &mcp.Error{Code: mcp.CodeInternalError}) || strings.Contains(err.Error(), "secret") {
			t.Errorf("a panic is %v for its client", err)
		}
		if got := <-other; !strings.Contains(got, "still here") {
			t.Errorf("another call has %s", got)
		}
	})
}

// A function gets the context that middleware of net/http has set.
func TestEveryEraPassesTheContext(t *testing.T) {
	build := func() *mux.Mux {
		return mux.New(mux.Tool{Name: "who", Call: func(ctx context.Context, _ *mux.Call) (*mux.Result, error) {
			return mux.Say("%v", ctx.Value(userKey{})), nil
		}})
	}
	everyEra(t, build, func(t *testing.T, _ mcp.Version, _ *mux.Mux, h mcp.Handler) {
		if got := content(t, h, "who"); got != `[{"type":"text","text":"Ada"}]` {
			t.Errorf("got %s", got)
		}
	})
}

// Following the cursors lists all items of each kind.
func TestEveryEraPages(t *testing.T) {
	build := func() *mux.Mux {
		m := &mux.Mux{PageSize: 2}
		for i := range 5 {
			name := fmt.Sprintf("n%d", i)
			m.MustAdd(
				mux.Tool{Name: name, Call: mux.Always(mux.Say("x"))},
				mux.Prompt{Name: name, Get: mux.Always([]mux.Message{})},
				mux.Resource{URI: "x:" + name, Name: name, Read: mux.Always([]mux.Contents{})},
				mux.Template{URI: "x:" + name + "/{a}", Name: name, Read: mux.Always([]mux.Contents{})})
		}
		return m
	}
	everyEra(t, build, func(t *testing.T, _ mcp.Version, _ *mux.Mux, h mcp.Handler) {
		for method, member := range map[string]string{
			"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
		} {
			if got, want := allPages(t, h, method, member), []string{"n0", "n1", "n2", "n3", "n4"}; !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", method, got, want)
			}
		}
	})
}

func allPages(t *testing.T, h mcp.Handler, method, member string) (names []string) {
	t.Helper()
	for params, pages := `{}`, 1; ; pages++ {
		res, err := ask(t, h, person{}, method, params)
		if err != nil {
			t.Fatal(err)
		}
		var list map[string]json.RawMessage
		var items []struct{ Name string }
		if err := errors.Join(json.Unmarshal(res.Bytes(), &list), json.Unmarshal(list[member], &items)); err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			names = append(names, item.Name)
		}
		if list["nextCursor"] == nil || pages > 10 {
			return names
		}
		params = `{"cursor":` + string(list["nextCursor"]) + `}`
	}
}

// A structured result is sent as such, and as text for older clients.
func TestEveryEraStructuredContent(t *testing.T) {
	build := func() *mux.Mux {
		return mux.New(mux.Tool{
			Name: "sum", OutputSchema: `{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}`,
			Call: mux.Always(mux.Structured(map[string]int{"sum": 7})),
		})
	}
	everyEra(t, build, func(t *testing.T, _ mcp.Version, _ *mux.Mux, h mcp.Handler) {
		res, err := ask(t, h, person{}, "tools/call", `{"name":"sum"}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(res.Raw(mcp.FieldContent)); got != `[{"type":"text","text":"{\"sum\":7}"}]` {
			t.Errorf("the text is %s", got)
		}
		if !strings.Contains(string(res.Bytes()), `"structuredContent":{"sum":7}`) {
			t.Errorf("the result is %s", res.Bytes())
		}
	})
}

// After a call has ended, its Caller returns errors.
func TestEveryEraCallerAfterTheCall(t *testing.T) {
	everyEra(t, func() *mux.Mux { return new(mux.Mux) }, func(t *testing.T, _ mcp.Version, m *mux.Mux, h mcp.Handler) {
		kept := make(chan *mux.Call, 1)
		m.MustAdd(mux.Tool{Name: "leave", Call: func(_ context.Context, call *mux.Call) (*mux.Result, error) {
			kept <- call
			return mux.Say("done"), nil
		}})
		p := person{heard: make(chan string, 10)}
		if _, err := ask(t, h, p, "tools/call", `{"name":"leave","_meta":{"progressToken":"p"}}`); err != nil {
			t.Fatal(err)
		}
		call := <-kept
		pass(time.Second)
		if err := call.Progress(t.Context(), 1, 1, ""); !errors.Is(err, mcp.ErrRequestEnded) {
			t.Errorf("progress: %v", err)
		}
		if a, err := call.Ask(t.Context(), mux.Elicit("k", "Who?", nameForm)); err == nil {
			t.Errorf("the client was asked, and said %s", a)
		}
		pass(time.Minute)
		if len(p.heard) > 0 {
			t.Errorf("the client has heard %s", <-p.heard)
		}
	})
}
