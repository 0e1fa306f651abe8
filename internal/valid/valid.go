// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package valid has the rules for single values in the entry of a server, for a configuration
// and for what is imported into one.
package valid

import (
	"slices"
	"strconv"
	"strings"
)

// IsVariable reports whether a text is a valid name of an environment variable, to which
// ${NAME} can refer.
func IsVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return name != ""
}

// IsPort reports whether a text is a valid port, or empty, which means the default.
func IsPort(text string) bool {
	n, err := strconv.Atoi(text)
	return text == "" || err == nil && 0 < n && n < 1<<16
}

// IsToken reports whether a text is a valid name of a header (RFC 9110, section 5.6.2).
func IsToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !IsTokenRune(r) })
}

// IsTokenRune reports whether a character may be in the name of a header.
func IsTokenRune(r rune) bool {
	return ' ' < r && r <= '~' && !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// IsControl reports whether a character is invalid in the value of a header.
func IsControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// IsReservedHeader reports whether a header is set by the transport, so that a fixed value
// would be wrong. Idempotency keys are included: Go's transport retries requests that have one.
func IsReservedHeader(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "mcp-") {
		return true
	}
	return slices.Contains([]string{
		"accept", "connection", "content-encoding", "content-length", "content-type", "host", "idempotency-key",
		"keep-alive", "last-event-id", "te", "trailer", "transfer-encoding", "upgrade", "x-idempotency-key",
	}, name)
}
