// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"net/url"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/internal/clientfile"
)

// atPath returns the URL of a profile of the gateway with a URL; an empty name means the whole gateway.
func atPath(gateway, name string) string {
	if name == "" {
		return gateway
	}
	return profiles.Path(gateway, name)
}

// connectedProfile returns the profile to which an entry connects its client, or "".
func connectedProfile(g clientfile.Gateway) string {
	if i := slices.Index(g.Args, "--profile"); i >= 0 && i+1 < len(g.Args) {
		return g.Args[i+1]
	}
	u, err := url.Parse(g.URL)
	if err != nil {
		return ""
	}
	i := strings.LastIndex(u.Path, profiles.Route)
	if i < 0 {
		return ""
	}
	name, _ := profiles.In(u.Path, u.Path[:i])
	return name
}
