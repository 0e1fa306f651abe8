// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/internal/runner"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestExplainCall(t *testing.T) {
	t.Parallel()
	started := signalbox.CallRecord{
		Method: "tools/call", Name: "everything__echo", Client: "cursor 2.3", ClientVersion: mcp.V20250618,
		Backend: "everything", BackendVersion: mcp.V20251125, Outcome: "ok", Attempts: 1, Millis: 811.7,
		Admitted: new(0.02), Resolved: new(0.03), Leased: new(798.43), Sent: new(798.53), LastByte: new(811.73), Delivered: new(812.03),
		Start: 790.2, Handshake: 8.2,
	}
	installed := started
	installed.Install = 610.2
	for name, tt := range map[string]struct {
		call signalbox.CallRecord
		want string
	}{
		"a process was started": {started, `
tools/call everything__echo   cursor 2.3 (2025-06-18) > everything (2025-11-25)   ok, 812 ms
  resolve       0.01 ms  |
  lease       798.4  ms  |############################  started its process: 790 ms; handshake 8.2 ms
  send          0.1  ms  |
  response     13.2  ms  |#
  deliver       0.3  ms  |
`},
		"a package manager installed it": {installed, `
tools/call everything__echo   cursor 2.3 (2025-06-18) > everything (2025-11-25)   ok, 812 ms
  resolve       0.01 ms  |
  lease       798.4  ms  |############################  started its process: npm 610 ms, node 180 ms; handshake 8.2 ms
  send          0.1  ms  |
  response     13.2  ms  |#
  deliver       0.3  ms  |
`},
		"no backend was asked": {signalbox.CallRecord{
			Method: "tools/call", Name: "x\x1b[2J", Outcome: "error", Code: -32602, Millis: 0.02,
			Admitted: new(0.0), Resolved: new(0.01), Delivered: new(0.03),
		}, `
tools/call x\x1b[2J   a client without a name   error -32602, 0.02 ms
  resolve       0.01 ms  |#########
  deliver       0.02 ms  |###################
`},
		"no connection": {signalbox.CallRecord{
			Method: "resources/read", Name: "file:///a", Client: "c", Backend: "b", Outcome: "failed", Code: 1001, Reason: "SB_SOME_CODE",
			Delivery: "not_dispatched", Millis: 3000, Attempts: 4, Admitted: new(1500.0), Resolved: new(1500.0),
		}, `
resources/read file:///a   c > b   failed SB_SOME_CODE, 3.0 s; it was not sent to the server
  admit      1500.0  ms  |##############  waited for its turn
  resolve       0.00 ms  |
  lease      1500.0  ms  |##############  4 attempts; ended here
`},
		"no answer, and questions": {signalbox.CallRecord{
			Method: "tools/call", Name: "a__b", Client: "c", Backend: "a", Outcome: "failed", Code: 1003, Delivery: "unknown", Millis: 61_000, Attempts: 1,
			Asks: 2, Waiting: 1000, Admitted: new(0.0), Resolved: new(0.0), Leased: new(1.0), Sent: new(2.0),
		}, `
tools/call a__b   c > a   failed 1003, 1m1s; it may have been executed
  resolve       0.00 ms  |
  lease         1.0  ms  |
  send          1.0  ms  |
  response  60998.0  ms  |############################  2 requests to the client, unanswered for 1.0 s; ended here
`},
		"in this process": {signalbox.CallRecord{
			Method: "tools/call", Name: "echo", Client: "c", Backend: "demo", Outcome: "ok", Millis: 2,
			Admitted: new(0.0), Resolved: new(0.0), Delivered: new(2.0),
		}, `
tools/call echo   c > demo   ok, 2.0 ms
  resolve       0.00 ms  |
  serve         2.0  ms  |############################
  deliver       0.00 ms  |
`},
		"calls within calls": {signalbox.CallRecord{
			Method: "tools/call", Name: "call_tool", Client: "c", Outcome: "ok", Millis: 4, Parent: "7k3m9-00001",
			InnerCalls: 12, InnerOutcome: "failed", InnerDelivery: "unknown",
			Admitted: new(0.0), Resolved: new(0.0), Delivered: new(4.0),
			Inner: []signalbox.CallRecord{
				{ID: "7k3m9-00003", Method: "tools/call", Name: "wiki__a\x1b", Outcome: "ok", Millis: 2},
				{ID: "7k3m9-00004", Method: "tools/call", Name: "wiki__b", Outcome: "failed", Code: 1003, Delivery: "unknown", Millis: 1},
			},
		}, `
tools/call call_tool   c   ok, 4.0 ms
  resolve       0.00 ms  |
  calls         4.0  ms  |############################
  deliver       0.00 ms  |
  made by call 7k3m9-00001
  made 12 calls, the worst: failed, unknown
  made call 7k3m9-00003: tools/call wiki__a\x1b   ok, 2.0 ms
  made call 7k3m9-00004: tools/call wiki__b   failed 1003, 1.0 ms; it may have been executed
`},
		"sending is not timed": {signalbox.CallRecord{
			Method: "tools/call", Name: "echo", Client: "c", Backend: "b", Outcome: "ok", Millis: 2, Attempts: 1,
			Admitted: new(0.0), Resolved: new(0.0), Leased: new(1.0), LastByte: new(2.0),
		}, `
tools/call echo   c > b   ok, 2.0 ms
  resolve       0.00 ms  |
  lease         1.0  ms  |##############
  response      1.0  ms  |##############
`},
	} {
		if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), string(explainCall(&tt.call, runner.Package{}))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// After the start of a process the hint says that it stays, and what to do about a missing
// version.
func TestHintAfterAStart(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	file := filepath.Join(e.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "mcpServers:\n  plain: {command: sh}\n  npm: {command: npx, args: [-y, '@x/y']}\n  npm.y: {command: npx, args: [-y, '@x/y']}\n  uvx: {command: uvx, args: [x]}\n")
	for _, tt := range []struct {
		backend        string
		start, install float64
		want           string
	}{
		{"plain", 400, 0, ""},
		{"plain", 600, 0, "Next calls reuse the process.\n"},
		{"npm", 600, 400, "Next calls reuse the process. \"signalbox pin npm\" avoids most of the npm time.\n"},
		{"npm.y", 600, 400, "Next calls reuse the process. \"signalbox pin npm.y\" avoids most of the npm time.\n"},
		{"uvx", 600, 400, "Next calls reuse the process. \"signalbox pin uvx\" avoids most of the uv time.\n"},
		{"npm", 600, 0, "Next calls reuse the process. \"signalbox pin npm\" avoids most of the time that its package takes.\n"},
	} {
		call := &signalbox.CallRecord{Backend: tt.backend, Millis: 1000, Start: tt.start, Install: tt.install}
		if got := startHint(source.Find(e.Env, file), call); got != tt.want {
			t.Errorf("%s, %v ms: %q, want %q", tt.backend, tt.start, got, tt.want)
		}
	}
}

func TestExplainUnknownCall(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 18, 24, 52, 0, time.Local)
	known := &signalbox.CallRecords{Since: now.Add(-4 * time.Minute), Recorded: 7}
	for _, tt := range []struct {
		at    time.Duration
		known *signalbox.CallRecords
		want  string
	}{
		{-time.Hour, known, ": it is of 2026-11-26 17:24:52; the calls since 18:20:52 (4m ago) are known"},
		{-time.Minute, known, ": it is in progress, or of another gateway; the calls since 18:20:52 (4m ago) are known"},
		{-time.Minute, new(signalbox.CallRecords), ": no call has ended since the gateway was started"},
	} {
		id := mcp.CallIDAt(now.Add(tt.at), 5)
		if got := explainUnknown(id, tt.known, now); got != "unknown call "+id.String()+tt.want {
			t.Errorf("%v: %q, want %q", tt.at, got, tt.want)
		}
	}
}
