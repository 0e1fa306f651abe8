// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// sessionEndDelay is how long the servers of these tests take to end a session.
const sessionEndDelay = 3 * time.Second

func newSlowToEndSession() *station {
	s := newStation()
	s.On["DELETE"] = func(x *faultyserver.Exchange) {
		time.Sleep(sessionEndDelay)
		x.Polite()
	}
	return s
}

// timed calls f in a goroutine and sends how long that took.
func timed(f func()) <-chan time.Duration {
	took := make(chan time.Duration, 1)
	began := time.Now()
	go func() { // ends with f; the reader of the channel waits for it
		f()
		took <- time.Since(began)
	}()
	return took
}

// A session may be ended by its scope and by its client at once, in any order. Close
// returns when nothing of the session is left. The end of a scope runs on a foreign
// goroutine and never waits (mcp.Scope.OnEnd). Neither holds a lock during the request
// to the server: in a bubble no time passes while a goroutine waits for a lock, and
// this test would not end (I26, I29).
func TestSessionIsEndedConcurrently(t *testing.T) {
	const between = time.Second
	tests := map[string]struct {
		scope, client time.Duration // when it is ended
		left          time.Duration // of the delay, when the client is
	}{
		"scope first":  {0, between, sessionEndDelay - between},
		"client first": {between, 0, sessionEndDelay},
		"at once":      {0, 0, sessionEndDelay},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSlowToEndSession()
				c := dialHTTP(t, s, client.Config{})
				scope := mcp.NewScope("s", nil)
				if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
					t.Fatal(err)
				}
				scopeEnds := timed(func() { time.Sleep(tt.scope); scope.End() })
				clientEnds := timed(func() { time.Sleep(tt.client); c.Close() })
				if d := <-scopeEnds - tt.scope; d != 0 {
					t.Errorf("the end of the scope took %v, want no time", d)
				}
				if d := <-clientEnds - tt.client; d != tt.left {
					t.Errorf("the end of the client took %v, want %v", d, tt.left)
				}
				if n := s.Count("DELETE"); n != 1 {
					t.Errorf("%d goodbyes, want 1", n)
				}
			})
		})
	}
}

// Each Close waits until nothing of the client is left, even if another Close has begun
// (I26).
func TestConcurrentClose(t *testing.T) {
	for _, between := range []time.Duration{0, time.Second} {
		inBubble(t, func(t *testing.T) {
			s := newSlowToEndSession()
			c := dialHTTP(t, s, client.Config{})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
			first := timed(func() { c.Close() })
			second := timed(func() { time.Sleep(between); c.Close() })
			if a, b := <-first, <-second; a != sessionEndDelay || b != sessionEndDelay {
				t.Errorf("%v between: closed after %v and %v, want both after %v", between, a, b, sessionEndDelay)
			}
		})
	}
}

// A protocol found to be the wrong one is kept for the requests that it still serves,
// together with its sessions. They end with the client (I26).
func TestCloseAfterTheServerChangedItsEra(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSlowToEndSession()
		s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Hold() }
		s.On["prompts/list"] = func(x *faultyserver.Exchange) {
			x.Status(http.StatusBadRequest, "application/json", `{"jsonrpc":"2.0","id":`+x.Msg.ID.String()+`,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`)
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		held := launch(t, c, in(scope, echo(t)), &recorder{})
		synctest.Wait()
		if _, err := within(t, c, in(scope, request(t, "prompts/list", "{}")), &recorder{}); err == nil {
			t.Fatal("no error of a server that refuses")
		}
		select {
		case <-held.done:
			t.Fatalf("the other request has ended: %v", held.err)
		default:
		}
		if d := <-timed(func() { c.Close() }); d != sessionEndDelay {
			t.Errorf("closed after %v, want %v", d, sessionEndDelay)
		}
		select {
		case <-held.done:
		case <-time.After(time.Hour):
			t.Error("a request goes on when its client is closed")
		}
		if n := s.Count("DELETE"); n == 0 {
			t.Error("the session of the protocol that was found wrong was not ended")
		}
	})
}

// A session that the server has forgotten ends after its other calls have failed. Close
// waits for that end, and not for the calls (I26).
func TestCloseWithAForgottenSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSlowToEndSession()
		s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Hold() }
		s.On["prompts/list"] = func(x *faultyserver.Exchange) { x.Status(http.StatusNotFound, "", "") }
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		held := launch(t, c, in(scope, echo(t)), &recorder{})
		synctest.Wait()
		launch(t, c, in(scope, request(t, "prompts/list", "{}")), &recorder{})
		synctest.Wait()
		if isDone(held) {
			t.Fatalf("the other call has ended: %v", held.err)
		}
		scope.End() // discards the forgotten session, once its calls have failed
		if d := <-timed(func() { c.Close() }); d != sessionEndDelay {
			t.Errorf("closed after %v, want %v", d, sessionEndDelay)
		}
		<-held.done
	})
}
