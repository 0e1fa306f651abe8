// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

// A limit that the system does not hold is noted at its key.
func TestMemoryIsNotLimitedOnWindows(t *testing.T) {
	for _, tt := range []struct {
		system string
		memory int64
		want   string
	}{{"windows", 1 << 20, "mcpServers.b.memory"}, {"windows", 0, ""}, {"linux", 1 << 20, ""}, {"darwin", 1 << 20, ""}} {
		var r reader
		r.noteMemory(&Backend{Name: "b", Memory: tt.memory}, tt.system)
		got := ""
		if len(r.notes) > 0 {
			got = r.notes[0].Path
		}
		if got != tt.want {
			t.Errorf("%s, %d bytes: a note at %q, want %q", tt.system, tt.memory, got, tt.want)
		}
	}
}
