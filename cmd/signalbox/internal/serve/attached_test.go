// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lives runs f in a bubble with the lifetime of a gateway, and returns when it ended.
func lives(t *testing.T, busy func() bool, f func(*lifetime)) (ended time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		l := newLifetime(10*time.Minute, busy)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go l.run(ctx)
		f(l)
		select {
		case <-l.end():
			ended = time.Since(begun)
		case <-time.After(24 * time.Hour):
			t.Error("it does not end")
		}
		if l.enter() {
			t.Error("a client is accepted after the end")
		}
	})
	return ended
}

func never() bool { return false }

// A gateway ends ten minutes after its last client, whatever kind of client it is.
func TestLifetime(t *testing.T) {
	t.Parallel()
	within := func(t *testing.T, got, want time.Duration) {
		t.Helper()
		if got < want || got > want+30*time.Second {
			t.Errorf("it ended after %v, want %v", got, want)
		}
	}
	t.Run("no client", func(t *testing.T) {
		t.Parallel()
		within(t, lives(t, never, func(*lifetime) {}), 10*time.Minute)
	})
	t.Run("two clients", func(t *testing.T) {
		t.Parallel()
		within(t, lives(t, never, func(l *lifetime) {
			l.enter()
			time.Sleep(time.Hour)
			l.enter()
			l.leave()
			time.Sleep(time.Hour)
			l.leave()
		}), 2*time.Hour+10*time.Minute)
	})
	t.Run("a client that comes again", func(t *testing.T) {
		t.Parallel()
		within(t, lives(t, never, func(l *lifetime) {
			for range 5 {
				l.enter()
				l.leave()
				time.Sleep(9 * time.Minute)
			}
		}), 46*time.Minute)
	})
	t.Run("a session over HTTP", func(t *testing.T) {
		t.Parallel()
		var session atomic.Bool
		session.Store(true)
		within(t, lives(t, session.Load, func(*lifetime) {
			time.Sleep(time.Hour)
			session.Store(false)
		}), time.Hour+10*time.Minute-30*time.Second)
	})
	t.Run("a client of another version", func(t *testing.T) {
		t.Parallel()
		within(t, lives(t, never, func(l *lifetime) {
			l.enter()
			l.outdate()
			time.Sleep(time.Hour)
			l.leave()
		}), time.Hour)
	})
}

// A gateway without --end-when-idle never ends for lack of clients.
func TestLifetimeForEver(t *testing.T) {
	t.Parallel()
	var l *lifetime
	if !l.enter() || l.end() != nil {
		t.Error("it ends")
	}
	l.outdate()
	l.leave()
}
