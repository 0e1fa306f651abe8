// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// M131, I28: a backend that was lost and reached again twenty times has one listen, and
// is queried as often as one that was never lost.
func TestM131OneFollowerAfterManyReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oddServer{toolServer: newToolServer(true, "a")}
		b, _ := follow(t, o, Config{})
		time.Sleep(time.Minute)
		wantState(t, b, Live)
		for range 20 {
			o.fail(errors.New("gone"))
			time.Sleep(time.Second)
			o.fail(nil)
			time.Sleep(5 * time.Minute)
			wantState(t, b, Live)
		}
		synctest.Wait()
		if n := o.open(); n != 1 {
			t.Errorf("%d streams of changes are open, want 1", n)
		}
		discovered, listed := o.count("server/discover"), o.fetched()
		time.Sleep(time.Hour)
		if n, m := o.count("server/discover")-discovered, o.fetched()-listed; n != 0 || m != 0 {
			t.Errorf("in an hour in which nothing happened: %d discoveries and %d lists; want none, because the server notifies of changes", n, m)
		}
		o.set("b")
		time.Sleep(5 * time.Second)
		wantTools(t, b, "b")
		if n := o.fetched() - listed; n != 1 {
			t.Errorf("%d lists after one change, want 1", n)
		}
	})
}

// open returns the number of listens.
func (s *toolServer) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listens)
}

// M132, I29: Changed may read the backend, refresh it, and call it: no lock is held
// meanwhile.
func TestM132ChangedMayAskBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(true, "a")
		s.onCall = func(context.Context, mcp.Caller) {}
		var mu sync.Mutex
		var b *Backend
		notified := 0
		b = New(Config{Name: "shelf", Handler: s, Changed: func() {
			mu.Lock()
			defer mu.Unlock()
			notified++
			if b.Offer() == nil {
				t.Error("no offer during Changed")
			}
			b.RefreshIfOld(time.Now())
			if _, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, slowCaller{}); err != nil {
				t.Errorf("a call from within: %v", err)
			}
			if notified == 1 {
				b.Refresh()
			}
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends with ctx; waited for below
			defer close(done)
			b.Run(ctx)
		}()
		time.Sleep(time.Minute)
		s.set("b")
		time.Sleep(time.Minute)
		wantTools(t, b, "b")
		mu.Lock()
		if notified < 2 {
			t.Errorf("notified %d times", notified)
		}
		mu.Unlock()
		cancel()
		<-done
	})
}
