// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A notification before the first call opens no session but creates the scopedSession.
// A session opened there later can be evicted like any other.
func TestEvictionAfterEarlyNotification(t *testing.T) {
	for _, said := range []*mcp.Request{
		request(t, "logging/setLevel", `{"level":"error"}`),
		request(t, "notifications/roots/list_changed", `{}`),
	} {
		t.Run(said.Method, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c, _ := dialLines(t, new(faultyserver.Lines), client.Config{MaxProcesses: 1})
				first, second := newTenant("first"), newTenant("second")
				if _, err := within(t, c, echo(t), &recorder{}); err != nil { // determines the era
					t.Fatal(err)
				}
				for _, req := range []*mcp.Request{said, echo(t)} {
					if _, err := within(t, c, in(first.Scope, req), &recorder{}); err != nil {
						t.Fatal(err)
					}
				}
				res, err := within(t, c, in(second.Scope, echo(t)), &recorder{})
				wantResult(t, res, err, `{"content":[]}`)
				if !first.hasEnded() || second.hasEnded() {
					t.Errorf("ended: first %v, second %v", first.hasEnded(), second.hasEnded())
				}
			})
		})
	}
}

// A session counts against its limit from the beginning of its handshake to the end, also if
// the request that needed it has given up: otherwise requests that give up could have any
// number of handshakes in progress.
func TestAbandonedHandshakesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := newStation()
		s.On["initialize"] = func(x *faultyserver.Exchange) {
			<-hold
			x.Initialize()
		}
		c := dialHTTP(t, s, client.Config{MaxSessions: 2, Version: mcp.LatestLegacy})
		for range 5 {
			r := launch(t, c, echo(t), &recorder{})
			synctest.Wait()
			r.cancel()
			<-r.done
		}
		if n := s.Count("initialize"); n != 2 {
			t.Errorf("%d handshakes are in progress, want as many as sessions", n)
		}
		_, err := within(t, c, echo(t), &recorder{})
		wantFault(t, err, mcp.CodeLimit, mcp.NotDispatched, "limits.backendSessions")
		close(hold)
		synctest.Wait()
		for range 3 {
			if _, err := within(t, c, echo(t), &recorder{}); err != nil {
				t.Error(err)
			}
		}
	})
}
