// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The requests to the client during a call, and the time in which one was unanswered, are
// on the call's Timeline.
func TestAsksAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(ctx context.Context, caller mcp.Caller) (*mcp.Result, error) {
			for range 2 {
				wait, err := caller.Start(ctx, &mcp.Request{Method: "elicitation/create"})
				if err != nil {
					return nil, err
				}
				if _, err := wait(); err != nil { // a minute
					return nil, err
				}
				time.Sleep(time.Second)
			}
			return mcp.NewResult([]byte(`{"content":[]}`))
		}
		o := &oddServer{toolServer: newToolServer(true, "a"), on: map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){"tools/call": ask}}
		b, _ := follow(t, o, Config{})
		times := new(mcp.Timeline)
		times.Begin(time.Now())
		if _, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call", Timeline: times}, slowCaller{}); err != nil {
			t.Fatal(err)
		}
		if n, waiting := times.Asks(); n != 2 || waiting != 2*time.Minute {
			t.Errorf("%d requests, unanswered for %v", n, waiting)
		}
	})
}

// The Backend's own requests are observed, with their durations and errors.
func TestOwnRequestsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		o := &oddServer{toolServer: newToolServer(true, "a"), on: map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){
			"tools/list": func(context.Context, mcp.Caller) (*mcp.Result, error) {
				time.Sleep(3 * time.Second)
				if failing.Load() {
					return nil, &mcp.Fault{Code: mcp.CodeBackendFailed, Message: "broken"}
				}
				return mcp.NewResult([]byte(`{"tools":[]}`))
			},
		}}
		type seen struct {
			method string
			took   time.Duration
			failed bool
		}
		var mu sync.Mutex // lists are fetched at the same time
		var all []seen
		b, _ := follow(t, o, Config{Observe: func(method string, took time.Duration, err error) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, seen{method, took, err != nil})
		}})
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		want := map[seen]bool{{"server/discover", 1, false}: true, {"tools/list", 3 * time.Second, false}: true}
		for _, s := range all {
			delete(want, s)
		}
		if len(want) > 0 {
			t.Errorf("observed %v, not %v", all, want)
		}
		all = nil
		mu.Unlock()
		failing.Store(true)
		b.Refresh()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(all) == 0 || all[0] != (seen{"tools/list", 3 * time.Second, true}) {
			t.Errorf("observed %v", all)
		}
	})
}
