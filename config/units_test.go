// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

func TestDurationHint(t *testing.T) {
	for text, want := range map[string]string{
		"30000":   `it looks like milliseconds: write "30s"`,
		"90500":   `it looks like milliseconds: write "1m30.5s"`,
		"120000":  `it looks like milliseconds: write "2m"`,
		"3600000": `it looks like milliseconds: write "1h"`,
		"600":     `write "600s" for seconds or "600ms" for milliseconds`,
		"0.5":     `write "0.5s" for seconds or "0.5ms" for milliseconds`,
	} {
		if _, err := parseDuration(text); durationHint(text, err) != want {
			t.Errorf("%s: got %s, want %s", text, durationHint(text, err), want)
		}
	}
}
