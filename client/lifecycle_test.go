// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// With one attempt allowed, a stream is resumed once: neither never nor twice (M071,
// M072).
func TestM071M072OneAttemptIsOne(t *testing.T) {
	no := func(x *faultyserver.Exchange) { x.Status(http.StatusMethodNotAllowed, "", "") }
	t.Run("listening stream", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			s.On["GET"] = no
			c := dialHTTP(t, s, client.Config{})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			for range 3 {
				if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
			}
			if n := s.Count(http.MethodGet); n != 1 {
				t.Errorf("%d attempts to listen in one session, want 1", n)
			}
		})
	})
	t.Run("resumption", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Event("1", "") }
			resumed := 0
			s.On["GET"] = func(x *faultyserver.Exchange) {
				if x.R.Header.Get("Last-Event-Id") == "1" {
					resumed++
				}
				no(x)
			}
			_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
			wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "cannot be resumed")
			if resumed != 1 {
				t.Errorf("%d attempts to resume, want 1", resumed)
			}
		})
	})
}

// Closing a client does not wait for the answer to an abandoned call (M126).
func TestM126CloseAfterACancelledCall(t *testing.T) {
	hold := func(x *faultyserver.Exchange) { x.Hold() }
	silent := map[string]func(*faultyserver.Line){"tools/call": func(*faultyserver.Line) {}, "notifications/cancelled": func(*faultyserver.Line) {}}
	tests := map[string]func(t *testing.T) (*client.Client, func() int){
		"legacy": func(t *testing.T) (*client.Client, func() int) {
			s := newStation()
			s.On["tools/call"], s.On["notifications/cancelled"] = hold, hold
			return dialHTTP(t, s, client.Config{}), func() int { return s.Count("tools/call") }
		},
		"modern": func(t *testing.T) (*client.Client, func() int) {
			s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": hold}}
			return dialHTTP(t, s, client.Config{}), func() int { return s.Count("tools/call") }
		},
		"legacy lines": func(t *testing.T) (*client.Client, func() int) {
			s := &faultyserver.Lines{On: silent}
			c, _ := dialLines(t, s, client.Config{})
			return c, func() int { return s.Count("tools/call") }
		},
		"modern lines": func(t *testing.T) (*client.Client, func() int) {
			s := &faultyserver.Lines{Modern: true, On: silent}
			c, _ := dialLines(t, s, client.Config{})
			return c, func() int { return s.Count("tools/call") }
		},
	}
	for name, dial := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c, calls := dial(t)
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				call := launch(t, c, in(scope, echo(t)), &recorder{})
				time.Sleep(time.Minute)
				if calls() != 1 {
					t.Fatalf("%d calls arrived", calls())
				}
				call.cancel()
				<-call.done
				began := time.Now()
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				// Messages in progress get a second to arrive.
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("Close took %v", took)
				}
			})
		})
	}
}

// The context of the request that opened a session ends that request only, not the
// session (M126, M110).
func TestM126ContextOfTheFirstRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Serve(ctx, in(scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // it expires
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		if n := s.Count("initialize"); n != 1 {
			t.Errorf("%d sessions, want 1", n)
		}
	})
}

// Hundreds of clients that come and go leave no connection behind, and send DELETE on
// the connection that they have (M164).
func TestM164ConnectionsOfManyClients(t *testing.T) {
	const clients = 300
	inBubble(t, func(t *testing.T) {
		var open, opened atomic.Int32
		s := newStation()
		s.On["GET"] = func(x *faultyserver.Exchange) { x.Status(http.StatusMethodNotAllowed, "", "") }
		s.On["DELETE"] = func(x *faultyserver.Exchange) { x.Status(http.StatusOK, "text/plain", "goodbye") }
		ln := memnet.Listen()
		srv := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0), ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open.Add(1)
				opened.Add(1)
			case http.StateClosed:
				open.Add(-1)
			default:
			}
		}}
		done := make(chan error, 1)
		go func() { done <- srv.Serve(ln) }() // ends with srv.Close below
		shared := ln.HTTP1()
		for range clients {
			c := client.NewHTTP("http://backend.test/mcp", client.Config{Name: "b", Transport: keepIdle{shared}})
			res, err := within(t, c, echo(t), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if s.Count(http.MethodDelete) != clients || opened.Load() > 4 {
			t.Errorf("%d goodbyes over %d connections, want %d over a few", s.Count(http.MethodDelete), opened.Load(), clients)
		}
		shared.CloseIdleConnections()
		synctest.Wait()
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		srv.Close()
		<-done
	})
}

// keepIdle is a transport with idle connections that a client cannot close.
type keepIdle struct{ rt http.RoundTripper }

func (k keepIdle) RoundTrip(r *http.Request) (*http.Response, error) { return k.rt.RoundTrip(r) }

// An idle client is shut down without an error even if the context has ended.
func TestShutdownOfAnIdleClientAfterItsDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // select chooses at random
		c := dialHTTP(t, newStation(), client.Config{})
		if err := c.Shutdown(ctx); err != nil {
			t.Fatalf("Shutdown: %v", err)
		}
	}
}

// TestConnectionSurvivesANotificationWithABody checks that an unexpected body in the answer to a
// notification does not cost the connection: the body is read to its end.
func TestConnectionSurvivesANotificationWithABody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var opened atomic.Int32
		s := newStation()
		s.On["GET"] = func(x *faultyserver.Exchange) { x.Status(http.StatusMethodNotAllowed, "", "") }
		s.On["notifications/initialized"] = func(x *faultyserver.Exchange) {
			x.W.WriteHeader(http.StatusAccepted)
			x.Raw("{") // without a length
			x.Raw("}")
		}
		ln := memnet.Listen()
		srv := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0), ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				opened.Add(1)
			}
		}}
		done := make(chan error, 1)
		go func() { done <- srv.Serve(ln) }() // ends with srv.Close below
		c := client.NewHTTP("http://backend.test/mcp", client.Config{Name: "b", Transport: ln.HTTP1()})
		res, err := within(t, c, echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		if n := opened.Load(); n != 1 {
			t.Errorf("%d connections, want one", n)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		srv.Close()
		<-done
	})
}
