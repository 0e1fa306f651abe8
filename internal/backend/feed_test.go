// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// follow runs a backend of a server inside a bubble, and stops it at the end of the
// test.
func follow(t *testing.T, s mcp.Handler, cfg Config) (*Backend, *atomic.Int64) {
	t.Helper()
	var changes atomic.Int64
	cfg.Name, cfg.Handler = "shelf", s
	cfg.Changed = func() { changes.Add(1) }
	b := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with ctx; the cleanup waits for it
		defer close(done)
		b.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return b, &changes
}

func wantTools(t *testing.T, b *Backend, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := names(t, b.Offer()); !slices.Equal(got, want) {
		t.Errorf("offered tools: got %q, want %q", got, want)
	}
}

func wantState(t *testing.T, b *Backend, want State) {
	t.Helper()
	synctest.Wait()
	if got := b.Offer().State; got != want {
		t.Errorf("state: got %v (%s), want %v", got, b.Offer().Reason, want)
	}
}

func TestEveryPageIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(false, "a", "b", "c", "d", "e")
		s.pageSize = 2
		b, _ := follow(t, s, Config{})
		wantTools(t, b, "a", "b", "c", "d", "e")
		wantState(t, b, Live)
	})
}

// The cursors are the server's own, of whatever form: each is sent back unmodified, and
// only a missing one, or a null, is the end.
//
// G7+ 2026-07-28 server/utilities/pagination: "an empty string is a valid cursor and
// thus MUST NOT be treated as the end of results"
//
// G7+ 2026-07-28 server/utilities/pagination: "Treat a missing `nextCursor` as the end
// of results"
//
// G7+ 2025-11-25 server/utilities/pagination: "Clients MUST treat cursors as opaque
// tokens"
func TestCursorsAreTheServersOwn(t *testing.T) {
	cursors := []string{"", "0", "null", "\u0000", `" \ ä 日本`, strings.Repeat("x", 5000)}
	synctest.Test(t, func(t *testing.T) {
		var got []string
		page := 0
		h := mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			if req.Method != "tools/list" {
				return mcp.NewResult([]byte(`{"capabilities":{"tools":{}}}`))
			}
			if cursor, ok := req.Params.Text(mcp.FieldCursor); ok || page > 0 {
				got = append(got, cursor)
			}
			page++
			next := []byte(`null`)
			if page <= len(cursors) {
				next = jsonscan.AppendString(nil, cursors[page-1])
			}
			return mcp.NewResult(fmt.Appendf(nil, `{"tools":[{"name":"t%d"}],"nextCursor":%s}`, page, next))
		})
		b, _ := follow(t, h, Config{})
		wantTools(t, b, "t1", "t2", "t3", "t4", "t5", "t6", "t7")
		if !slices.Equal(got, cursors) || b.Offer().Lists[catalog.Tools].Problem != "" {
			t.Errorf("asked with %.20q, want %.20q; problem %q", got, cursors, b.Offer().Lists[catalog.Tools].Problem)
		}
	})
}

func TestListsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cfg     Config
		want    int
		problem string
	}{
		{"all of them", Config{MaxItems: 5}, 5, ""},
		{"no limit", Config{MaxItems: -1, MaxPages: -1}, 5, ""},
		{"items", Config{MaxItems: 3}, 3, "only the first 3 items are kept (limits.toolsPerBackend)"},
		{"pages", Config{MaxPages: 2}, 2, "only the first 2 pages are kept (limits.pages)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newToolServer(false, "a", "b", "c", "d", "e")
				s.pageSize = 1
				b, _ := follow(t, s, tt.cfg)
				synctest.Wait()
				l := b.Offer().Lists[catalog.Tools]
				if len(l.Items) != tt.want || !strings.Contains(l.Problem, tt.problem) {
					t.Errorf("got %d items, problem %q; want %d items, %q", len(l.Items), l.Problem, tt.want, tt.problem)
				}
				if isCut := tt.problem != ""; isCut != (l.Code == code.ItemTooLarge) {
					t.Errorf("the code is %q", l.Code)
				}
			})
		})
	}
}

// I33: notifications of changes may be merged; at least one fetch follows the last.
func TestStormOfNoticesIsOneFetchASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(true, "a")
		b, _ := follow(t, s, Config{})
		time.Sleep(5 * time.Second)
		before := s.fetched()
		for i := range 50 {
			s.set("a", string(rune('b'+i%20)))
			time.Sleep(10 * time.Millisecond)
		}
		s.set("last")
		time.Sleep(3 * time.Second)
		wantTools(t, b, "last")
		if n := s.fetched() - before; n > 3 {
			t.Errorf("51 notices in half a second caused %d fetches, want at most 3", n)
		}
	})
}

// Notifications of the server are counted, even if the list is unchanged, and the count
// continues after a gap; possible changes in the gap are not counted.
func TestNoticesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(true, "a")
		b, _ := follow(t, s, Config{})
		want := func(n uint64) {
			t.Helper()
			time.Sleep(time.Minute)
			if got := b.Offer().Notices; got != [catalog.NumKinds]uint64{catalog.Tools: n} {
				t.Errorf("counted %v, want %d of tools", got, n)
			}
		}
		want(0)
		s.set("a")
		want(1)
		s.fail(errors.New("down"))
		want(1)
		s.fail(nil)
		b.Refresh()
		want(1)
		during := make(chan struct{})
		s.hook(func() { // two notices during the fetch count once with the one that caused it
			s.hook(nil)
			s.set("a")
			s.set("a")
			time.Sleep(time.Millisecond) // until they are received
			close(during)
		})
		s.set("a")
		<-during
		want(2)
	})
}

// M174: a list from a response that began before a notification is not stored.
//
// G6+ 2026-07-28 server/utilities/caching: "the notification invalidates the cached
// response and it should be considered immediately stale."
func TestM174AnswerOlderThanANoticeIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(true, "a")
		b, _ := follow(t, s, Config{})
		time.Sleep(5 * time.Second)
		computed := make(chan struct{})
		s.hook(func() {
			s.hook(nil)
			close(computed)
			s.set("newest")              // the notification overtakes the response
			time.Sleep(time.Millisecond) // until the notification is received
		})
		s.set("newer")
		<-computed
		for range 300 {
			time.Sleep(10 * time.Millisecond)
			if published := names(t, b.Offer()); slices.Contains(published, "newer") {
				t.Fatalf("published %q: the answer that a notice had overtaken", published)
			}
		}
		wantTools(t, b, "newest")
	})
}

func TestChangeBetweenListAndListenIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(true, "a")
		s.hook(func() {
			s.hook(nil)
			s.set("b") // before the listen
		})
		b, _ := follow(t, s, Config{})
		time.Sleep(2 * time.Second)
		wantTools(t, b, "b")
	})
}

// I41: the last good list stays, marked as stale, and becomes live again by itself.
func TestLostBackendKeepsItsLastGoodList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(true, "a")
		b, _ := follow(t, s, Config{})
		time.Sleep(2 * time.Second)
		s.fail(errors.New("gone"))
		time.Sleep(time.Second)
		wantState(t, b, Stale)
		wantTools(t, b, "a")
		s.fail(nil)
		time.Sleep(time.Minute)
		wantState(t, b, Live)
	})
}

// A listen that stays open hides that the server is gone; a call that could not be sent
// reveals it.
func TestCallThatWasNotSentMarksTheListStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(true, "a")
		b, _ := follow(t, s, Config{})
		time.Sleep(2 * time.Second)
		s.failAll(&mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched})
		wantState(t, b, Live)
		if _, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, slowCaller{}); err == nil {
			t.Fatal("no error")
		}
		wantState(t, b, Stale)
		wantTools(t, b, "a")
		s.failAll(nil)
		time.Sleep(time.Minute)
		wantState(t, b, Live)
	})
}

func TestBackendThatNeverAnsweredIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(true, "a")
		s.fail(&mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Backend: "shelf", Message: "connection refused"})
		b, changes := follow(t, s, Config{})
		wantState(t, b, Down)
		if got := b.Offer().Reason; !strings.Contains(got, "connection refused") {
			t.Errorf("reason: got %q, want what happened", got)
		}
		if changes.Load() == 0 {
			t.Error("Changed was not called")
		}
	})
}

// A server may answer with its own credentials. All clients see the reasons.
func TestReasonsHaveNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(true, "a")
		s.fail(&mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Message: "server/discover: bad token swordfish"})
		b, _ := follow(t, s, Config{Secrets: redact.Of("swordfish")})
		wantState(t, b, Down)
		const want = "bad token [redacted]"
		if got := b.Offer().Reason; !strings.HasSuffix(got, want) {
			t.Errorf("reason: got %q, want %q", got, want)
		}
	})
}

// G6- 2026-07-28 server/utilities/caching: "Clients SHOULD NOT treat TTL as a polling
// interval that triggers automatic background refetches."
func TestOldListIsFetchedAgainOnlyWhenWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(false, "a")
		b, _ := follow(t, s, Config{})
		synctest.Wait()
		s.set("b")
		time.Sleep(time.Hour)
		if n := s.fetched(); n != 1 {
			t.Errorf("%d fetches without a request for the list, want 1", n)
		}
		b.RefreshIfOld(time.Now())
		wantTools(t, b, "b")
		b.RefreshIfOld(time.Now())
		synctest.Wait()
		if n := s.fetched(); n != 2 {
			t.Errorf("%d fetches, want 2: the list is young", n)
		}
	})
}

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
