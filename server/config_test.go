// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/server"
)

// A negative limit means no limit, for every kind of limit: none is divided by, allocated
// for or waited for literally.
func TestNoLimits(t *testing.T) {
	cfg := server.Config{
		KeepAlive: -1, Grace: -1, WriteTimeout: -1, Spread: -1,
		Limits: server.Limits{
			RequestBody: -1, RequestHeaders: -1, Depth: -1, Members: -1, Batch: -1, Sessions: -1, SessionsPerPrincipal: -1,
			InFlightPerSession: -1, InFlightPerPrincipal: -1, StreamsPerSession: -1, Subscriptions: -1, SessionIdle: -1, SessionUninitialized: -1,
			Parked: -1, Rounds: -1, InputWait: -1, EventLog: -1, EventLogs: -1, EventRetention: -1, Pending: -1, PendingPerPrincipal: -1,
		},
	}
	gated(t, cfg, func(s *site, g *gate) {
		idle, sess := s.session(), s.session()
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		s.advance(30 * 24 * time.Hour)
		close(g.release)
		equal(t, "after a month", (<-call).body, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		large := `{"name":"echo","arguments":{"x":"` + strings.Repeat("x", 5<<20) + `"}}`
		equal(t, "5 MiB", s.post(raw("2", "tools/call", large), idle).body, `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
		if err := s.server.Shutdown(s.ctx()); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		get.end()
	})
}

// The deadline of a large piece is in the future, however long a small one may take.
func TestLargeAnswerWithoutWriteTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{-1, 50 * 365 * 24 * time.Hour} {
		bubble(t, largeResult(1<<20), server.Config{WriteTimeout: timeout}, func(s *site) {
			if got := s.call("large").body; len(got) < 1<<20 {
				t.Errorf("with a timeout of %v: %d bytes", timeout, len(got))
			}
		})
	}
}
