// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionText(t *testing.T) {
	t.Parallel()
	vcs := func(pairs ...string) []debug.BuildSetting {
		var s []debug.BuildSetting
		for i := 0; i < len(pairs); i += 2 {
			s = append(s, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return s
	}
	for _, tt := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"installed", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "signalbox v1.2.3\ngo "},
		{"built", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("vcs.revision", "abc")},
			"signalbox devel\nrevision  abc\ngo "},
		{"changed", debug.BuildInfo{Settings: vcs("vcs.revision", "abc", "vcs.time", "2026-07-28T00:00:00Z", "vcs.modified", "true")},
			"signalbox devel\nrevision  abc of 2026-07-28T00:00:00Z, modified\ngo "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Text(&tt.info)
			if !strings.HasPrefix(got, tt.want) || !strings.HasSuffix(got, "\nprotocol  2026-07-28 2025-11-25 2025-06-18 2025-03-26 2024-11-05\n") {
				t.Errorf("got %q, want %q first", got, tt.want)
			}
		})
	}
}
