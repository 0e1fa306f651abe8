// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A log message on a pipe that clients share is given to the call that it must
// be about, or to nobody.
func TestWhoHearsALogMessage(t *testing.T) {
	ann, bob := mcp.NewScope("ann", nil), mcp.NewScope("bob", nil)
	one, two, three := mcp.NumberID(1), mcp.NumberID(2), mcp.NumberID(3)
	for _, tt := range []struct {
		name string
		do   func(h *hearing)
		want mcp.ID
	}{
		{"nobody asked", func(*hearing) {}, mcp.ID{}},
		{"the only one that asked", func(h *hearing) { h.begin(one, nil) }, one},
		{"two asked", func(h *hearing) { h.begin(one, ann); h.begin(two, ann) }, mcp.ID{}},
		{"one of two has ended", func(h *hearing) { h.begin(one, ann); h.begin(two, bob); h.end(one) }, two},
		{"given up by another client", func(h *hearing) { h.begin(one, ann); h.abandon(one); h.end(one); h.begin(two, bob) }, mcp.ID{}},
		{"given up by nobody knows whom", func(h *hearing) { h.begin(one, nil); h.abandon(one); h.end(one); h.begin(two, nil) }, mcp.ID{}},
		{"given up by the same client", func(h *hearing) { h.begin(one, ann); h.abandon(one); h.end(one); h.begin(two, ann) }, two},
		{"given up by several", func(h *hearing) {
			h.begin(one, ann)
			h.begin(two, bob)
			h.abandon(one)
			h.abandon(two)
			h.end(one)
			h.end(two)
			h.begin(three, bob)
		}, mcp.ID{}},
		{"given up, and answered since", func(h *hearing) {
			h.begin(one, ann)
			h.abandon(one)
			h.end(one)
			h.answered(one)
			h.begin(two, bob)
		}, two},
		{"given up without having asked", func(h *hearing) { h.abandon(one); h.begin(two, bob) }, two},
		{"given up long ago", func(h *hearing) {
			h.begin(one, ann)
			h.abandon(one)
			h.end(one)
			time.Sleep(abandonedTime)
			h.begin(two, bob)
		}, two},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h hearing
				tt.do(&h)
				if got := h.only(); got != tt.want {
					t.Errorf("got call %q, want %q", got, tt.want)
				}
			})
		})
	}
}
