// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// watchHandler is a Handler with listens that continue after Watch has returned.
type watchHandler struct {
	mcp.Handler
	watch func(context.Context, mcp.Caller) (func(), error)
}

func (watchHandler) ServeNow(*mcp.Request) (*mcp.Result, bool) { return nil, false }

func (w watchHandler) Watch(ctx context.Context, _ *mcp.Request, c mcp.Caller) (func(), error) {
	return w.watch(ctx, c)
}

// acknowledgeListen acknowledges a listen for tools.
func acknowledgeListen(ctx context.Context, c mcp.Caller) error {
	ack, err := mcp.NewNotification("notifications/subscriptions/acknowledged", []byte(`{"notifications":{"toolsListChanged":true}}`))
	if err != nil {
		return err
	}
	return c.Notify(ctx, ack)
}

// failOnListen fails if Serve is called for a listen.
func failOnListen(t *testing.T) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method == "subscriptions/listen" {
			t.Error("Serve was asked to listen")
		}
		return tools(nil).Serve(ctx, req, c)
	})
}

// Notifications after Watch has returned reach the client, and the watch is stopped once,
// when the client is gone.
func TestWatchContinues(t *testing.T) {
	var caller mcp.Caller
	stopped := 0
	h := watchHandler{failOnListen(t), func(ctx context.Context, c mcp.Caller) (func(), error) {
		caller = c
		return func() {
			stopped++
			if ctx.Err() == nil {
				t.Error("stopped before its context had ended")
			}
		}, acknowledgeListen(ctx, c)
	}}
	bubble(t, h, server.Config{}, func(s *site) {
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		synctest.Wait()
		for range 3 {
			s.advance(time.Hour)
			if err := caller.Notify(s.ctx(), note(t, toolsChanged, `{}`)); err != nil {
				t.Error(err)
			}
			equal(t, "the change", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{}}`)
		}
		if stopped != 0 {
			t.Error("stopped while the client listens")
		}
		st.close()
		s.advance(time.Second)
		if stopped != 1 {
			t.Errorf("stopped %d times, want once", stopped)
		}
	})
}

// Shutdown stops the watches, and waits until they have stopped.
func TestShutdownWaitsForWatches(t *testing.T) {
	var hold chan struct{}
	stopped := false
	h := watchHandler{failOnListen(t), func(ctx context.Context, c mcp.Caller) (func(), error) {
		return func() { <-hold; stopped = true }, acknowledgeListen(ctx, c)
	}}
	bubble(t, h, server.Config{}, func(s *site) {
		hold = make(chan struct{})
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer st.close()
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- s.server.Shutdown(s.ctx()) }() // ends with the watch
		s.advance(time.Minute)
		select {
		case err := <-done:
			t.Errorf("Shutdown = %v while a watch was being stopped", err)
		default:
		}
		close(hold)
		if err := <-done; err != nil || !stopped {
			t.Errorf("Shutdown = %v, stopped %v", err, stopped)
		}
	})
}

// A listen that did not begin is retried if that may help; if Watch is unsupported, Serve
// is called instead.
func TestWatchFails(t *testing.T) {
	for _, tt := range []struct {
		name            string
		err             error
		watched, served int
	}{
		{"away", &mcp.Fault{Code: mcp.CodeBackendUnavailable, Message: "away"}, 4, 0}, // at 0, 1, 3 and 7 s
		{"a refusal", mcp.Errorf(mcp.CodeMethodNotFound, "no"), 1, 0},
		{"unsupported", errors.ErrUnsupported, 1, 1},
	} {
		watched, served := 0, 0
		serve := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
			if req.Method == "subscriptions/listen" {
				served++
			}
			return tools(nil).Serve(ctx, req, c)
		})
		h := watchHandler{serve, func(context.Context, mcp.Caller) (func(), error) {
			watched++
			return nil, tt.err
		}}
		bubble(t, h, server.Config{}, func(s *site) {
			st := s.open(s.ctx(), http.MethodGet, "", s.session())
			defer st.close()
			s.advance(10 * time.Second)
			if watched != tt.watched || served != tt.served {
				t.Errorf("%s: watched %d times, served %d; want %d, %d", tt.name, watched, served, tt.watched, tt.served)
			}
		})
	}
}

// A panic fails its listen, which is not retried.
func TestPanicOfAWatch(t *testing.T) {
	h := watchHandler{failOnListen(t), func(context.Context, mcp.Caller) (func(), error) { panic("oops") }}
	bubble(t, h, server.Config{}, func(s *site) {
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer st.close()
		s.advance(time.Hour)
		if got := s.server.Stats().Panics; got != 1 {
			t.Errorf("%d panics, want 1", got)
		}
	})
}

// A panic at the end of a watch ends nothing else.
func TestPanicAtTheEndOfAWatch(t *testing.T) {
	h := watchHandler{failOnListen(t), func(ctx context.Context, c mcp.Caller) (func(), error) {
		return func() { panic("oops") }, acknowledgeListen(ctx, c)
	}}
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		synctest.Wait()
		st.close()
		s.advance(time.Second)
		if got := s.server.Stats().Panics; got != 1 {
			t.Errorf("%d panics, want 1", got)
		}
		equal(t, "ping", s.post(raw("1", "ping", ""), sess).body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// A watch is stopped once if its stream ends before Watch has returned.
func TestWatchThatReturnsLate(t *testing.T) {
	var stopped atomic.Int32
	h := watchHandler{failOnListen(t), func(context.Context, mcp.Caller) (func(), error) {
		time.Sleep(time.Minute)
		return func() { stopped.Add(1) }, nil
	}}
	bubble(t, h, server.Config{}, func(s *site) {
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		synctest.Wait()
		st.close()
		s.advance(30 * time.Second)
		if n := stopped.Load(); n != 0 {
			t.Errorf("stopped %d times before Watch has returned", n)
		}
		s.advance(time.Minute)
		if n := stopped.Load(); n != 1 {
			t.Errorf("stopped %d times, want once", n)
		}
	})
}

// The context of a watch ends before the watch is stopped, even if the client is still
// connected.
func TestContextOfAWatchEndsFirst(t *testing.T) {
	var stopped atomic.Bool
	h := watchHandler{failOnListen(t), func(ctx context.Context, c mcp.Caller) (func(), error) {
		return func() {
			stopped.Store(true)
			if ctx.Err() == nil {
				t.Error("stopped before its context had ended")
			}
		}, acknowledgeListen(ctx, c)
	}}
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		s.open(s.ctx(), http.MethodGet, "", sess)
		synctest.Wait()
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		synctest.Wait()
		if !stopped.Load() {
			t.Error("the watch goes on after the session has ended")
		}
	})
}
