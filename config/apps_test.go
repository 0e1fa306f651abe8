// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// A server that declares an app while there are none is noted.
func TestAppsNotes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ server, all, want string }{
		{`"apps": true`, `false`, `mcpServers.a.apps: it has no effect: "apps" is false for all servers`},
		{`"apps": false`, `false`, ""},
		{`"apps": true`, `{}`, ""},
		{`"apps": true, "disabled": true`, `false`, ""},
	} {
		c := parsed(t, `{"mcpServers": {"a": {"command": "x", `+tt.server+`}}, "apps": `+tt.all+`}`)
		var got []string
		for i := range c.Notes {
			got = append(got, c.Notes[i].Path+": "+c.Notes[i].Message)
		}
		if strings.Join(got, "\n") != tt.want {
			t.Errorf("%s, apps: %s: %q", tt.server, tt.all, got)
		}
	}
}
