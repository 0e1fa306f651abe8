// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// The answers to initialize and server/discover follow the Handler's server/discover, in
// each revision's form, also if the Handler returns the same result each time; and a result
// that changes is used at once.
func TestInitializeResultByRevision(t *testing.T) {
	const tasked = `"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	made := map[string]*mcp.Result{}
	for name, text := range map[string]string{
		"plain":  `{"capabilities":{"tools":{}},"instructions":"first"}`,
		"tasked": `{` + tasked + `,"instructions":"second"}`,
	} {
		res, err := result(text)
		if err != nil {
			t.Fatal(err)
		}
		made[name] = res
	}
	now, asked := "plain", 0
	h := mcp.HandlerFunc(func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		asked++
		return made[now], nil
	})
	bubble(t, h, server.Config{}, func(s *site) {
		for _, turn := range []string{"plain", "plain", "plain", "tasked", "tasked", "tasked", "plain"} {
			now = turn
			for _, version := range []string{"2025-06-18", "2025-11-25"} {
				got := s.post(opening(version)).body
				word := map[string]string{"plain": "first", "tasked": "second"}[turn]
				if !strings.Contains(got, `"protocolVersion":"`+version+`"`) || !strings.Contains(got, `"instructions":"`+word+`"`) {
					t.Errorf("%s, %s: got %s", turn, version, got)
				}
				if has, want := strings.Contains(got, `"tasks":`), turn == "tasked" && version == "2025-11-25"; has != want {
					t.Errorf("%s, %s: offers tasks: %v, want %v", turn, version, has, want)
				}
			}
		}
	})
	if asked != 14 {
		t.Errorf("asked %d times, want 14: what is offered may differ by client", asked)
	}
}
