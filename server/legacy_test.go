// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

func TestLegacyCall(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": quick(`{"content":[],"resultType":"complete"}`)})
	bubble(t, h, server.Config{}, func(s *site) {
		got := s.post(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo"}}`, s.session())
		equal(t, "body", got.body, `{"jsonrpc":"2.0","id":"a","result":{"content":[]}}`)
	})
}
