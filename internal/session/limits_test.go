// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

func TestDefaultLimits(t *testing.T) {
	got := session.DefaultLimits()
	if got.Bytes != 1<<20 || got.Exchanges != 64 || got.Streams != 16 || got.LogBytes != 1<<20 || got.LogKeep.String() != "5m0s" {
		t.Errorf("the limits are %+v; not those of the comment", got)
	}
	if got.Progress.Every.String() != "100ms" || got.Logs.Every.String() != "10ms" {
		t.Errorf("progress every %v, log messages every %v", got.Progress.Every, got.Logs.Every)
	}
}

func TestDefaultTableLimits(t *testing.T) {
	got := session.DefaultTableLimits()
	for name, pair := range map[string][2]string{
		"Idle": {got.Idle.String(), "30m0s"}, "Fresh": {got.Fresh.String(), "30s"},
		"Rest": {got.Rest.String(), "30s"}, "FreshRest": {got.FreshRest.String(), "10s"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s = %s, want %s", name, pair[0], pair[1])
		}
	}
}
