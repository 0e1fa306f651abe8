// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// accepted returns a request that was sent again with the consent of its user.
func accepted(t *testing.T, id string) *mcp.Request {
	t.Helper()
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"crm__find"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := mcp.NewResult([]byte(`{"action":"accept"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{Version: mcp.V20260728, Capabilities: []byte(`{"elicitation":{"url":{}}}`)}
	req.Principal, req.TakesInputRequired = "ann", true
	req.Resumed = &mcp.Resumed{State: []byte(id), Answers: map[string]*mcp.Result{inputKey: answer}, Rounds: 1}
	return req
}

// A call ends at once when its client leaves: it is not dispatched, nothing of it runs on, and the
// pending is there for the next call (identity attack 35, N13).
func TestClientLeavesWhileItsCallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.close()
		p, err := f.begin("ann", "crm")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := goleak.IgnoreCurrent()
		dispatched := 0
		h := Handler{Desk: f.desk, Source: f.source, Backend: "crm", Rounds: 8, Next: mcp.HandlerFunc(func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
			dispatched++
			return nil, &grant.Missing{Backend: "crm", Principal: "ann"}
		})}
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := h.Serve(ctx, accepted(t, p.id), nil)
			ended <- err
		}()
		synctest.Wait()
		if p.waiting != 1 {
			t.Fatalf("%d calls wait", p.waiting)
		}
		began := time.Now()
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) || dispatched != 0 || time.Since(began) != 0 {
			t.Errorf("ended with %v after %v, dispatched %d times", err, time.Since(began), dispatched)
		}
		if p.waiting != 0 {
			t.Errorf("%d calls wait", p.waiting)
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
		next, err := f.begin("ann", "crm")
		if next != p || err != nil {
			t.Errorf("the next call has another pending: %v", err)
		}
		// It would be replaced only as one that nothing uses.
		if idle := f.desk.oldestIdleLocked(func(*pending) bool { return true }); idle != p {
			t.Error("the pending is not idle")
		}
	})
}

// A response of an authorization server counts until its pending ends, and once, also if it comes
// several times at the same moment (identity attack 22).
func TestResponseCountsOnce(t *testing.T) {
	respond := func(t *testing.T, f *fixture) *http.Request {
		t.Helper()
		p, err := f.begin("", "crm")
		if err != nil {
			t.Fatal(err)
		}
		f.desk.mu.Lock()
		defer f.desk.mu.Unlock()
		p.signIn, p.isBegun, p.cookie = &grant.SignIn{Authorization: &oauth.Authorization{State: "s"}}, true, sha256.Sum256([]byte("secret"))
		f.desk.byState["s"] = p
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, PathCallback, http.NoBody)
		r.AddCookie(cookie(p.base, signInCookie(p.id), "secret", Lifetime))
		return r
	}
	t.Run("late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			defer f.close()
			r := respond(t, f)
			time.Sleep(Lifetime)
			if taken, _ := f.desk.take(r, "s"); taken != nil {
				t.Error("a response is taken after the end")
			}
		})
	})
	t.Run("at once", func(t *testing.T) {
		f := newFixture(t)
		defer f.close()
		r := respond(t, f)
		var taken atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if p, _ := f.desk.take(r, "s"); p != nil {
					taken.Add(1)
				}
			})
		}
		all.Wait()
		if n := taken.Load(); n != 1 {
			t.Errorf("%d responses were taken", n)
		}
	})
}

// With too many sign-ins under way, a request ends with 429 (identity attack 37).
func TestTooManySignIns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.close()
		ctx, leave := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range MaxPerPrincipal {
			p, err := f.begin("ann", fmt.Sprint("b", i))
			if err != nil {
				t.Fatal(err)
			}
			waiting.Go(func() { f.desk.wait(ctx, p, time.Minute, func() {}) })
		}
		synctest.Wait()
		h := Handler{Desk: f.desk, Source: f.source, Backend: "crm", Rounds: 8, Next: mcp.HandlerFunc(func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
			return nil, &grant.Missing{Backend: "crm", Principal: "ann"}
		})}
		req := accepted(t, "none")
		req.Resumed = nil
		_, err := h.Serve(t.Context(), req, nil)
		denied, ok := errors.AsType[*mcp.Denied](err)
		if !ok || denied.Status != http.StatusTooManyRequests || denied.RetryAfter <= 0 || denied.Err.Code != mcp.CodeLimit {
			t.Errorf("got %+v", err)
		}
		leave()
		waiting.Wait()
		if _, err := h.Serve(t.Context(), req, nil); err != nil {
			t.Errorf("when there is room: %v", err)
		}
	})
}
