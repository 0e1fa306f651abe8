// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Of long lines, the change is shown.
func TestCutLong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("e", maxDiffLine)
	around := strings.Repeat("e", diffAround)
	for _, tt := range []struct{ a, b, want string }{
		{"short\n", "other\n", "-short\n+other\n"},
		{long + "{}" + long + "\n", long + "{x}" + long + "\n", "-…" + around[1:] + "{}" + around[1:] + "…\n+…" + around[1:] + "{x}" + around[1:] + "…\n"},
		{long + "}", long + ", x}", "-…" + around + "}\n\\ No newline at end of file\n+…" + around + ", x}\n\\ No newline at end of file\n"},
		{long + "\nx\n", long + "\ny\n", " " + long[:maxDiffLine-1] + "…\n-x\n+y\n"},
		{strings.Repeat("é", maxDiffLine) + "1", strings.Repeat("é", maxDiffLine) + "2", "-…" + strings.Repeat("é", diffAround/2) + "1\n\\ No newline at end of file\n+…" + strings.Repeat("é", diffAround/2) + "2\n\\ No newline at end of file\n"},
		{"x\n", "x\n" + long + "\n", " x\n+" + long[:maxDiffLine-1] + "…\n"},
	} {
		_, got, _ := strings.Cut(CutLong(UnifiedDiff("f", []byte(tt.a), []byte(tt.b))), "@@\n")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Error(diff)
		}
	}
}
