// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
)

// The counters never shrink, whatever sessions end while they are read.
func TestStatsNeverShrink(t *testing.T) {
	l := closedLegacy(t, call.Config{Name: "b"})
	const n = 2000
	var ending sync.WaitGroup
	ended := make(chan struct{})
	for i := range uint64(n) {
		s := idleTestSession()
		s.calls.Respond(jsonrpc.NumberID(i), session.Terminal{}) // to no request
		l.register(s)
		ending.Go(func() { l.retire(s) })
	}
	go func() { // ends with the sessions
		defer close(ended)
		ending.Wait()
	}()
	for !call.IsClosed(ended) {
		if got := l.Stats().Unknown; got != n {
			t.Fatalf("%d responses are counted of %d", got, n)
		}
	}
}
