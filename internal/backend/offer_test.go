// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A list is as private as its most private page and as short-lived as its
// shortest-lived: it is never shared or cached more than the server permits (I32,
// M175).
//
// G1- 2026-07-28 server/utilities/caching: "If `ttlMs` is negative, clients SHOULD
// ignore it and treat it as `0`."
//
// G5- 2026-07-28 server/utilities/caching: "all subsequent pages for that request
// MUST also be `"private"`."
func TestPrivacyAndTTLOfPages(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pages  [2]string // members besides the tools
		public bool
		ttl    time.Duration
	}{
		{"both public", [2]string{`,"cacheScope":"public","ttlMs":5000`, `,"cacheScope":"public","ttlMs":9000`}, true, 5 * time.Second},
		{"the second is private", [2]string{`,"cacheScope":"public"`, `,"cacheScope":"private"`}, false, 0},
		{"the first has no scope", [2]string{``, `,"cacheScope":"public"`}, false, 0},
		{"an unknown scope", [2]string{`,"cacheScope":"public"`, `,"cacheScope":"everybody"`}, false, 0},
		{"only one has a time to live", [2]string{`,"ttlMs":7000`, ``}, false, 7 * time.Second},
		{"no time at all", [2]string{`,"ttlMs":0`, `,"ttlMs":-5`}, false, 0},
		{"longer than anybody can mean", [2]string{`,"ttlMs":99999999999`, ``}, false, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				page := 0
				o := &oddServer{toolServer: newToolServer(false)}
				o.on = map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){
					"tools/list": func(context.Context, mcp.Caller) (*mcp.Result, error) {
						next := `,"nextCursor":"2"`
						if page == 1 {
							next = ""
						}
						page++
						return mcp.NewResult(fmt.Appendf(nil, `{"tools":[{"name":"t%d"}]%s%s}`, page, tt.pages[page-1], next))
					},
				}
				b, _ := follow(t, o, Config{})
				synctest.Wait()
				l := b.Offer().Lists[catalog.Tools]
				if l.Public != tt.public || l.TTL != tt.ttl || len(l.Items) != 2 {
					t.Errorf("public %v for %v with %d items, want %v for %v with 2", l.Public, l.TTL, len(l.Items), tt.public, tt.ttl)
				}
			})
		})
	}
}

// A list is fetched again after its own time to live, which is a minute if the server
// gives none, and at least a second; and only on request.
func TestTimeToLiveOfLists(t *testing.T) {
	for _, tt := range []struct {
		member string
		want   time.Duration
	}{
		{``, time.Minute}, {`,"ttlMs":5000`, 5 * time.Second}, {`,"ttlMs":1`, time.Second}, {`,"ttlMs":3600000`, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := &oddServer{toolServer: newToolServer(false)}
			o.on = map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){"tools/list": answers(`{"tools":[]%s}`, tt.member)}
			b, _ := follow(t, o, Config{})
			synctest.Wait()
			for _, step := range []struct {
				after time.Duration
				lists int
			}{{tt.want - time.Millisecond, 1}, {time.Millisecond, 2}} {
				time.Sleep(step.after)
				b.RefreshIfOld(time.Now())
				synctest.Wait()
				if n := o.count("tools/list"); n != step.lists {
					t.Errorf("with %q: %d fetches, want %d", tt.member, n, step.lists)
				}
			}
		})
	}
}

// The acknowledged lists are those that the server notifies of; an acknowledgement
// without a filter means all (2026-07-28, basic/patterns/subscriptions).
func TestAcknowledgedLists(t *testing.T) {
	const all = 1<<catalog.NumKinds - 1
	for params, want := range map[string]listSet{
		``:                     all,
		`{}`:                   all,
		`{"notifications":7}`:  all,
		`{"notifications":{}}`: 0,
		`{"notifications":{"toolsListChanged":true}}`:                                 1 << catalog.Tools,
		`{"notifications":{"promptsListChanged":true}}`:                               1 << catalog.Prompts,
		`{"notifications":{"resourcesListChanged":true,"toolsListChanged":false}}`:    1<<catalog.Resources | 1<<catalog.Templates,
		`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}}`: 1 << catalog.Tools,
	} {
		n, err := mcp.NewNotification("notifications/subscriptions/acknowledged", []byte(params))
		if err != nil {
			t.Fatal(err)
		}
		e := newListListener(nil)
		if err := e.Notify(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if agreed, acknowledged := e.agreement(); !acknowledged || agreed != want {
			t.Errorf("%s: agreed %b (acknowledged %v), want %b", params, agreed, acknowledged, want)
		}
	}
}

// Each notification marks its own lists, and any other notification none; without a
// client no requests are answered.
func TestListListener(t *testing.T) {
	for method, want := range map[string]listSet{
		"notifications/tools/list_changed":     1 << catalog.Tools,
		"notifications/prompts/list_changed":   1 << catalog.Prompts,
		"notifications/resources/list_changed": 1<<catalog.Resources | 1<<catalog.Templates,
		"notifications/resources/updated":      0,
		"notifications/message":                0,
	} {
		for presumed, announced := range map[bool]listSet{false: want, true: 0} {
			e := newListListener(nil)
			if err := e.Notify(t.Context(), &mcp.Notification{Method: method, Synthetic: presumed}); err != nil {
				t.Fatal(err)
			}
			if got, marked := e.take(); got != want || marked != announced || !e.isClean() {
				t.Errorf("%s, presumed %t: changed %b, want %b; announced %b, want %b", method, presumed, got, want, marked, announced)
			}
			if dirty, marked := e.take(); dirty != 0 || marked != 0 {
				t.Errorf("%s: changed twice", method)
			}
		}
	}
	if res, err := mcp.Ask(t.Context(), newListListener(nil), &mcp.Request{Method: "roots/list"}); err != nil || string(res.Bytes()) != `{"roots":[]}` {
		t.Errorf("asked for roots: %v", err)
	}
	if _, err := mcp.Ask(t.Context(), newListListener(nil), &mcp.Request{Method: "sampling/createMessage"}); !errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
		t.Errorf("asked: %v", err)
	}
}

// The scope of the lists lives as long as the listen in it, and ends at once if a
// server announces nothing: its process is not kept running.
func TestScopeOfTheLists(t *testing.T) {
	for _, announces := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var scopes []*mcp.Scope
			s := newToolServer(announces, "a")
			h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
				mu.Lock()
				if req.Method == "server/discover" {
					scopes = append(scopes, req.Scope)
				}
				if last := scopes[len(scopes)-1]; req.Scope != last || req.Scope.Unrelated() != nil {
					t.Errorf("%s in the scope %p without a client: %v; want %p", req.Method, req.Scope, req.Scope.Unrelated() == nil, last)
				}
				mu.Unlock()
				return s.Serve(ctx, req, caller)
			})
			b, _ := follow(t, h, Config{})
			if b.Name() != "shelf" {
				t.Errorf("name %q", b.Name())
			}
			seen := func() []*mcp.Scope {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(scopes)
			}
			time.Sleep(time.Minute)
			hasEnded := !seen()[0].OnEnd(func() {})
			if len(seen()) != 1 || hasEnded == announces {
				t.Errorf("announces %v: %d scopes, the first has ended: %v", announces, len(seen()), hasEnded)
			}
			b.Refresh()
			synctest.Wait()
			if want := map[bool]int{false: 2, true: 1}[announces]; len(seen()) != want {
				t.Errorf("announces %v: %d scopes after the lists were wanted again, want %d", announces, len(seen()), want)
			}
		})
	}
}

// A server that stays away is tried at growing intervals, without end; after it was
// live for long the intervals start anew.
//
// G6- 2026-07-28 server/utilities/caching: "Implementations that do choose to poll
// MUST apply jitter and backoff."
func TestAttemptsToReachAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		tries := make(chan time.Time, 1000)
		s := newToolServer(true, "a")
		h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
			if req.Method == "server/discover" {
				tries <- time.Now()
				if down.Load() {
					return nil, errors.New("away")
				}
			}
			return s.Serve(ctx, req, caller)
		})
		b, _ := follow(t, h, Config{})
		time.Sleep(10 * time.Minute)
		n := len(tries)
		if n < 20 || n > 60 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		last, gaps := <-tries, make(map[time.Duration]bool)
		for i := 1; i < n; i++ {
			next := <-tries
			gap := next.Sub(last)
			if gap < minRetryDelay/2 || gap > maxRetryDelay {
				t.Errorf("%v between attempts %d and %d", gap, i-1, i)
			}
			gaps[gap] = true
			last = next
		}
		if len(gaps) < n/2 {
			t.Errorf("%d attempts at intervals of %v alone, which those of others may have too", n, slices.Collect(maps.Keys(gaps)))
		}
		down.Store(false)
		time.Sleep(5 * time.Minute)
		wantState(t, b, Live)
		before := len(tries)
		s.fail(nil) // its listen ends
		time.Sleep(minRetryDelay)
		if n := len(tries) - before; n != 1 {
			t.Errorf("%d attempts right after a failure, want 1", n)
		}
	})
}

// An invalid response marks the server, and affects nothing else.
func TestAnswersThatAreNoLists(t *testing.T) {
	for name, on := range map[string]map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){
		"no result":            {"tools/list": func(context.Context, mcp.Caller) (*mcp.Result, error) { return nil, nil }}, //nolint:nilnil // what is tested
		"no member":            {"tools/list": answers(`{"tool":[]}`)},
		"an object":            {"tools/list": answers(`{"tools":{}}`)},
		"no capabilities":      {"server/discover": answers(`{"supportedVersions":["2026-07-28"],"capabilities":7}`)},
		"nothing to be called": {"server/discover": func(context.Context, mcp.Caller) (*mcp.Result, error) { return nil, nil }}, //nolint:nilnil // as above
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := follow(t, &oddServer{toolServer: newToolServer(true, "a"), on: on}, Config{})
				wantState(t, b, Down)
				if b.Offer().Reason == "" || b.Offer().Known() {
					t.Errorf("reason %q, known %v", b.Offer().Reason, b.Offer().Known())
				}
			})
		})
	}
}
