// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
)

func TestPeersAnswerLikeTheCannedBackend(t *testing.T) {
	const tools = 12
	for _, name := range Names() {
		h, err := New(name, tools)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(h)
		defer s.Close()
		for _, era := range []canned.Era{canned.Legacy, canned.Modern} {
			target := load.Target{URL: s.URL + "/mcp", Era: era}
			for _, tool := range []string{"text_100", "text_10240", "tool_0011"} {
				text, err := json.Marshal(canned.PlainText(canned.TextSize(tool)))
				if err != nil {
					t.Fatal(err)
				}
				c, err := load.NewClient(t.Context(), target, load.ToolCall(tool, false), holds(text))
				if err != nil {
					t.Errorf("%s, %s: %v", name, era, err)
					continue
				}
				if _, err := c.Call(t.Context()); err != nil {
					t.Errorf("%s, %s, once more: %v", name, era, err)
				}
				c.Close(t.Context())
			}
			c, err := load.NewClient(t.Context(), target, load.Call{Method: "tools/list"}, holds([]byte(`"tool_0011"`)))
			if err != nil {
				t.Errorf("%s, %s: %v", name, era, err)
				continue
			}
			c.Close(t.Context())
		}
	}
	if _, err := New("nobody", 1); err == nil {
		t.Error("no error for a peer that is none")
	}
}

// holds judges a result by a part of it.
func holds(part []byte) load.Judge {
	return func(result []byte) error {
		if !bytes.Contains(result, part) {
			return fmt.Errorf("%.200s does not hold %.50s", result, part)
		}
		return nil
	}
}
