// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"slices"
	"testing"
)

// Each client with a search is one of the table, with a source; one without a name is not.
func TestSearchers(t *testing.T) {
	t.Parallel()
	for _, s := range searchers {
		if _, ok := ByID(s.ID); !ok || !s.Source.IsKnown() || !SearchesTools(s.ID) {
			t.Errorf("%+v", s)
		}
		if got, ok := SearcherNamed(s.Info); s.Info != "" && (!ok || got.ID != s.ID) {
			t.Errorf("%q is %+v", s.Info, got)
		}
	}
	if got, want := Named(), []string{"claude-code", "codex", "cursor", "vscode"}; !slices.Equal(got, want) {
		t.Errorf("named are %q, want %q", got, want)
	}
	for _, name := range []string{"", "zed"} {
		if s, ok := SearcherNamed(name); ok || SearchesTools(name) {
			t.Errorf("%q is %+v", name, s)
		}
	}
}
