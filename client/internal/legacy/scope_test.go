// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// gatedOpener opens sessions when the test allows it.
type gatedOpener struct {
	s    *clientSession
	err  error
	open chan struct{}
	n    int
}

func newGatedOpener() *gatedOpener {
	return &gatedOpener{s: idleTestSession(), open: make(chan struct{})}
}

func (g *gatedOpener) pass(context.Context) (*clientSession, error) {
	g.n++
	<-g.open
	return g.s, g.err
}

// waiting calls get in a goroutine of its own, which ends when it has sent the result
// on the channel.
func waiting(ctx context.Context, sl *scopedSession, l *Protocol, g *gatedOpener) <-chan error {
	got := make(chan error, 1)
	go func() {
		s, err := sl.get(ctx, l, g.pass)
		if err == nil && s != g.s {
			err = errors.New("another session")
		}
		got <- err
	}()
	synctest.Wait()
	return got
}

// All requests that need a session during its handshake wait for that handshake and
// share its outcome. If one of them gives up, the others are not affected (M105, M168).
func TestM105OneHandshakeForAScopedSession(t *testing.T) {
	for _, fails := range []error{nil, errors.New("refused")} {
		synctest.Test(t, func(t *testing.T) {
			l, g, sl := closedLegacy(t, call.Config{Name: "b"}), newGatedOpener(), new(scopedSession)
			g.err = fails
			ctx, giveUp := context.WithCancel(t.Context())
			leader := waiting(ctx, sl, l, g)
			followers := []<-chan error{waiting(t.Context(), sl, l, g), waiting(t.Context(), sl, l, g)}
			giveUp()
			f, ok := errors.AsType[*mcp.Fault](<-leader)
			if !ok || f.Outcome != mcp.NotDispatched {
				t.Errorf("who gave up: %v", f)
			}
			close(g.open)
			for _, follower := range followers {
				if err := <-follower; !errors.Is(err, fails) {
					t.Errorf("who waited on: %v, want %v", err, fails)
				}
			}
			if g.n != 1 {
				t.Errorf("%d handshakes", g.n)
			}
			if fails != nil {
				g.err = nil
				if err := <-waiting(t.Context(), sl, l, g); err != nil || g.n != 2 {
					t.Errorf("the next one: %v, after %d handshakes", err, g.n)
				}
			}
		})
	}
}

// A session that is opened after its scope has ended is closed at once and never found
// again (M103, M134).
func TestM103EndWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g, sl := closedLegacy(t, call.Config{Name: "b"}), newGatedOpener(), new(scopedSession)
		first := waiting(t.Context(), sl, l, g)
		sl.end(l)
		if err := <-waiting(t.Context(), sl, l, g); !errors.Is(err, call.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		close(g.open)
		<-first
		synctest.Wait()
		if g.s.isAlive() || sl.current() != nil || g.n != 1 {
			t.Errorf("alive %v, found again %v, %d handshakes", g.s.isAlive(), sl.current() != nil, g.n)
		}
	})
}

// A session that the server has lost is replaced once, and retired.
func TestScopedSessionReplacesAnEndedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g, sl := closedLegacy(t, call.Config{Name: "b"}), newGatedOpener(), new(scopedSession)
		close(g.open)
		if err := <-waiting(t.Context(), sl, l, g); err != nil {
			t.Fatal(err)
		}
		old := g.s
		old.markEnded(call.ErrClosed)
		if sl.current() != nil {
			t.Error("the dead session counts as open")
		}
		g.s = idleTestSession()
		if err := <-waiting(t.Context(), sl, l, g); err != nil || sl.current() != g.s {
			t.Errorf("the next session: %v", err)
		}
	})
}

// A scopedSession is idle while a session is open, no request uses it and none opens
// one. The time counts from the last request's end.
func TestScopedSessionIdleSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g, sl := closedLegacy(t, call.Config{Name: "b"}), newGatedOpener(), new(scopedSession)
		want := func(what string, want bool) {
			t.Helper()
			if _, idle := sl.idleSince(); idle != want {
				t.Errorf("%s: idle %v, want %v", what, idle, want)
			}
		}
		want("empty", false)
		sl.acquire()
		opening := waiting(t.Context(), sl, l, g)
		want("opening", false)
		close(g.open)
		<-opening
		want("in use", false)
		sl.acquire()
		sl.release()
		want("still in use by another", false)
		time.Sleep(time.Minute)
		sl.release()
		want("at rest", true)
		if at, _ := sl.idleSince(); !at.Equal(time.Now()) {
			t.Errorf("since %v, want now", at)
		}
		g.s.markEnded(call.ErrClosed)
		want("its session has ended", false)
	})
}
