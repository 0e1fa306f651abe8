// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/callertest"
)

// oddServer is a toolServer with different answers for some methods.
type oddServer struct {
	*toolServer

	on map[string]func(ctx context.Context, caller mcp.Caller) (*mcp.Result, error)

	mu    sync.Mutex
	calls map[string]int
}

func (o *oddServer) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	o.note(req.Method)
	if f, ok := o.on[req.Method]; ok {
		return f(ctx, caller)
	}
	return o.toolServer.Serve(ctx, req, caller)
}

func (o *oddServer) note(method string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls == nil {
		o.calls = make(map[string]int)
	}
	o.calls[method]++
}

func (o *oddServer) count(method string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[method]
}

func answers(format string, args ...any) func(context.Context, mcp.Caller) (*mcp.Result, error) {
	return func(context.Context, mcp.Caller) (*mcp.Result, error) {
		return mcp.NewResult(fmt.Appendf(nil, format, args...))
	}
}

// A server that announces changes and sends no notifications, for whatever reason, is
// live: its lists are fetched again when they have expired and are requested.
func TestServerThatAnnouncesWithoutNotifying(t *testing.T) {
	acknowledge := func(ctx context.Context, caller mcp.Caller, agreed string) error {
		n, err := mcp.NewNotification("notifications/subscriptions/acknowledged", []byte(`{"notifications":`+agreed+`}`))
		if err != nil {
			return err
		}
		return caller.Notify(ctx, n)
	}
	tests := map[string]func(ctx context.Context, caller mcp.Caller) (*mcp.Result, error){
		"refuses to listen": func(context.Context, mcp.Caller) (*mcp.Result, error) {
			return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no listen")
		},
		"agrees to nothing": func(ctx context.Context, caller mcp.Caller) (*mcp.Result, error) {
			if err := acknowledge(ctx, caller, `{}`); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"agrees to another list": func(ctx context.Context, caller mcp.Caller) (*mcp.Result, error) {
			if err := acknowledge(ctx, caller, `{"promptsListChanged":true}`); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"never acknowledges": func(ctx context.Context, _ mcp.Caller) (*mcp.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"loses its stream": func(ctx context.Context, caller mcp.Caller) (*mcp.Result, error) {
			if err := acknowledge(ctx, caller, `{"toolsListChanged":true}`); err != nil {
				return nil, err
			}
			time.Sleep(time.Second)
			return nil, &mcp.Fault{Code: mcp.CodeUnsupported, Outcome: mcp.Completed}
		},
	}
	for name, listen := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &oddServer{toolServer: newToolServer(true, "a"), on: map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){"subscriptions/listen": listen}}
				b, _ := follow(t, o, Config{})
				time.Sleep(2 * time.Minute)
				wantState(t, b, Live)
				if n := o.count("server/discover"); n != 1 {
					t.Errorf("the server was begun with %d times", n)
				}
				o.set("b")
				b.RefreshIfOld(time.Now())
				time.Sleep(time.Second)
				wantTools(t, b, "b")
				wantState(t, b, Live)
			})
		})
	}
}

// A list without notifications is fetched again beside one with notifications.
func TestListsAreNotifiedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var prompts atomic.Value
		prompts.Store(`{"prompts":[]}`)
		o := &oddServer{toolServer: newToolServer(true, "a"), on: map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){
			"server/discover": answers(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"prompts":{}}}`),
			"prompts/list": func(context.Context, mcp.Caller) (*mcp.Result, error) {
				return mcp.NewResult(fmt.Append(nil, prompts.Load()))
			},
		}}
		b, _ := follow(t, o, Config{})
		time.Sleep(2 * time.Minute)
		prompts.Store(`{"prompts":[{"name":"p"}]}`)
		b.RefreshIfOld(time.Now())
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(b.Offer().Lists[catalog.Prompts].Items); n != 1 {
			t.Errorf("%d prompts, want the new one", n)
		}
	})
}

// A capability of an unusual form counts as declared, without notifications.
func TestOddCapabilities(t *testing.T) {
	for caps, want := range map[string]int{
		`{"tools":{"listChanged":"yes"}}`: 1, `{"tools":true}`: 1, `{"tools":[]}`: 1, `{"tools":{},"prompts":null}`: 1,
		`{"tools":null}`: 0, `{}`: 0,
	} {
		t.Run(caps, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &oddServer{toolServer: newToolServer(false, "a"), on: map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){
					"server/discover": answers(`{"supportedVersions":["2026-07-28"],"capabilities":%s}`, caps),
				}}
				b, _ := follow(t, o, Config{})
				wantState(t, b, Live)
				if n := len(names(t, b.Offer())); n != want || o.count("subscriptions/listen") != 0 {
					t.Errorf("%d tools, %d listens; want %d and none", n, o.count("subscriptions/listen"), want)
				}
			})
		})
	}
}

// Lists that are endless, circular, or too large are cut, and the problem is reported
// (fault 64). An empty cursor is valid; its page is not added twice if the server
// treats it as no cursor.
//
// G7- own: "a list that never ends is cut"
func TestEndlessLists(t *testing.T) {
	page := 0
	fat := `{"name":"` + strings.Repeat("x", 1<<20) + `"}`
	tests := []struct {
		name, problem string
		items, pages  int
		list          func() string // returning nothing is a refusal
	}{
		{"an empty cursor that means none", "", 1, 2, func() string { return `{"tools":[{"name":"a"}],"nextCursor":""}` }},
		{"an empty cursor that is refused", "", 1, 2, func() string {
			return []string{`{"tools":[{"name":"a"}],"nextCursor":""}`, ""}[page-1]
		}},
		{"an empty cursor for ever", "the cursors repeat", 2, 2, func() string { return fmt.Sprintf(`{"tools":[{"name":"%d"}],"nextCursor":""}`, page) }},
		{"null for a cursor", "", 1, 1, func() string { return `{"tools":[{"name":"a"}],"nextCursor":null}` }},
		{"the same page for ever", "the cursors repeat", 2, 2, func() string { return `{"tools":[{"name":"a"}],"nextCursor":"x"}` }},
		{"a circle of two", "the cursors repeat", 3, 3, func() string { return fmt.Sprintf(`{"tools":[{"name":"%d"}],"nextCursor":"%d"}`, page, page%2) }},
		{"an end that never comes", "200 pages", 200, 200, func() string { return fmt.Sprintf(`{"tools":[{"name":"%d"}],"nextCursor":"%d"}`, page, page) }},
		{"empty pages without end", "200 pages", 0, 200, func() string { return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, page) }},
		{"a million in one page", "2000 items", 2000, 1, func() string { return `{"tools":[` + strings.Repeat(`0,`, 100_000) + `0]}` }},
		{"fat items", "32 MiB", 34, 4, func() string {
			return fmt.Sprintf(`{"tools":[%s{"name":"a"}],"nextCursor":"%d"}`, strings.Repeat(fat+",", 10), page)
		}},
		{"nulls", "", 2, 1, func() string { return `{"tools":[null,{"name":"a"}]}` }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				page = 0
				o := &oddServer{toolServer: newToolServer(false), on: map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){
					"tools/list": func(context.Context, mcp.Caller) (*mcp.Result, error) {
						page++
						if list := tt.list(); list != "" {
							return mcp.NewResult([]byte(list))
						}
						return nil, mcp.Errorf(mcp.CodeInvalidParams, "no such cursor")
					},
				}}
				b, _ := follow(t, o, Config{})
				synctest.Wait()
				l := b.Offer().Lists[catalog.Tools]
				if len(l.Items) < tt.items || len(l.Items) > tt.items+2 || !strings.Contains(l.Problem, tt.problem) || (tt.problem == "") != (l.Problem == "") {
					t.Errorf("%d items, problem %q; want %d, %q", len(l.Items), l.Problem, tt.items, tt.problem)
				}
				if n := o.count("tools/list"); n != tt.pages {
					t.Errorf("%d pages fetched, want %d", n, tt.pages)
				}
			})
		})
	}
}

// A backend in this process that panics affects only the request, or its own lists
// (fault 111).
func TestBackendThatPanics(t *testing.T) {
	boom := func(context.Context, mcp.Caller) (*mcp.Result, error) { panic("boom") }
	for _, method := range []string{"server/discover", "tools/list", "subscriptions/listen", "tools/call"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &oddServer{toolServer: newToolServer(true, "a"), on: map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){method: boom}}
				b, _ := follow(t, o, Config{})
				time.Sleep(2 * time.Second)
				if method != "tools/call" {
					if b.Offer().State == Live && method != "subscriptions/listen" {
						t.Error("live after a panic")
					}
					return
				}
				_, err := b.Serve(t.Context(), &mcp.Request{Method: method}, slowCaller{})
				f, ok := errors.AsType[*mcp.Fault](err)
				if !ok || f.Backend != "shelf" || f.Outcome != mcp.Unknown {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// A response that arrives at the deadline is the result.
func TestErrorAtTheDeadlineIsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oddServer{toolServer: newToolServer(true, "a"), on: map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){
			"tools/call": func(ctx context.Context, _ mcp.Caller) (*mcp.Result, error) {
				<-ctx.Done()
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "the backend's own word")
			},
		}}
		b, _ := follow(t, o, Config{Idle: time.Second})
		_, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, slowCaller{})
		if !errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidParams}) {
			t.Errorf("error %v, want the backend's", err)
		}
	})
}

// TestErrorsOfOurHop checks that an error about the gateway's part of a request is not
// sent to the client, which cannot fix it; a missing capability of the client is.
func TestErrorsOfOurHop(t *testing.T) {
	for _, tt := range []struct {
		code int64
		ours bool
	}{
		{mcp.CodeHeaderMismatch, true},
		{mcp.CodeUnsupportedVersion, true},
		{mcp.CodeMissingCapability, false},
		{mcp.CodeInvalidParams, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := &oddServer{toolServer: newToolServer(true, "a"), on: map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){
				"tools/call": func(context.Context, mcp.Caller) (*mcp.Result, error) {
					return nil, &mcp.Error{Code: tt.code, Message: "why", Data: []byte(`{"supported":["2027-01-01"]}`)}
				},
			}}
			b, _ := follow(t, o, Config{})
			_, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, slowCaller{})
			if !tt.ours {
				if rpcErr, ok := err.(*mcp.Error); !ok || rpcErr.Code != tt.code { //nolint:errorlint // itself, not wrapped
					t.Errorf("%d: error %v, want the backend's", tt.code, err)
				}
				return
			}
			want := mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.NotDispatched, Backend: "shelf"}
			f, ok := err.(*mcp.Fault) //nolint:errorlint // itself, not wrapped
			if !ok || f.Code != want.Code || f.Outcome != want.Outcome || f.Backend != want.Backend || !strings.HasSuffix(f.Message, ": why") {
				t.Errorf("%d: error %#v, want %#v", tt.code, err, want)
			}
			if wire := mcp.ToWire(err); strings.Contains(string(wire.Data), "supported") {
				t.Errorf("%d: the client receives %s", tt.code, wire.Data)
			}
		})
	}
}

// No wrapper of a Caller loses what the Caller can do.
func TestWrappersPassEverything(t *testing.T) {
	callertest.CheckPackage(t, map[string]callertest.Wrapper{
		"deadline": {Wrap: func(c mcp.Caller) mcp.Caller {
			_, d := newLimits(&Config{}).begin(t.Context(), c, nil)
			t.Cleanup(d.stop)
			return d
		}},
	})
}

// A Handler has everything that the Caller of the Backend can do.
func TestBackendPassesEverything(t *testing.T) {
	r := new(callertest.Recorder)
	b := New(Config{Name: "a", Handler: mcp.HandlerFunc(func(ctx context.Context, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		callertest.Check(ctx, t, c, r)
		return &mcp.Result{}, nil
	})})
	if _, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, r); err != nil {
		t.Error(err)
	}
}
