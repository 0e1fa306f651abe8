// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// Apps is what becomes of MCP Apps, the pages that servers have for their tools. The zero value
// offers them to clients that render them, with the fence.
type Apps struct {
	// Off hides the apps of all servers. A file has false in place of the mapping.
	Off bool `json:"-"`
	// Fence is whether hosts are told to refuse calls that apps make of tools of servers without
	// an app, and of the gateway's own. Nil is true.
	Fence *bool `json:"fence"`
}

// HasFence reports whether Fence is not false.
func (a *Apps) HasFence() bool { return a.Fence == nil || *a.Fence }

// HasNoApps reports whether the apps of a server are hidden.
func (c *Config) HasNoApps(s *Backend) bool { return c.Apps.Off || s.Apps != nil && !*s.Apps }

// HasApps reports whether the entry itself declares that the server has apps.
func (s *Backend) HasApps() bool { return s.Apps != nil && *s.Apps }

func appsKeys() []key {
	return []key{
		// A default that is not the zero value, so it is not in the table.
		{"fence", boolean(), "", "Whether tools of servers without an app, and those of the gateway, are marked for the model alone, so that hosts refuse calls of them by apps. The default is true."},
	}
}

// appsForm is a mapping, or false.
func appsForm() form {
	f := object(appsKeys(), nil)
	f.want = wantAppsForm
	mapping := f.read
	f.read = func(r *reader, n configfile.Node, p place, into reflect.Value) {
		if n.Kind == configfile.Bool {
			into.Set(reflect.ValueOf(Apps{Off: n.Text != "true"}))
			return
		}
		mapping(r, n, p, into)
	}
	return f
}

const wantAppsForm = "a mapping, or false"

// checkApps notes servers with apps while there are none.
func checkApps(c *Config, r *reader) {
	for i := range c.Servers {
		if s := &c.Servers[i]; c.Apps.Off && s.HasApps() && !s.Disabled {
			r.note(s.place().key("apps"), "", "it has no effect: %q is false for all servers", "apps")
		}
	}
}
