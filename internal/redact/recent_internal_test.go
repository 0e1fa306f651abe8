// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"strconv"
	"testing"
)

// Values that are too short to be secrets take no memory for good.
func TestRecentForgetsShortValues(t *testing.T) {
	t.Parallel()
	var recent Recent
	for i := range 2 * MaxRecent {
		recent.AddHeader("X-Short", strconv.Itoa(i))
	}
	if n := len(recent.newer.headers) + len(recent.older.headers); n > MaxRecent {
		t.Errorf("%d values are kept, want at most %d", n, MaxRecent)
	}
}
