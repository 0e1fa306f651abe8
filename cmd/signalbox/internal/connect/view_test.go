// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import "testing"

// Many tools are 30, or tools with more tokens than the bound.
func TestIsMany(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tools, tokens, above int
		want                 bool
	}{
		{29, 10_000, 10_000, false},
		{30, 1000, 10_000, true},
		{5, 10_001, 10_000, true},
		{29, 1_000_000, -1, false},
		{30, 0, -1, true},
		{1, 20, 0, true},
	} {
		if got := isMany(tt.tools, tt.tokens, tt.above); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
