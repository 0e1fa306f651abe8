// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// LogLevel is the severity of a log message, as in RFC 5424, and the least severe level
// that a request wants.
type LogLevel uint8

// The levels, least severe first. LogNone, the zero value, is for a request that wants
// no messages. LogUnset is for a legacy session that never called logging/setLevel:
// then the server decides which messages it sends (2025-11-25,
// server/utilities/logging).
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

// ParseLogLevel returns the level with the given name, in exactly the spelling of the
// specification. It returns LogNone and false for any other name.
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

// Wants reports whether a sender that asked for level l wants a message of level m.
// LogUnset wants all messages, LogNone none.
func (l LogLevel) Wants(m LogLevel) bool {
	return l == LogUnset || l != LogNone && m >= l
}
