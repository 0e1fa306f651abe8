// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"testing"
)

// A program of 'go run' is removed when it ends.
func TestIsTemporary(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/tmp/go-build1234/b001/exe/signalbox": true,
		"/usr/local/bin/signalbox":             false,
		"/home/me/go-builds/signalbox":         false,
	} {
		if got := isTemporary(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
