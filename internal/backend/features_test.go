// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import "testing"

// The capabilities that lists are requested with declare exactly the features that they are
// for. A client that renders apps is not one of AllFeatures.
func TestFeatures(t *testing.T) {
	for p := range (AllFeatures | RendersApps) + 1 {
		if got := FeaturesOf(p.capabilities()); got&^hasURLElicitation != p&^hasURLElicitation {
			t.Errorf("%s are %b, want %b", p.capabilities(), got, p)
		}
	}
	for capabilities, want := range map[string]Features{
		`{"extensions":{"io.modelcontextprotocol/ui":{}}}`:                                                     RendersApps,
		`{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}},"roots":{}}`: RendersApps | hasRoots,
		`{"extensions":{"io.modelcontextprotocol/ui":null}}`:                                                   0,
		`{"extensions":{"io.modelcontextprotocol/ui":"x"}}`:                                                    0,
		`{"extensions":[],"roots":{}}`:                                                                         hasRoots,
		`{"extensions":{"a/b":{}}}`:                                                                            0,
		`{"experimental":{"io.modelcontextprotocol/ui":{}}}`:                                                   0,
	} {
		if got := FeaturesOf([]byte(capabilities)); got != want {
			t.Errorf("%s: %b, want %b", capabilities, got, want)
		}
	}
	if AllFeatures.Has(RendersApps) || !(AllFeatures | RendersApps).Has(AllFeatures) || len(AllFeatures.Lacks()) != 0 {
		t.Error("a client with AllFeatures need not render apps")
	}
}
