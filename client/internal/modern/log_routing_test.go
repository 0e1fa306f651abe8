// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A log message on a shared pipe goes to the call that it must concern, or to none.
func TestLogRouting(t *testing.T) {
	ann, bob := mcp.NewScope("ann", nil), mcp.NewScope("bob", nil)
	one, two, three := jsonrpc.NumberID(1), jsonrpc.NumberID(2), jsonrpc.NumberID(3)
	for _, tt := range []struct {
		name string
		do   func(h *logRouting)
		want mcp.ID
	}{
		{"no call asked", func(*logRouting) {}, mcp.ID{}},
		{"the only one that asked", func(h *logRouting) { h.begin(one, mcp.LogInfo, nil) }, one},
		{"two clients asked", func(h *logRouting) { h.begin(one, mcp.LogInfo, ann); h.begin(two, mcp.LogInfo, bob) }, mcp.ID{}},
		{"two asked, and may be two clients", func(h *logRouting) { h.begin(one, mcp.LogInfo, nil); h.begin(two, mcp.LogInfo, nil) }, mcp.ID{}},
		{"one client asked twice", func(h *logRouting) { h.begin(two, mcp.LogInfo, ann); h.begin(one, mcp.LogInfo, ann) }, two},
		{"the other wants nothing so low", func(h *logRouting) { h.begin(one, mcp.LogError, ann); h.begin(two, mcp.LogDebug, bob) }, two},
		{"no call wants this level", func(h *logRouting) { h.begin(one, mcp.LogNotice, ann) }, mcp.ID{}},
		{"cancelled by a client that did not want this level", func(h *logRouting) {
			h.begin(one, mcp.LogWarning, ann)
			h.abandon(one)
			h.end(one)
			h.begin(two, mcp.LogInfo, bob)
		}, two},
		{"one of two has ended", func(h *logRouting) { h.begin(one, mcp.LogInfo, ann); h.begin(two, mcp.LogInfo, bob); h.end(one) }, two},
		{"given up by another client", func(h *logRouting) {
			h.begin(one, mcp.LogInfo, ann)
			h.abandon(one)
			h.end(one)
			h.begin(two, mcp.LogInfo, bob)
		}, mcp.ID{}},
		{"cancelled by an unknown client", func(h *logRouting) {
			h.begin(one, mcp.LogInfo, nil)
			h.abandon(one)
			h.end(one)
			h.begin(two, mcp.LogInfo, nil)
		}, mcp.ID{}},
		{"given up by the same client", func(h *logRouting) {
			h.begin(one, mcp.LogInfo, ann)
			h.abandon(one)
			h.end(one)
			h.begin(two, mcp.LogInfo, ann)
		}, two},
		{"given up by several", func(h *logRouting) {
			h.begin(one, mcp.LogInfo, ann)
			h.begin(two, mcp.LogInfo, bob)
			h.abandon(one)
			h.abandon(two)
			h.end(one)
			h.end(two)
			h.begin(three, mcp.LogInfo, bob)
		}, mcp.ID{}},
		{"given up, and answered since", func(h *logRouting) {
			h.begin(one, mcp.LogInfo, ann)
			h.abandon(one)
			h.end(one)
			h.answered(one)
			h.begin(two, mcp.LogInfo, bob)
		}, two},
		{"given up without having asked", func(h *logRouting) { h.abandon(one); h.begin(two, mcp.LogInfo, bob) }, two},
		{"given up long ago", func(h *logRouting) {
			h.begin(one, mcp.LogInfo, ann)
			h.abandon(one)
			h.end(one)
			time.Sleep(call.AbandonedTime)
			h.begin(two, mcp.LogInfo, bob)
		}, two},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h logRouting
				tt.do(&h)
				if got := h.addressee(mcp.LogInfo); got != tt.want {
					t.Errorf("got call %q, want %q", got, tt.want)
				}
			})
		})
	}
}
