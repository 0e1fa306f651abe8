// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// M085, I21, I30: messages that no client can come back for are not kept: thousands of
// notifications on the stream of a modern client, or on a pipe, leave no byte behind. If a
// client can come back, what is kept is bounded.
func TestM085OnlyResumableMessagesAreKept(t *testing.T) {
	const many, bound = 2_000, 64 << 10
	most := int64(-1) // kept at any time
	var stats func() server.Stats
	h := tools(map[string]mcp.HandlerFunc{"talk": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		n := note(t, "notifications/x", `{}`)
		for i := range many {
			if err := c.Notify(ctx, n); err != nil {
				return nil, err
			}
			if i%100 == 0 {
				most = max(most, stats().Kept)
			}
		}
		return result(`{}`)
	}})
	cfg := server.Config{Limits: server.Limits{EventLog: bound}}
	bubble(t, h, cfg, func(s *site) {
		stats = s.server.Stats
		got := s.post(modern("1", "tools/call", `"name":"talk"`), modernHeaders("tools/call", "talk"))
		if n := strings.Count(got.body, "notifications/x"); n != many || most != 0 || stats().Kept != 0 {
			t.Errorf("modern: %d notifications, %d bytes kept; want %d and none", n, most, many)
		}
		most = -1
		got = s.post(raw("1", "tools/call", `{"name":"talk"}`), s.session())
		if n := strings.Count(got.body, "notifications/x"); n != many || most <= 0 || most > bound {
			t.Errorf("legacy: %d notifications, up to %d bytes kept; want %d and at most %d", n, most, many, bound)
		}
		// The stream that ended last is kept whole: its size is bounded by the capacity of
		// a stream, and its time by the retention.
		if kept := stats().Kept; kept > bound+1<<20 {
			t.Errorf("legacy: %d bytes kept after the end", kept)
		}
		s.advance(10 * time.Minute)
		if kept := stats().Kept; kept != 0 {
			t.Errorf("legacy: %d bytes kept after the retention", kept)
		}
	})
	most = -1
	pipes(t, h, cfg, func(c *console) {
		stats = c.server.Stats
		c.handshake()
		c.send(raw("1", "tools/call", `{"name":"talk"}`))
		n := 0
		for !strings.Contains(c.next(), `"result"`) {
			n++
		}
		if n != many || most != 0 || stats().Kept != 0 {
			t.Errorf("pipe: %d notifications, %d bytes kept; want %d and none", n, most, many)
		}
	})
}
