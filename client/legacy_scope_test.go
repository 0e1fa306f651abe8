// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// What a client says before its first call opens no session, and leaves a place
// for one; a session that comes into that place is asked to make room as any
// other is.
func TestProcessOfClientThatSpokeBeforeItsFirstCall(t *testing.T) {
	for _, said := range []*mcp.Request{
		request(t, "logging/setLevel", `{"level":"error"}`),
		request(t, "notifications/roots/list_changed", `{}`),
	} {
		t.Run(said.Method, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c, _ := dialLines(t, new(faultyserver.Lines), client.Config{MaxProcesses: 1})
				first, second := newTenant("first"), newTenant("second")
				if _, err := within(t, c, echo(t), &recorder{}); err != nil { // so that it is known how to speak to it
					t.Fatal(err)
				}
				for _, req := range []*mcp.Request{said, echo(t)} {
					if _, err := within(t, c, in(first.Scope, req), &recorder{}); err != nil {
						t.Fatal(err)
					}
				}
				res, err := within(t, c, in(second.Scope, echo(t)), &recorder{})
				wantResult(t, res, err, `{"content":[]}`)
				if !first.hasEnded() || second.hasEnded() {
					t.Errorf("ended: first %v, second %v", first.hasEnded(), second.hasEnded())
				}
			})
		})
	}
}
