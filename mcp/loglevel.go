// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// LogLevel is the severity of a log message, after RFC 5424, and what a request
// says of the messages that it wants.
type LogLevel uint8

// The levels, least severe first. LogNone, the zero value, is a request that
// wants no messages at all. LogUnset is a legacy session that never called
// logging/setLevel: there the server decides what it sends
// (2025-11-25, server/utilities/logging).
const (
	LogNone LogLevel = iota
	LogUnset
	LogDebug
	LogInfo
	LogNotice
	LogWarning
	LogError
	LogCritical
	LogAlert
	LogEmergency
)

func logNames() [10]string {
	return [...]string{"", "", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// ParseLogLevel returns the level of a name that the specification knows, in
// exactly its spelling. It reports false, and returns LogNone, for any other.
func ParseLogLevel(name string) (LogLevel, bool) {
	for l, n := range logNames() {
		if n == name && n != "" {
			return LogLevel(l), true
		}
	}
	return LogNone, false
}

// String returns the level's name on the wire, and "" for LogNone and LogUnset.
func (l LogLevel) String() string {
	if names := logNames(); int(l) < len(names) {
		return names[l]
	}
	return ""
}

// Wants reports whether a sender that asked for l wants a message of level m. One
// that never asked gets whatever there is, and one that wants none gets none.
func (l LogLevel) Wants(m LogLevel) bool {
	return l == LogUnset || l != LogNone && m >= l
}
