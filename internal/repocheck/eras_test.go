// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"go/ast"
	"path"
	"testing"
)

// eraless are the packages of composition, which are the same for peers of all eras, and those that it
// may get.
var eraless = []string{
	"internal/bound", "internal/confirm", "internal/extension", "internal/openapi", "internal/pins",
	"internal/script", "internal/search", "internal/workflow",
}

// erasAsked finds packages of composition that import an edge of the network, or ask for the era of a peer.
func erasAsked(files []sourceFile) []string {
	edges := []string{"server/...", "client/..."}
	eras := map[string]bool{"Era": true, "EraLegacy": true, "EraModern": true, "LegacyVersions": true, "ModernVersions": true}
	var breaches []string
	for _, f := range productCode(files) {
		if !anyMatches(eraless, f.pkg()) {
			continue
		}
		for _, s := range f.syntax.Imports {
			if to, ours := ourPackage(importPath(s)); ours && anyMatches(edges, to) {
				breaches = append(breaches, f.breach(s.Pos(), "%s imports %s, an edge of the network", f.pkg(), to))
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && eras[s.Sel.Name] {
				breaches = append(breaches, f.breach(s.Pos(), "%s uses %s: what it does is the same in all eras", f.pkg(), s.Sel.Name))
			}
			return true
		})
	}
	return breaches
}

// Invariant C14: composition asks for no era.
func TestRepoCompositionAsksNoEra(t *testing.T) {
	our := func(pkg string) string { return fmt.Sprintf("import %q", path.Join(repoModule, pkg)) }
	testSourceRule(t, erasAsked, []ruleCase{
		{name: "allowed", files: map[string]string{
			"internal/search/a.go":      our("mcp") + "\nvar x = mcp.V20260728",
			"server/a.go":               our("mcp") + "\nvar x = mcp.EraModern",
			"internal/search/a_test.go": our("server"),
		}},
		{name: "not allowed", files: map[string]string{
			"internal/search/a.go":   our("server"),
			"internal/workflow/a.go": our("client/internal/modern"),
			"internal/confirm/a.go":  "var x = v.Era() == mcp.EraModern",
		}, want: []string{
			"internal/confirm/a.go:1: internal/confirm uses Era: what it does is the same in all eras",
			"internal/confirm/a.go:1: internal/confirm uses EraModern: what it does is the same in all eras",
			"internal/search/a.go:1: internal/search imports server, an edge of the network",
			"internal/workflow/a.go:1: internal/workflow imports client/internal/modern, an edge of the network",
		}},
	})
}
