// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
)

// listingChild is the command mcplist: a legacy MCP server on standard input and output, with
// the tools that its file names, one a line. A call announces that they have changed.
func listingChild() {
	time.AfterFunc(time.Minute, func() { os.Exit(3) }) // if a failed test left it behind
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := `{"content":[]}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"listing","version":"1"}}`
		case "tools/list":
			names, err := os.ReadFile(os.Args[1])
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(2)
			}
			var items []string
			for name := range strings.FieldsSeq(string(names)) {
				items = append(items, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
			}
			result = `{"tools":[` + strings.Join(items, ",") + `]}`
		case "tools/call":
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s"}}`+"\n", m.ID, m.Method)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
}

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
