// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "testing"

// "The protocol follows the standard syslog severity levels specified in RFC
// 5424" (2025-11-25, server/utilities/logging, "Log Levels"), least severe first.
func TestLogLevels(t *testing.T) {
	names := []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
	last := LogUnset
	for _, name := range names {
		l, ok := ParseLogLevel(name)
		if !ok || l != last+1 || l.String() != name {
			t.Errorf("%s: level %d (%q), %v; want %d", name, l, l, ok, last+1)
		}
		last = l
	}
	for _, name := range []string{"", "Debug", "warn", "trace", " info"} {
		if l, ok := ParseLogLevel(name); ok || l != LogNone {
			t.Errorf("ParseLogLevel(%q) = %v, %v", name, l, ok)
		}
	}
	for _, l := range []LogLevel{LogNone, LogUnset, 10, 255} {
		if l.String() != "" {
			t.Errorf("level %d is %q", l, l)
		}
	}
}

func TestLogLevelWants(t *testing.T) {
	for _, tt := range []struct {
		asked, message LogLevel
		want           bool
	}{
		{LogNone, LogEmergency, false},
		{LogNone, LogDebug, false},
		{LogUnset, LogDebug, true},
		{LogUnset, LogEmergency, true},
		{LogDebug, LogDebug, true},
		{LogWarning, LogNotice, false},
		{LogWarning, LogWarning, true},
		{LogWarning, LogError, true},
		{LogEmergency, LogAlert, false},
	} {
		if got := tt.asked.Wants(tt.message); got != tt.want {
			t.Errorf("%q wants %q: %v, want %v", tt.asked, tt.message, got, tt.want)
		}
	}
}
