// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A gateway that shuts down while the session is restored is replaced like any other.
func TestGatewayShutsDownDuringRestore(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		synctest.Wait()
		w.kill()
		w.leaving = 1
		w.send(call("1", "echo", `{"x":1}`))
		got := w.next()
		for strings.Contains(got, "list_changed") {
			got = w.next()
		}
		if got != answer("1", `{"x":1}`) {
			t.Errorf("got %s", got)
		}
		if w.starts != 3 || len(w.said) > 0 {
			t.Errorf("%d gateways, and reported %q; want 3 and nothing", w.starts, w.said)
		}
	})
}

// drain begins the shutdown of the gateway: the next connection is to another one.
func (w *world) drain() {
	w.mu.Lock()
	gw := w.gateway
	w.conn, w.gateway = nil, nil
	w.mu.Unlock()
	w.handlers.Go(func() {
		if err := gw.Shutdown(context.Background()); err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
}

// A request that a gateway refuses because it shuts down is sent to the next one, after
// the calls that still run, unless the client cancels it.
func TestGatewayShutsDown(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.send(call("1", "ask", "{}"))
		asked := w.next()
		if !strings.Contains(asked, `"roots/list"`) {
			t.Fatal(asked)
		}
		w.drain()
		w.send(call("2", "echo", `{"x":2}`), call("3", "echo", `{"x":3}`))
		w.quiet()
		w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		w.send(call("4", "echo", `{"x":"`+strings.Repeat("y", 100<<10)+`"}`)) // too long to be kept
		if got := w.next(); !strings.Contains(got, `"id":4,"error":{"code":1004`) {
			t.Errorf("got %s", got)
		}
		w.quiet()
		id, _, _ := strings.Cut(strings.SplitAfter(asked, `"id":`)[1], ",")
		w.send(`{"jsonrpc":"2.0","id":` + strings.TrimSuffix(id, "}") + `,"result":{"roots":[]}}`)
		w.expect(answer("1", `{"roots":[]}`))
		w.next() // changes
		w.next()
		w.expect(answer("2", `{"x":2}`))
		w.quiet()
		if n := w.served("tools/call echo"); n != 1 || w.starts != 2 {
			t.Errorf("%d calls of echo in %d gateways, want 1 in 2", n, w.starts)
		}
	})
}

// A gateway refuses what it is sent if its calls do not end soon.
func TestGatewayShutsDownSlowly(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.send(call("1", "wait", "{}"))
		synctest.Wait()
		w.drain()
		begun := time.Now()
		w.send(call("2", "echo", `{"x":2}`))
		if got := w.next(); !strings.Contains(got, `"id":2,"error":{"code":1004`) {
			t.Errorf("got %s", got)
		}
		if d := time.Since(begun); d != 10*time.Second {
			t.Errorf("refused after %v", d)
		}
		w.quiet()
	})
}
