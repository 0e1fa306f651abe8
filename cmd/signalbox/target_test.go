// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Requests of a command have the latest revision and the client info, as
// the specification requires (2026-07-28, basic, "Metadata").
func TestRequestsNameTheClient(t *testing.T) {
	t.Parallel()
	var got []*mcp.Peer
	url := commandtest.Serving(t, mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if req.Method == "tools/list" {
			got = append(got, req.Client)
			return mcp.NewResult([]byte(`{"tools":[]}`))
		}
		return mcp.NewResult([]byte(commandtest.Discovery))
	}))
	e := commandtest.New(t, "")
	if code := runCommand(t.Context(), e, "tools", "--url", url); code != exitOK {
		t.Fatalf("exit code %d: %s", code, e.Err)
	}
	if len(got) != 1 {
		t.Fatalf("%d requests, want 1", len(got))
	}
	if got[0].Version != mcp.LatestModern || !strings.Contains(string(got[0].Info), `"name":"signalbox"`) || !strings.Contains(string(got[0].Capabilities), "elicitation") {
		t.Errorf("asked as %s %s %s", got[0].Version, got[0].Info, got[0].Capabilities)
	}
}

// A backend that is not available causes a warning and the absence of its items, but no other
// exit code.
func TestWarnings(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), `
mcpServers:
  dead: {command: no-such-program}
  away: {command: no-such-program, disabled: true}
limits: {firstList: 5s}
`)
	if code := runCommand(t.Context(), e, "tools"); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	want := "no tools\nsignalbox: warning: backend \"dead\" is down: its program \"no-such-program\" was not found in PATH\n"
	if got := e.Err.String(); got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	e = commandtest.New(t, "")
	if code := runCommand(t.Context(), e, "tools", "--verbose"); code != exitOK || !strings.HasPrefix(e.Out.String(), "echo ") {
		t.Errorf("exit code %d, printed %q", code, e.Out)
	}
}
