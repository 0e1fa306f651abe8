// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The request has the arguments as typed, a progress token and the log level. Output is
// written to the right streams.
func TestCallIsSentAsTyped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		args  []string
		level mcp.LogLevel
	}{
		{"the usual level", nil, mcp.LogInfo},
		{"a level", []string{"--log", "error"}, mcp.LogError},
		{"no log at all", []string{"--log", "none"}, mcp.LogNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got *mcp.Request
			var level mcp.LogLevel
			url := commandtest.Serving(t, mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
				if req.Method != "tools/call" {
					return mcp.NewResult([]byte(commandtest.Discovery))
				}
				got, level = req, req.LogLevel
				return mcp.NewResult([]byte(`{"content":[{"type":"text","text":"done"}]}`))
			}))
			e := commandtest.New(t, "")
			args := append([]string{"call", "a \"b\"", `{"n": 1.0,  "é": [ ]}`, "--url", url}, tt.args...)
			if code := runCommand(t.Context(), e, args...); code != exitOK || e.Out.String() != "done\n" {
				t.Fatalf("exit code %d, printed %q: %s", code, e.Out, e.Err)
			}
			if name, _ := got.Params.Text(mcp.FieldName); name != `a "b"` {
				t.Errorf("called %q", name)
			}
			if diff := cmp.Diff(string(got.Params.Raw(mcp.FieldArguments)), `{"n": 1.0,  "é": [ ]}`); diff != "" {
				t.Errorf("arguments (-got +want):\n%s", diff)
			}
			if level != tt.level {
				t.Errorf("asked for log messages from %v on, want %v", level, tt.level)
			}
		})
	}
}
