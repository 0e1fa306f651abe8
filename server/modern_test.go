// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

func TestModernCall(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": quick(`{"content":[]}`)})
	bubble(t, h, server.Config{}, func(s *site) {
		got := s.call("echo")
		equal(t, "body", got.body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		equal(t, "type", got.header.Get("Content-Type"), "application/json")
	})
}
