// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// arriving returns a result with front as its head; the rest is longer than the head.
func arriving(t *testing.T, from mcp.Version, front string) *jsonrpc.Arriving {
	t.Helper()
	text := `{"jsonrpc":"2.0","id":1,"result":{` + front + strings.Repeat("x", 100<<10) + `"}}`
	a := jsonrpc.NewArrival(strings.NewReader(text), -1, mcp.Limits{}, 1<<20)
	if whole, err := a.Begin(); whole != nil || err != nil || a.Head() == nil {
		t.Fatalf("%.60s shows no result (%v)", text, err)
	}
	return jsonrpc.NewArriving(&a, from, func() {})
}

// A result that needs a conversion is not passed on before it is complete.
func TestPasses(t *testing.T) {
	const content, typed = `"content":[{"type":"text","text":"`, `"resultType":"complete",`
	tests := []struct {
		name   string
		client mcp.Version
		from   mcp.Version
		method string
		front  string
		want   bool
	}{
		{"the same revision", mcp.V20251125, mcp.V20251125, "tools/call", content, true},
		{"the same old revision", mcp.V20241105, mcp.V20241105, "tools/call", content, true},
		{"a newer client", mcp.V20250326, mcp.V20241105, "tools/call", content, true},
		{"an older client, that knows all content", mcp.V20250618, mcp.V20251125, "tools/call", content, true},
		{"an older client, that does not", mcp.V20250326, mcp.V20250618, "tools/call", content, false},
		{"an older client gets a prompt", mcp.V20250326, mcp.V20250618, "prompts/get", `"description":"`, false},
		{"an older client gets a resource", mcp.V20241105, mcp.V20250618, "resources/read", `"contents":["`, true},
		{"a modern server's tool", mcp.V20251125, mcp.V20260728, "tools/call", content, true},
		{"of an old client", mcp.V20250326, mcp.V20260728, "tools/call", typed + content, false},
		{"content is not there yet", mcp.V20251125, mcp.V20251125, "tools/call", `"structuredContent":{"content":"`, false},
		{"what has begun is none", mcp.V20260728, mcp.V20260728, "tools/call", typed + `"inputRequests":{"content":"`, false},
		{"content is not the first", mcp.V20260728, mcp.V20260728, "tools/call", `"x":[1],` + content, true},
		{"a modern prompt without its type", mcp.V20260728, mcp.V20260728, "prompts/get", `"messages":["`, false},
		{"a modern prompt", mcp.V20260728, mcp.V20260728, "prompts/get", typed + `"messages":["`, true},
		{"a legacy prompt", mcp.V20260728, mcp.V20251125, "prompts/get", `"messages":["`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := revision.Passes(tt.client, tt.method, arriving(t, tt.from, tt.front)); got != tt.want {
				t.Errorf("Passes = %v, want %v", got, tt.want)
			}
		})
	}
}

// What passes to a client of the legacy era has no structured content but objects.
func TestPassesWraps(t *testing.T) {
	for client, want := range map[mcp.Version]string{
		mcp.V20250618: `{"content":[],"structuredContent":{"result":[1]},"x":"`,
		mcp.V20251125: `{"content":[],"structuredContent":{"result":[1]},"x":"`,
		mcp.V20260728: `{"content":[],"structuredContent":[1],"x":"`,
	} {
		a := arriving(t, client, `"content":[],"structuredContent":[1],"x":"`)
		if !revision.Passes(client, "tools/call", a) {
			t.Fatalf("%s: it does not pass", client)
		}
		var got strings.Builder
		if err := a.Flow(&got); err != nil || !strings.HasPrefix(got.String(), want) {
			t.Errorf("%s: got %.80s, %v, want %s", client, got.String(), err, want)
		}
	}
}
