// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// sharedListens is a modern server with the listens of one scope, for one resource
// each.
type sharedListens struct {
	*broadcaster
	ears map[string]*recorder
	runs map[string]*running
	join func(uri string)
}

func newSharedListens(t *testing.T, b *broadcaster, uris ...string) *sharedListens {
	t.Helper()
	c := dialHTTP(t, b, client.Config{})
	scope := mcp.NewScope("s", nil)
	t.Cleanup(scope.End)
	s := &sharedListens{broadcaster: b, ears: map[string]*recorder{}, runs: map[string]*running{}}
	s.join = func(uri string) {
		s.ears[uri] = &recorder{}
		s.runs[uri] = launch(t, c, in(scope, watching(t, uri)), s.ears[uri])
		synctest.Wait()
	}
	for _, uri := range uris {
		s.join(uri)
	}
	return s
}

func (s *sharedListens) leave(uri string) {
	s.runs[uri].cancel()
	<-s.runs[uri].done
	synctest.Wait()
}

// A notification in transit on a stream when the next one is acknowledged arrives after
// that, because the two are separate connections. It is forwarded once.
func TestLateNotificationOfAReplacedStream(t *testing.T) {
	for _, widened := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			s := newSharedListens(t, newBroadcaster(), "x:1", "x:2")
			time.Sleep(time.Second)
			if widened {
				s.join("x:3")
			} else {
				s.leave("x:2")
			}
			s.at(1).update("x:1")
			time.Sleep(time.Second)
			wantStrings(t, "x:1", received(s.ears["x:1"]), []string{agreedTo("x:1"), told("x:1")})
			if got := s.listens()[1]; got != "-x:1 x:2" {
				t.Errorf("widened %v: the stream that was replaced is %q, want it closed", widened, got)
			}
		})
	}
}

// A change that both streams notify about is forwarded once, in either order.
func TestNotificationOfTwoStreamsIsSentOnce(t *testing.T) {
	for _, order := range [][]int{{0, 1}, {1, 0}, {1, 0, 0}, {0, 0, 1}} {
		inBubble(t, func(t *testing.T) {
			s := newSharedListens(t, newBroadcaster(), "x:1", "x:2")
			for _, i := range order {
				s.at(i).update("x:1")
				synctest.Wait()
			}
			time.Sleep(time.Second)
			wantStrings(t, fmt.Sprintf("order %v", order), received(s.ears["x:1"]), []string{agreedTo("x:1"), told("x:1")})
		})
	}
}

// What the current stream has brought does not count as seen after the next one
// replaces it.
func TestEachReplacementStartsEmpty(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedListens(t, newBroadcaster(), "x:1", "x:2")
		s.at(1).update("x:1")
		synctest.Wait()
		s.join("x:3")
		s.at(1).update("x:1") // again, before the third stream covered it
		time.Sleep(time.Second)
		wantStrings(t, "x:1", received(s.ears["x:1"]), []string{agreedTo("x:1"), told("x:1"), told("x:1")})
	})
}

// Few replaced streams are kept, however often streams are replaced.
func TestReplacedStreamsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedListens(t, newBroadcaster(), "x:1", "x:2", "x:3", "x:4", "x:5", "x:6")
		open := 0
		for _, st := range s.listens() {
			if st[0] != '-' {
				open++
			}
		}
		if open != 4 {
			t.Errorf("%d streams are open, want the newest and three that were replaced: %q", open, s.listens())
		}
		s.at(2).update("x:1")
		synctest.Wait()
		s.join("x:7") // closes it and publishes what was held back
		wantStrings(t, "x:1", received(s.ears["x:1"]), []string{agreedTo("x:1"), told("x:1")})
		time.Sleep(time.Second)
		wantStrings(t, "last", s.listens()[6:], []string{"x:1 x:2 x:3 x:4 x:5 x:6 x:7"})
	})
}

// A listen may want again what the stream that is being opened leaves out. That stream
// then does not replace the one that has it.
func TestSubscribingAgainWhileAStreamIsNarrowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroadcaster()
		s := newSharedListens(t, b, "x:1", "x:2")
		time.Sleep(time.Second)
		plain, hold := b.On["subscriptions/listen"], make(chan struct{})
		b.On["subscriptions/listen"] = func(x *faultyserver.Exchange) {
			<-hold
			plain(x)
		}
		s.leave("x:2")
		s.join("x:2") // the open stream covers it
		wantStrings(t, "x:2", received(s.ears["x:2"]), []string{agreedTo("x:2")})
		close(hold)
		time.Sleep(time.Second)
		last := ""
		for i, st := range s.listens() {
			if st[0] != '-' {
				last = st
				s.at(i).update("x:2")
			}
		}
		synctest.Wait()
		if last != "x:1 x:2" {
			t.Errorf("streams are %q, want one open that has both", s.listens())
		}
		wantStrings(t, "x:2", received(s.ears["x:2"]), []string{agreedTo("x:2"), told("x:2")})
	})
}

// A server that serves two listens at a time serves a scope, once the replaced stream
// is closed. A server that serves only one is not asked again and again.
func TestServerWithFewListens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroadcaster()
		plain := b.On["subscriptions/listen"]
		var open, most, refused atomic.Int64
		most.Store(2)
		b.On["subscriptions/listen"] = func(x *faultyserver.Exchange) {
			defer open.Add(-1)
			if open.Add(1) > most.Load() {
				refused.Add(1)
				x.Error(mcp.CodeInvalidRequest, "too many")
				return
			}
			plain(x)
		}
		s := newSharedListens(t, b, "x:1", "x:2", "x:3")
		time.Sleep(time.Second)
		for _, uri := range []string{"x:1", "x:2", "x:3"} {
			wantStrings(t, uri, received(s.ears[uri]), []string{agreedTo(uri)})
		}
		most.Store(1)
		refused.Store(0)
		s.leave("x:3")
		time.Sleep(time.Hour)
		if n := refused.Load(); n != 1 {
			t.Errorf("a server that refuses to tell of less was asked %d times, want 1", n)
		}
		for _, st := range s.listens()[:len(s.listens())-1] {
			if st[0] != '-' {
				t.Errorf("the stream %s is open, want the last alone", st)
			}
		}
		s.at(len(s.listens()) - 1).update("x:1")
		synctest.Wait()
		wantStrings(t, "x:1", received(s.ears["x:1"]), []string{agreedTo("x:1"), told("x:1")})
	})
}

// A server may refuse a narrower stream because a replaced one is still read. It is
// asked once more when that is closed.
func TestNarrowerStreamOfAServerWithFewListens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroadcaster()
		plain := b.On["subscriptions/listen"]
		var open atomic.Int64
		b.On["subscriptions/listen"] = func(x *faultyserver.Exchange) {
			defer open.Add(-1)
			if open.Add(1) > 2 {
				x.Error(mcp.CodeInvalidRequest, "too many")
				return
			}
			plain(x)
		}
		s := newSharedListens(t, b, "x:1", "x:2")
		s.leave("x:2") // the first stream is still read
		time.Sleep(time.Second)
		wantStrings(t, "streams", s.listens(), []string{"-x:1", "-x:1 x:2", "x:1"})
	})
}
