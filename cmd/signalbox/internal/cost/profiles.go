// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
)

// ProfileCost is the size of the definitions of the tools of a profile.
type ProfileCost struct {
	Size

	Name  string `json:"name"`
	Count int    `json:"count"`

	isSearchView bool // the profile that each configuration has
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
		isSearchView := p.Name == config.SearchProfile && p.View == config.ViewSearch
		all = append(all, ProfileCost{SizeOf(p.ToolBytes), p.Name, p.Tools, isSearchView})
	}
	return all
}

// ProfileLine formats the costs of profiles, such as "profiles: coding 9.8k, research 3.3k; search view 0.6k", or
// returns "" without any.
func ProfileLine(profiles []ProfileCost) string {
	var own, parts []string
	for _, p := range profiles {
		if !p.isSearchView {
			own = append(own, p.Name+" "+p.String())
		} else {
			parts = append(parts, "search view "+p.String())
		}
	}
	if len(own) > 0 {
		parts = slices.Insert(parts, 0, "profiles: "+strings.Join(own, ", "))
	}
	return strings.Join(parts, "; ")
}
