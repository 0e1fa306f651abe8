// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		e := newTestEnv(t, tt.answer)
		e.Terminal = func(stream any) bool { return stream == e.Stdin }
		args := append(append([]string{"add"}, tt.flags...), "x", "--", "no-such-program-here")
		if code := e.run(t.Context(), args...); code != exitOK {
			t.Errorf("%q: exit code %d: %s", args, code, e.err)
		}
		if tried := strings.Contains(e.out.String(), "x  FAIL  SB_START_NOT_FOUND"); tried != tt.tried {
			t.Errorf("%q: tried %v: %s", args, tried, e.out)
		}
		if asked := e.err.String() == "Write it anyway? [y/N] "; asked != tt.asked {
			t.Errorf("%q: said %q", args, e.err)
		}
		text, err := os.ReadFile(filepath.Join(e.Dir, "signalbox.yaml"))
		if written := err == nil && strings.Contains(string(text), "no-such-program-here"); written != tt.want {
			t.Errorf("%q: written %v", args, written)
		}
	}
}
