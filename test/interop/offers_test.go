// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// checkOffers compares the missing probes with what each server declares, so that a probe
// is missing only if the server does not offer the feature.
func checkOffers(t testing.TB, servers []server, ans answers) {
	t.Helper()
	for _, s := range servers {
		if s.shared {
			continue // only a part of its features is tested
		}
		caps, err := declared(t.Context(), s, ans)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		for f, got := range map[feature]bool{
			featureTools:     caps.Tools != nil,
			featureResources: caps.Resources != nil,
			featureTemplates: caps.Resources != nil,
			featurePrompts:   caps.Prompts != nil,
			featureComplete:  caps.Completions != nil,
			featureLog:       caps.Logging != nil,
		} {
			if want := s.probes("").offers(f); got != want {
				t.Errorf("%s declares %s: %t, and has probes for it: %t", s.name, f, got, want)
			}
		}
	}
}

// declared connects once and returns the capabilities of the server.
func declared(ctx context.Context, s server, ans answers) (*mcp.ServerCapabilities, error) {
	session := &goSession{
		job:   newPlan(row{"go-sdk", "2025-11-25"}, s.target, ans).job,
		inbox: newInbox(),
	}
	ctx, cancel := context.WithTimeout(ctx, featureLimit)
	defer cancel()
	if err := session.connect(ctx); err != nil {
		return nil, err
	}
	defer session.cs.Close()
	return session.cs.InitializeResult().Capabilities, nil
}
