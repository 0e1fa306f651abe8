// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// issued is a Requester that issues numbered tokens.
type issued struct {
	life time.Duration
	slow time.Duration

	mu  sync.Mutex
	n   int
	err error
}

func (i *issued) request(ctx context.Context) (string, time.Time, error) {
	if !backoff.Sleep(ctx, i.slow) {
		return "", time.Time{}, ctx.Err()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n++
	if i.err != nil {
		return "", time.Time{}, i.err
	}
	return "t" + strconv.Itoa(i.n), time.Now().Add(i.life), nil
}

func (i *issued) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.err = err
}

func (i *issued) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.n
}

// inBubble runs a test with a Cache and its own time.
func inBubble(t *testing.T, f func(t *testing.T, c *Cache[string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := NewCache[string]()
		defer c.Close()
		f(t, c)
	})
}

// wantToken checks the outcome of a call to the Cache.
func wantToken(t *testing.T, got Kept[string], err error, want string) {
	t.Helper()
	if err != nil || got.Value != want {
		t.Errorf("token %q, error %v, want %q", got.Value, err, want)
	}
}

// A token is requested once, however many wait for it, and again 30 seconds before it ends, or
// after half of a short life (identity attack 26).
func TestCacheRequestsOnce(t *testing.T) {
	for life, use := range map[time.Duration]time.Duration{time.Hour: time.Hour - 30*time.Second, 40 * time.Second: 20 * time.Second} {
		inBubble(t, func(t *testing.T, c *Cache[string]) {
			i := &issued{life: life, slow: time.Second}
			many := func() {
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() {
						if _, err := c.Get(t.Context(), Key{}, i.request); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
			}
			many()
			time.Sleep(use - time.Second)
			many()
			if n := i.count(); n != 1 {
				t.Errorf("life %v: %d requests before its end is near, want 1", life, n)
			}
			time.Sleep(2 * time.Second)
			many()
			if n := i.count(); n != 2 {
				t.Errorf("life %v: %d requests, want 2", life, n)
			}
		})
	}
}

// Tokens of two keys are apart, whatever the keys differ in (N2).
func TestCacheKeysAreApart(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache[string]) {
		i := &issued{life: time.Hour}
		keys := []Key{{}, {Backend: "b"}, {Issuer: "b"}, {ClientID: "b"}, {Resource: "b"}, {Scopes: "b"}, {Principal: "b"}, {Subject: [32]byte{1}}}
		for range 2 {
			for n, k := range keys {
				got, err := c.Get(t.Context(), k, i.request)
				wantToken(t, got, err, "t"+strconv.Itoa(n+1))
			}
		}
	})
}

// A request for a token does not end with the one that has waited for it first.
func TestCacheRequestOutlivesItsCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache[string]) {
		i := &issued{life: time.Hour, slow: 10 * time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Get(ctx, Key{}, i.request); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that of the context", err)
		}
		got, err := c.Get(t.Context(), Key{}, i.request)
		wantToken(t, got, err, "t1")
	})
}

// While requests fail, the token before is returned for as long as it lasts, and the server is
// asked less and less often (identity attack 27).
func TestCacheWhileTheServerIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache[string]) {
		i := &issued{life: time.Hour}
		down := &oauth.TemporaryError{Status: 503}
		got, err := c.Get(t.Context(), Key{}, i.request)
		wantToken(t, got, err, "t1")
		i.fail(down)
		time.Sleep(time.Hour - 20*time.Second)
		got, err = c.Get(t.Context(), Key{}, i.request)
		wantToken(t, got, err, "t1")
		time.Sleep(20 * time.Second)
		before := i.count()
		for range 600 {
			if _, err = c.Get(t.Context(), Key{}, i.request); !errors.Is(err, down) {
				t.Fatalf("error %v, want %v", err, down)
			}
			time.Sleep(time.Second)
		}
		if n := i.count() - before; n < 10 || n > 16 {
			t.Errorf("%d requests in ten minutes, want one a minute after a few", n)
		}
		i.fail(nil)
		time.Sleep(time.Minute)
		got, err = c.Get(t.Context(), Key{}, i.request)
		wantToken(t, got, err, "t"+strconv.Itoa(i.count()))
	})
}

// A server that asks for a pause gets it.
func TestCacheRetryAfter(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache[string]) {
		i := &issued{life: time.Hour, err: &oauth.TemporaryError{Status: 429, RetryAfter: 30 * time.Second}}
		for range 29 {
			_, _ = c.Get(t.Context(), Key{}, i.request) // fails
			time.Sleep(time.Second)
		}
		if n := i.count(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// A refused token is renewed once for all that were refused with it, and at most every ten
// seconds (identity attack 29).
func TestCacheRenew(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache[string]) {
		i := &issued{life: time.Hour, slow: time.Second}
		first, err := c.Get(t.Context(), Key{}, i.request)
		wantToken(t, first, err, "t1")
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				got, err := c.Renew(t.Context(), Key{}, first.Generation, i.request)
				wantToken(t, got, err, "t2")
			})
		}
		all.Wait()
		second, err := c.Get(t.Context(), Key{}, i.request)
		wantToken(t, second, err, "t2")
		if _, err := c.Renew(t.Context(), Key{}, second.Generation, i.request); !errors.Is(err, ErrJustRenewed) {
			t.Errorf("error %v, want that it was renewed just now", err)
		}
		got, err := c.Renew(t.Context(), Key{}, first.Generation, i.request)
		wantToken(t, got, err, "t2")
		time.Sleep(10 * time.Second)
		got, err = c.Renew(t.Context(), Key{}, second.Generation, i.request)
		wantToken(t, got, err, "t3")
	})
}

// A renewal that fails leaves the token, which may be refused by mistake, and returns the reason.
func TestCacheRenewalFails(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache[string]) {
		i := &issued{life: time.Hour}
		first, err := c.Get(t.Context(), Key{}, i.request)
		wantToken(t, first, err, "t1")
		down := errors.New("down")
		i.fail(down)
		for range 2 { // the second one does not ask
			if _, err := c.Renew(t.Context(), Key{}, first.Generation, i.request); !errors.Is(err, down) {
				t.Errorf("error %v, want %v", err, down)
			}
		}
		got, err := c.Get(t.Context(), Key{}, i.request)
		wantToken(t, got, err, "t1")
		if n := i.count(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		i.fail(nil)
		c.Retry()
		got, err = c.Renew(t.Context(), Key{}, first.Generation, i.request)
		wantToken(t, got, err, "t3")
	})
}

// A token that has ended when it was issued is used by those that waited for it, and by no other.
func TestCacheTokenWithoutLife(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache[string]) {
		i := &issued{}
		for n := range 3 {
			got, err := c.Get(t.Context(), Key{}, i.request)
			wantToken(t, got, err, "t"+strconv.Itoa(n+1))
		}
	})
}

// The number of tokens is bounded, and those in use stay.
func TestCacheIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache[string]) {
		i := &issued{life: time.Hour}
		used := Key{Principal: "used"}
		first, err := c.Get(t.Context(), used, i.request)
		if err != nil {
			t.Fatal(err)
		}
		for n := range maxTokens + 1000 {
			time.Sleep(time.Millisecond)
			for _, k := range []Key{{Principal: fmt.Sprint(n)}, used} {
				if _, err := c.Get(t.Context(), k, i.request); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, err := c.Get(t.Context(), used, i.request)
		wantToken(t, got, err, first.Value)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.entries) != maxTokens {
			t.Errorf("%d entries, want %d", len(c.entries), maxTokens)
		}
	})
}

// Close ends a request in progress, and there is no other afterwards.
func TestCacheClose(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache[string]) {
		i := &issued{slow: time.Hour}
		done := make(chan error)
		go func() { // ends with the Cache
			_, err := c.Get(t.Context(), Key{}, i.request)
			done <- err
		}()
		synctest.Wait()
		c.Close()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if _, err := c.Get(t.Context(), Key{Backend: "b"}, i.request); !errors.Is(err, errClosed) {
			t.Errorf("error %v after Close", err)
		}
	})
}

// A credential that has ended does not stay in memory: new ones remove it (N14).
func TestCacheDropsWhatHasEnded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cache[string]) {
		i := &issued{life: 5 * time.Minute}
		for n := range 1000 {
			got, err := c.Get(t.Context(), Key{Principal: strconv.Itoa(n)}, i.request)
			wantToken(t, got, err, "t"+strconv.Itoa(n+1))
		}
		if len(c.entries) != 1000 {
			t.Fatalf("%d entries of 1000 valid credentials", len(c.entries))
		}
		time.Sleep(10 * time.Minute)
		i.life = time.Hour
		for n := range 1000 {
			if _, err := c.Get(t.Context(), Key{Backend: strconv.Itoa(n)}, i.request); err != nil {
				t.Fatal(err)
			}
		}
		valid := 0
		for k := range c.entries {
			if k.Backend != "" {
				valid++
			}
		}
		if valid != 1000 || len(c.entries) > 1050 {
			t.Errorf("%d entries, %d of them of the 1000 valid credentials", len(c.entries), valid)
		}
	})
}
