// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// addSharedAppNames notes the servers with an app that have names of tools in common with another,
// unless both have profiles of their own: there is one result for each server, and apps call
// tools by these names.
func addSharedAppNames(cfg *config.Config, results [][]Finding) {
	hasOwnProfile := func(server string) bool {
		return slices.ContainsFunc(cfg.Profiles, func(p config.Profile) bool { return slices.Equal(p.Servers, []string{server}) })
	}
	for i := range results {
		for k := range i {
			a, b := results[k][0], results[i][0]
			shared := slices.DeleteFunc(slices.Clone(b.appTools), func(name string) bool { return !slices.Contains(a.appTools, name) })
			if len(shared) == 0 || hasOwnProfile(a.Name) && hasOwnProfile(b.Name) {
				continue
			}
			results[i] = append(results[i], Finding{
				Kind: b.Kind, Name: b.Name, Result: Warn, Code: code.AppName,
				Text: fmt.Sprintf("apps cannot call %s here, because tools of %s have these names, too", nameSome(shared), a.Name),
				Fix:  fmt.Sprintf("give each server a profile of its own: profiles: {%s: {servers: [%s]}, %s: {servers: [%s]}}", a.Name, a.Name, b.Name, b.Name),
			})
		}
	}
}

// nameSome joins the first of some names of a server.
func nameSome(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += ", ..."
	}
	return output.VisibleLine(text)
}
