// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The requests of a session are found by their ids, whichever of them have ended, and
// stopped in the order in which they began.
func TestRequestsEndInAnyOrder(t *testing.T) {
	orders := [][]int{{}, {0}, {2}, {4}, {1, 3}, {0, 4}, {4, 3, 2, 1, 0}, {0, 1, 2, 3, 4}, {2, 0, 4}}
	for _, over := range orders {
		t.Run(fmt.Sprint(over), func(t *testing.T) {
			r := rules()
			r.Limits.Exchanges = 5
			s := newSession(r)
			var stopped []int
			var begun [5]*session.Exchange
			for i := range begun {
				x, err := s.Begin(jsonrpc.NumberID(uint64(i)), session.StopFunc(func(error) { stopped = append(stopped, i) }))
				if err != nil {
					t.Fatal(err)
				}
				begun[i] = x
			}
			for _, i := range over {
				begun[i].Finish(plain("done"))
			}
			var want []int
			for i := range begun {
				open := !slices.Contains(over, i)
				if got := s.InFlight(jsonrpc.NumberID(uint64(i))); got != open {
					t.Errorf("request %d is in flight: %t, want %t", i, got, open)
				}
				if open {
					want = append(want, i)
				}
			}
			if !s.End(&mcp.Error{Code: mcp.CodeInternalError, Message: "over"}) {
				t.Fatal("the session had ended")
			}
			if !slices.Equal(stopped, want) {
				t.Errorf("stopped %v, want %v", stopped, want)
			}
		})
	}
}

// A consumer is used again after Detach, and nothing of its first stream is left in it.
func TestConsumerIsReused(t *testing.T) {
	r := rules()
	first := session.NewStateless(jsonrpc.NumberID(1), r, session.StopFunc(func(error) {}))
	second := session.NewStateless(jsonrpc.NumberID(2), r, session.StopFunc(func(error) {}))
	var c session.Consumer
	wake := make(chan struct{}, 1)
	first.Stream().AttachConsumer(&c, wake)
	other := first.Stream().Attach(make(chan struct{}, 1))
	if _, state := c.Take(nil); state != session.Revoked {
		t.Errorf("superseded: %v, want Revoked", state)
	}
	c.Detach()
	<-wake // superseded
	second.Stream().AttachConsumer(&c, wake)
	<-wake // attached
	first.Finish(plain("first"))
	if len(wake) != 0 {
		t.Error("its first stream has woken it")
	}
	second.Finish(plain("second"))
	<-wake
	for who, want := range map[*session.Consumer]string{&c: "second", other: "first"} {
		got, state := who.Take(nil)
		if len(got) != 1 || !strings.Contains(string(got[0].Head), want) || state != session.Ended {
			t.Errorf("took %d messages, %v; want %q and the end", len(got), state, want)
		}
		who.Detach()
	}
}
