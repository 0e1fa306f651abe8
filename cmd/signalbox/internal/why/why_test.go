// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
)

func TestExplanationText(t *testing.T) {
	now := time.Date(2026, 11, 26, 18, 24, 0, 0, time.Local)
	item := signalbox.ExplainedItem{
		Kind: "resource", Own: "x:1", Name: "x:1", Code: "SB_NAME_CONFLICT",
		Backend: signalbox.ExplainedBackend{Name: "b", State: "stale", Listed: now.Add(-3 * time.Minute), Reason: "it is\ngone", Code: "SB_NET_DNS"},
		Chain:   []signalbox.ExplainedStep{{Text: "listed"}, {Text: "conflict", Position: "f:1:2"}},
		Fix:     "change it",
	}
	tests := []struct {
		name string
		x    signalbox.Explanation
		want string
	}{
		{
			"an item twice, and a route",
			signalbox.Explanation{Name: "x:1", Items: []signalbox.ExplainedItem{item, item}, Route: &signalbox.ExplainedRoute{Backend: "a", Template: "x:{n}"}},
			"x:1: not offered. backend b (stale, listed 3m ago: it is gone [SB_NET_DNS]) > listed > conflict (f:1:2) [SB_NAME_CONFLICT]\n" +
				"  fix: change it\n" +
				"x:1: offered. Server a reads it by the template x:{n}; no list has it.\n",
		},
		{
			"the only server with resources",
			signalbox.Explanation{Name: "x:1", Route: &signalbox.ExplainedRoute{Backend: "a"}},
			"x:1: offered. Server a, the only one with resources, reads it; no list has it.\n",
		},
		{
			"a route that the policy refuses to a caller",
			signalbox.Explanation{Name: "x:1", Route: &signalbox.ExplainedRoute{Backend: "a", ByName: true, Policy: "denied by r"}},
			"x:1: not offered. Server a would read it; no list has it. Policy: denied by r.\n",
		},
		{
			"all that is known of an unknown name",
			signalbox.Explanation{
				Name: "x\x1b",
				Former: []signalbox.FormerItem{
					{Backend: "a", Until: now.Add(-4 * time.Minute), Cause: "removed"},
					{Backend: "b", Until: now.AddDate(0, 0, -2), Cause: "list_changed"},
				},
				Unreached:  []signalbox.ExplainedBackend{{Name: "c", State: "down", Reason: "gone", Code: "SB_NET_DNS"}, {Name: "d", State: "starting"}},
				Incomplete: []string{"server a: only the first 2 items are kept"},
				Meant:      "y",
			},
			`x\x1b: unknown. No server lists it now; server a listed it until 18:20:00 (removed); server b listed it until 2026-11-24 18:24:00 (list_changed). ` +
				"Server c, which may have it, is down: gone [SB_NET_DNS]. Server d, which may have it, is starting. A list is incomplete: server a: only the first 2 items are kept. Did you mean y?\n",
		},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(string(explanationText(&tt.x, now)), tt.want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", tt.name, diff)
		}
	}
}
