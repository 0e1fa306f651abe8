// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package regress_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// Changes during use: of lists, configurations, and the gateway itself.

// announcer is a backend in this process with one tool, named by the number of its
// changes. It notifies its listeners at once.
type announcer struct {
	mu        sync.Mutex
	n         int
	calls     int
	listeners map[chan struct{}]struct{}
}

func (a *announcer) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}`))
	case "tools/list":
		return mcp.NewResult([]byte(gatewaytest.ToolList(fmt.Sprint("v", a.now()))))
	case "subscriptions/listen":
		return a.listen(ctx, caller)
	default:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
	}
}

func (a *announcer) now() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	return a.n
}

func (a *announcer) served() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls
}

// change replaces the tool.
func (a *announcer) change() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	for listener := range a.listeners {
		listener <- struct{}{}
	}
}

func (a *announcer) listen(ctx context.Context, caller mcp.Caller) (*mcp.Result, error) {
	listener := make(chan struct{}, 1000)
	a.subscribe(listener)
	defer a.unsubscribe(listener)
	if err := caller.Notify(ctx, &mcp.Notification{Method: "notifications/subscriptions/acknowledged"}); err != nil {
		return nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-listener:
			if err := caller.Notify(ctx, &mcp.Notification{Method: "notifications/tools/list_changed"}); err != nil {
				return nil, err
			}
		}
	}
}

func (a *announcer) subscribe(listener chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listeners == nil {
		a.listeners = map[chan struct{}]struct{}{}
	}
	a.listeners[listener] = struct{}{}
}

func (a *announcer) unsubscribe(listener chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.listeners, listener)
}

// M049, I8, I26: the announcements of a backend in this process reach the client; and a
// gateway that is closed starts nothing more.
func TestM049BackendInThisProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &announcer{}
		h := gatewaytest.Open(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "a", Handler: a}}})
		sess := h.Legacy()
		gatewaytest.WantEqual(t, "before", h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), sess).Body, `{"jsonrpc":"2.0","id":1,"result":`+gatewaytest.ToolList("a__v0")+`}`)
		get := h.Listen(sess)
		synctest.Wait()
		a.change()
		if got := get.Next(); !strings.Contains(got, gatewaytest.ToolsChanged) {
			t.Errorf("heard %s, want the change", got)
		}
		gatewaytest.WantEqual(t, "after", h.Post(gatewaytest.LegacyRequest("2", "tools/list", ""), sess).Body, `{"jsonrpc":"2.0","id":2,"result":`+gatewaytest.ToolList("a__v1")+`}`)
		for range 2 {
			if err := h.G.Close(); err != nil {
				t.Error(err)
			}
		}
		before := a.served()
		if err := h.G.Reload(t.Context(), config.Config{}); !errors.Is(err, signalbox.ErrClosed) {
			t.Errorf("Reload after the end: %v, want ErrClosed", err)
		}
		if got := h.Post(gatewaytest.LegacyRequest("3", "tools/list", ""), sess); got.Status == 200 {
			t.Errorf("a request after the end: %d %s", got.Status, got.Body)
		}
		time.Sleep(time.Hour)
		if n := a.served() - before; n != 0 {
			t.Errorf("the backend was asked %d times after the end", n)
		}
	})
}

// M133, I29, I30: twenty backends are added, and each changes fifty-one times, while
// the configuration is applied again. Whatever notifications were merged on the way,
// the final offer is the current one.
func TestM133ChangesWhileBackendsAreAdded(t *testing.T) {
	const backends, changes = 20, 51
	synctest.Test(t, func(t *testing.T) {
		var all []*announcer
		var opt signalbox.Options
		var want []string
		for i := range backends {
			a := &announcer{}
			all = append(all, a)
			opt.InProcess = append(opt.InProcess, signalbox.InProcess{Name: fmt.Sprintf("b%02d", i), Handler: a})
			want = append(want, fmt.Sprintf("b%02d__v%d", i, changes))
		}
		g := gatewaytest.New(t, config.Config{}, opt)
		var busy sync.WaitGroup
		for _, a := range all {
			busy.Go(func() { // ends by itself; waited for below
				for i := range changes {
					a.change()
					if i%10 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		busy.Go(func() { // ends by itself; waited for below
			for i := range 50 {
				var cfg config.Config
				cfg.Instructions = fmt.Sprint(i)
				if err := g.Reload(t.Context(), cfg); err != nil {
					t.Error(err)
				}
			}
		})
		busy.Wait()
		time.Sleep(10 * time.Second)
		if got := toolNames(t, g); !slices.Equal(got, want) {
			t.Errorf("offered %q\nwant %q", got, want)
		}
	})
}

var nameInList = regexp.MustCompile(`"name":"([^"]*)"`)

// toolNames lists the names that the gateway offers.
func toolNames(t *testing.T, g *signalbox.Gateway) []string {
	t.Helper()
	req, err := mcp.NewRequest("tools/list", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Serve(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range nameInList.FindAllSubmatch(res.Bytes(), -1) {
		names = append(names, string(m[1]))
	}
	return names
}

// M193, I17, I29: eight clients list and call while the configuration is swapped, and
// the gateway closes in the middle of it. Each list is that of one configuration, and a
// call is answered by the backend that has the name in that configuration.
func TestM193EachRequestSeesOneConfiguration(t *testing.T) {
	const clients, swaps = 8, 20
	synctest.Test(t, func(t *testing.T) {
		b := gatewaytest.Backends{}
		for _, name := range []string{"x", "y"} {
			s := gatewaytest.ServerWithTools(true, "t")
			s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Result(`{"content":[],"by":"` + name + `"}`) }
			b[name] = s
		}
		way := gatewaytest.ServeBackends(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b[r.Host].ServeHTTP(w, r) }))
		// The two configurations exchange the prefixes of the backends.
		config := func(n int) config.Config {
			one, two := fmt.Sprintf("%d.p.", n%2), fmt.Sprintf("%d.q.", n%2)
			if n%2 == 1 {
				one, two = two, one
			}
			return config.Config{Servers: []config.Backend{
				{Name: "x", URL: "http://x/mcp", Prefix: &one}, {Name: "y", URL: "http://y/mcp", Prefix: &two},
			}}
		}
		g := gatewaytest.New(t, config(0), signalbox.Options{Transport: way})
		synctest.Wait()
		owners := map[string]string{"0.p.t": "x", "0.q.t": "y", "1.q.t": "x", "1.p.t": "y"}
		done, listed := make(chan struct{}), make(chan byte)
		var all sync.WaitGroup
		for range clients {
			all.Go(func() { // ends with done; waited for below
				for {
					names := toolNames(t, g)
					if len(names) != 2 || names[0][0] != names[1][0] {
						t.Errorf("listed %q, of two configurations", names)
						return
					}
					by, _ := gatewaytest.Serve(t, g, "tools/call", `{"name":"`+names[0]+`"}`)
					if by != owners[names[0]] && !strings.HasPrefix(by, "error: unknown tool") {
						t.Errorf("%s was answered by %q", names[0], by)
						return
					}
					select {
					case listed <- names[0][0]:
					case <-done:
						return
					}
				}
			})
		}
		seen := map[byte]int{}
		for i := range swaps {
			time.Sleep(2 * time.Second) // so that the next catalog need not wait
			if err := g.Reload(t.Context(), config(i+1)); err != nil {
				t.Error(err)
			}
			for range 2 * clients { // they continue while the catalog is being swapped
				seen[<-listed]++
			}
		}
		close(done)
		all.Wait()
		if seen['0'] == 0 || seen['1'] == 0 {
			t.Errorf("lists by configuration: %v; want some of both", seen)
		}
		// Close is called concurrently, during a reload.
		for range 3 {
			all.Go(func() { // ends with the Gateway; waited for below
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		for {
			if err := g.Reload(t.Context(), config(0)); err != nil {
				if !errors.Is(err, signalbox.ErrClosed) {
					t.Error(err)
				}
				break
			}
		}
		all.Wait()
	})
}
