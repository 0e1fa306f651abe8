// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"strings"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
)

// ProfileCost is the size of the definitions of the tools of a profile.
type ProfileCost struct {
	Size

	Name  string `json:"name"`
	Count int    `json:"count"`
}

// ProfileCosts returns the costs of the profiles of a status. That of the search profile, which is in
// each configuration, is left out unless it is less than that of all tools.
func ProfileCosts(profiles []signalbox.ProfileStatus, backends []signalbox.BackendStatus) []ProfileCost {
	var all []ProfileCost
	total := 0
	for i := range backends {
		total += backends[i].ToolBytes
	}
	for _, p := range profiles {
		if p.Name == config.SearchProfile && p.ToolBytes >= total {
			continue
		}
		all = append(all, ProfileCost{Size: SizeOf(p.ToolBytes), Name: p.Name, Count: p.Tools})
	}
	return all
}

// ProfileLine formats the costs of profiles, or returns "" if there are none.
func ProfileLine(profiles []ProfileCost) string {
	if len(profiles) == 0 {
		return ""
	}
	costs := make([]string, len(profiles))
	for i, p := range profiles {
		costs[i] = p.Name + " " + p.String()
	}
	return "profiles: " + strings.Join(costs, ", ")
}
