// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// I11: MCP specification, Scope Selection Strategy, Step-Up Authorization Flow and Refresh
// Tokens.
func TestScopes(t *testing.T) {
	type list = []string
	offers := &oauth.Server{Scopes: list{"a", "offline_access"}}
	none := &oauth.Server{Scopes: list{"a"}}
	tests := map[string]struct {
		sources oauth.ScopeSources
		want    list
	}{
		"challenge":                         {oauth.ScopeSources{Challenge: list{"a"}, Resource: list{"b"}}, list{"a"}},
		"scopes_supported":                  {oauth.ScopeSources{Resource: list{"b", "c"}}, list{"b", "c"}},
		"omitted":                           {oauth.ScopeSources{Server: offers, Offline: true}, nil},
		"configured":                        {oauth.ScopeSources{Configured: list{"x"}, Challenge: list{"a"}, Resource: list{"b"}}, list{"x"}},
		"an empty challenge":                {oauth.ScopeSources{Challenge: list{}, Resource: list{"b"}}, nil},
		"step-up":                           {oauth.ScopeSources{Granted: list{"a", "b"}, Challenge: list{"c", "a"}, Resource: list{"d"}}, list{"a", "b", "c"}},
		"step-up without scopes":            {oauth.ScopeSources{Granted: list{"a"}, Resource: list{"d"}}, list{"a"}},
		"step-up of a configured request":   {oauth.ScopeSources{Configured: list{"x"}, Granted: list{"a"}, Challenge: list{"c"}}, list{"a", "c"}},
		"step-up from nothing":              {oauth.ScopeSources{Granted: list{}, Challenge: list{"c"}}, list{"c"}},
		"offline_access is listed":          {oauth.ScopeSources{Challenge: list{"a"}, Server: offers, Offline: true}, list{"a", "offline_access"}},
		"offline_access is not listed":      {oauth.ScopeSources{Challenge: list{"a"}, Server: none, Offline: true}, list{"a"}},
		"offline_access is not wanted":      {oauth.ScopeSources{Challenge: list{"a"}, Server: offers}, list{"a"}},
		"offline_access in a challenge":     {oauth.ScopeSources{Challenge: list{"offline_access", "a"}, Server: none, Offline: true}, list{"a"}},
		"offline_access in scopes":          {oauth.ScopeSources{Resource: list{"offline_access", "a"}, Server: offers, Offline: true}, list{"a", "offline_access"}},
		"offline_access of an earlier time": {oauth.ScopeSources{Granted: list{"a", "offline_access"}, Challenge: list{"b"}, Server: none, Offline: true}, list{"a", "b"}},
		"twice":                             {oauth.ScopeSources{Challenge: list{"a", "a"}}, list{"a"}},
		"invalid ones":                      {oauth.ScopeSources{Resource: list{"a b", "", "c\"", "d\\", "é", "e\n", "f"}}, list{"f"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.sources.Scopes()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSplitScopes(t *testing.T) {
	for text, want := range map[string][]string{
		"":                       {},
		"a":                      {"a"},
		"  a  b:c a ":            {"a", "b:c"},
		"a\"b c\\d https://h/.x": {"https://h/.x"},
	} {
		if diff := cmp.Diff(want, oauth.SplitScopes(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
