// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
	"slices"
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
				x, err := s.Begin(jsonrpc.NumberID(uint64(i)), func(error) { stopped = append(stopped, i) })
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
