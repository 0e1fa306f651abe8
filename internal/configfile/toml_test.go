// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"strings"
	"testing"
)

// TestDepthOfTOML checks that keys with many parts are refused, which would need as much stack,
// and files that are too large.
func TestDepthOfTOML(t *testing.T) {
	key := func(parts int) string { return strings.Repeat("a.", parts-1) + "a" }
	for text, want := range map[string]string{
		"[" + key(maxDepth) + "]\nb = 1":            "",
		key(maxDepth) + " = 1":                      "",
		"b = {" + key(maxDepth) + " = 1}":           "",
		"[" + key(maxDepth+1) + "]\nb = 1":          errTooDeep.Error(),
		"b = 1\n" + key(maxDepth+1) + " = 1":        errTooDeep.Error(),
		"b = {" + key(maxDepth+1) + " = 1}":         errTooDeep.Error(),
		"[" + key(20_000) + "]\nb = 1":              errTooDeep.Error(),
		"# " + strings.Repeat("a", MaxSize):         "the file is larger than 1MiB",
		"\ufeff# " + strings.Repeat("a", MaxSize-2): "",
	} {
		_, err := ParseTOML([]byte(text))
		if got := message(err); got != want {
			t.Errorf("%.60q of %d bytes: %q, want %q", text, len(text), got, want)
		}
	}
	if _, err := ParseTOML([]byte("b = 1\n" + key(maxDepth+1) + " = 1")); err == nil || err.At != (Position{2, 2*maxDepth + 1}) {
		t.Errorf("%+v, want the position of the first part that is too deep", err)
	}
}

func message(err *SyntaxError) string {
	if err == nil {
		return ""
	}
	return err.Message
}
