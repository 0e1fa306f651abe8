// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"fmt"
	"slices"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/cost"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/clients"
)

// searchFrom is the number of tools from which on finding them costs a client less than listing them.
const searchFrom = 30

// checkView checks the flag with the view.
func checkView(f *connectFlags) error {
	switch {
	case f.view != "" && f.view != config.ViewFull && f.view != config.ViewSearch:
		return command.Usagef("--view must be %s or %s, and not %q", config.ViewFull, config.ViewSearch, f.view)
	case f.view != "" && f.profile != "":
		return command.Usagef("--view is for a client without --profile: the view of a profile is in the configuration")
	}
	return nil
}

// chooseView sets the profile of a client for which the flags name none: the search profile, if the client
// has no search of its own and the tools are many. c.chosen then is the reason.
func (c *connection) chooseView(ctx context.Context, view string, gateways []control.Gateway) {
	isBuiltIn := !slices.ContainsFunc(c.cfg.Profiles, func(p config.Profile) bool { return p.Name == config.SearchProfile })
	switch {
	case view == config.ViewSearch:
		c.profile = config.SearchProfile
	case view == "" && c.profile == "" && isBuiltIn && !clients.SearchesTools(c.client.ID):
		for _, g := range gateways {
			status, err := control.StatusAt(ctx, g.Socket)
			if err != nil {
				continue // the client gets all tools
			}
			tools, bytes := 0, 0
			for i := range status.Backends {
				tools += status.Backends[i].Offered.Tools
				bytes += status.Backends[i].ToolBytes
			}
			if isMany(tools, cost.SizeOf(bytes).Tokens, c.cfg.Effective().Search.Above) {
				c.profile = config.SearchProfile
				c.chosen = fmt.Sprintf("%s gets find_tool and call_tool in place of %d tools (≈%v tokens); --view full lists all\n", c.client.Name, tools, cost.SizeOf(bytes))
			}
			return
		}
	}
}

// isMany reports whether a client without a search should not list tools with that many tokens. A negative
// above is no bound.
func isMany(tools, tokens, above int) bool {
	return tools >= searchFrom || above >= 0 && tokens > above
}
