// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"testing"

	"github.com/signalbox-mcp/signalbox"
)

// The search view of each configuration is named last, if it is smaller than the list of all tools. A profile of
// the file is a profile, whatever its name is.
func TestProfileLine(t *testing.T) {
	t.Parallel()
	backends := []signalbox.BackendStatus{{ToolBytes: 9000}, {ToolBytes: 1000}}
	coding := signalbox.ProfileStatus{Name: "coding", View: "full", Tools: 9, ToolBytes: 4000}
	for _, tt := range []struct {
		profiles []signalbox.ProfileStatus
		want     string
	}{
		{nil, ""},
		{[]signalbox.ProfileStatus{coding}, "profiles: coding 1.0k"},
		{[]signalbox.ProfileStatus{{Name: "search", View: "search", Tools: 2, ToolBytes: 2400}}, "search view 0.6k"},
		{[]signalbox.ProfileStatus{{Name: "search", View: "search", Tools: 2, ToolBytes: 10_000}}, ""},
		{[]signalbox.ProfileStatus{{Name: "search", View: "full", Tools: 2, ToolBytes: 2400}}, "profiles: search 0.6k"},
		{[]signalbox.ProfileStatus{coding, {Name: "x", View: "search", ToolBytes: 400}, {Name: "search", View: "search", ToolBytes: 2400}}, "profiles: coding 1.0k, x 0.1k; search view 0.6k"},
	} {
		if got := ProfileLine(ProfileCosts(tt.profiles, backends)); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.profiles, got, tt.want)
		}
	}
}
