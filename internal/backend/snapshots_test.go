// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/logging/logtest"
	"github.com/signalbox-mcp/signalbox/mcp"
)

var errNoAccess = &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Reason: code.AuthSignIn, Message: "sign in"}

// A server that refuses the access for its lists offers nothing more, also while it cannot be
// reached afterwards, until it lists again. Without ByAccess the last lists stay.
func TestRefusedAccess(t *testing.T) {
	for _, byAccess := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newToolServer(false, "a")
			b, _ := follow(t, s, Config{ByAccess: byAccess})
			wantTools(t, b, "a")
			s.fail(errNoAccess)
			time.Sleep(time.Minute)
			b.Refresh()
			synctest.Wait()
			if !byAccess {
				wantState(t, b, Stale)
				wantTools(t, b, "a")
				if b.Offer().Refused {
					t.Error("refused")
				}
				return
			}
			wantState(t, b, Down)
			wantTools(t, b)
			s.fail(&mcp.Fault{Reason: code.NetRefused, Message: "connection refused"})
			time.Sleep(time.Minute)
			wantState(t, b, Down)
			if o := b.Offer(); !o.Refused || o.Code != code.NetRefused {
				t.Errorf("refused %v, code %s", o.Refused, o.Code)
			}
			s.fail(nil)
			time.Sleep(time.Minute)
			wantTools(t, b, "a")
			if b.Offer().Refused {
				t.Error("still refused")
			}
		})
	}
}

// That a server lists only with access is logged once.
func TestRefusalIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(false, "a")
		s.failAll(errNoAccess)
		var log logtest.Log
		_, _ = follow(t, s, Config{ByAccess: true, Logger: slog.New(log.Handler())})
		time.Sleep(time.Hour)
		if got := log.Lines(); len(got) != 1 {
			t.Errorf("log %q", got)
		}
	})
}

// oneListRefused is a server that answers all requests but those for its tools to anybody.
type oneListRefused struct{ *toolServer }

func (s oneListRefused) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{}}}`))
	case "prompts/list":
		return mcp.NewResult([]byte(`{"prompts":[{"name":"p"}]}`))
	case "tools/list":
		return nil, errNoAccess
	}
	return s.toolServer.Serve(ctx, req, caller)
}

// A server that refuses one of its lists has refused them all: those of the others are not what it
// lists for anybody.
func TestRefusedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := follow(t, oneListRefused{newToolServer(false)}, Config{ByAccess: true})
		wantState(t, b, Down)
		if o := b.Offer(); !o.Refused || len(o.Lists[catalog.Prompts].Items) != 0 {
			t.Errorf("offer %+v", o)
		}
	})
}

// askedAs is a server that records the sender of the requests for its tools.
type askedAs struct {
	*toolServer

	principal    atomic.Pointer[string]
	capabilities atomic.Pointer[string]
}

func (s *askedAs) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	if req.Method == "tools/list" {
		caps := string(req.Client.Capabilities)
		s.principal.Store(&req.Principal)
		s.capabilities.Store(&caps)
	}
	return s.toolServer.Serve(ctx, req, caller)
}

// Lists are requested as the principal, and for clients without the features that these lack.
func TestListsOfAPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &askedAs{toolServer: newToolServer(true, "a")}
		b, _ := follow(t, s, Config{Principal: "ann", Lacking: AllFeatures &^ hasRoots})
		wantTools(t, b, "a")
		if got := *s.principal.Load(); got != "ann" {
			t.Errorf("principal %q", got)
		}
		if got := *s.capabilities.Load(); got != `{"roots":{"listChanged":true}}` {
			t.Errorf("capabilities %s", got)
		}
	})
}

// distinct returns the number of different lists that are in memory.
func distinct(s *Snapshots) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.known {
		if p.Value() != nil {
			n++
		}
	}
	return n
}

// Backends with equal lists have one of them in memory, and their offers have equal content. A list
// that none of them offers is freed.
func TestSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var common Snapshots
		one, two := newToolServer(true, "a", "b"), newToolServer(true, "a", "b")
		a, _ := follow(t, one, Config{Snapshots: &common})
		b, _ := follow(t, two, Config{Snapshots: &common})
		wantTools(t, a, "a", "b")
		wantTools(t, b, "a", "b")
		first := func(b *Backend) *byte { return &b.Offer().Lists[catalog.Tools].Items[0][0] }
		if first(a) != first(b) || distinct(&common) != 1 {
			t.Errorf("%d lists in memory, the same: %v", distinct(&common), first(a) == first(b))
		}
		if a.Offer().Content() != b.Offer().Content() {
			t.Error("the contents differ")
		}
		one.set("a", "c")
		time.Sleep(time.Minute)
		wantTools(t, a, "a", "c")
		wantTools(t, b, "a", "b")
		if a.Offer().Content() == b.Offer().Content() {
			t.Error("the contents are the same")
		}
		two.set("a", "c")
		time.Sleep(time.Minute)
		wantTools(t, b, "a", "c")
		runtime.GC()
		if first(a) != first(b) || distinct(&common) != 1 {
			t.Errorf("%d lists in memory, the same: %v", distinct(&common), first(a) == first(b))
		}
	})
}
