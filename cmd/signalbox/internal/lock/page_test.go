// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"strings"
	"testing"
)

func TestChangedLines(t *testing.T) {
	long := strings.Repeat("é", 300)
	many := strings.Repeat("x\n", 30)
	for _, tt := range []struct{ before, after, old, next string }{
		{"a\nb\nc\n", "a\nb\nc", "", ""},
		{"a\nb\nc", "a\nx\ny\nc", "b\n", "x\ny\n"},
		{"a\nb", "a\nb\nc", "", "c\n"},
		{"a\na", "a\na\na", "", "a\n"},
		{"", "a\nb", "", "a\nb\n"},
		{"a", "", "a\n", ""},
		{"", many, "", strings.Repeat("x\n", maxLines) + "… 10 more lines\n"},
		{long + "a", long + "b", "…" + strings.Repeat("é", 20) + "a\n", "…" + strings.Repeat("é", 20) + "b\n"},
		{"a" + long, "b" + long, "a" + strings.Repeat("é", maxLine-1) + "… 202 more bytes\n", "b" + strings.Repeat("é", maxLine-1) + "… 202 more bytes\n"},
		{long + "é", long + "è", "…" + strings.Repeat("é", 21) + "\n", "…" + strings.Repeat("é", 20) + "è\n"}, // the second bytes differ
	} {
		if old, next := changedLines(tt.before, tt.after); old != tt.old || next != tt.next {
			t.Errorf("%q, %q: %q and %q, want %q and %q", tt.before, tt.after, old, next, tt.old, tt.next)
		}
	}
}
