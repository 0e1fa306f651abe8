// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// On a terminal, a server that does not work is written only after a question.
func TestAddAsks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer string
		flags  []string
		tried  bool
		asked  bool
		want   bool
	}{
		{"n\n", nil, true, true, false},
		{"y\n", nil, true, true, true},
		{"n\n", []string{"--yes"}, true, false, true},
		{"n\n", []string{"--no-try"}, false, false, true},
	} {
		e := commandtest.New(t, tt.answer)
		e.Terminal = func(stream any) bool { return stream == e.Stdin }
		args := append(append([]string{"add"}, tt.flags...), "x", "--", "no-such-program-here")
		if code := runCommand(t.Context(), e, args...); code != exitOK {
			t.Errorf("%q: exit code %d: %s", args, code, e.Err)
		}
		if tried := strings.Contains(e.Out.String(), "x  FAIL  SB_START_NOT_FOUND"); tried != tt.tried {
			t.Errorf("%q: tried %v: %s", args, tried, e.Out)
		}
		if asked := e.Err.String() == "Write it anyway? [y/N] "; asked != tt.asked {
			t.Errorf("%q: said %q", args, e.Err)
		}
		text, err := os.ReadFile(filepath.Join(e.Dir, "signalbox.yaml"))
		if written := err == nil && strings.Contains(string(text), "no-such-program-here"); written != tt.want {
			t.Errorf("%q: written %v", args, written)
		}
	}
}
