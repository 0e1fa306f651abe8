// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// The markers of an encoded header value (2026-07-28,
// basic/transports/streamable-http, "Value Encoding").
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// EncodeHeaderValue returns a text as the value of an Mcp-Name or Mcp-Param-* header:
// unmodified if that is safe, and otherwise in base64 between markers. The text must be
// valid UTF-8, as [Object.Text] returns it. The empty text is encoded too, because an
// empty header is easily lost on the way.
func EncodeHeaderValue(s string) string {
	if isPlainHeader(s) {
		return s
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(s)) + encodedSuffix
}

func isPlainHeader(s string) bool {
	if s == "" || s != strings.Trim(s, " \t") {
		return false
	}
	if strings.HasPrefix(s, encodedPrefix) && strings.HasSuffix(s, encodedSuffix) {
		return false
	}
	return badHeaderByte(s) < 0
}

// badHeaderByte returns the offset of the first byte that is not allowed in a header
// value, or -1.
func badHeaderByte(s string) int {
	for i := range len(s) {
		if c := s[i]; c != '\t' && (c < ' ' || c > '~') {
			return i
		}
	}
	return -1
}

// DecodeHeaderValue returns the text of an Mcp-Name or Mcp-Param-* header. White space
// around the value is ignored. The markers must be spelled exactly; any other value is
// plain text. The error quotes at most one byte of the value, because headers may hold
// secrets that must not be logged.
func DecodeHeaderValue(v string) (string, error) {
	v = strings.Trim(v, " \t")
	if i := badHeaderByte(v); i >= 0 {
		return "", fmt.Errorf("header value: invalid character %s at byte %d", jsonscan.QuoteByte(v[i]), i)
	}
	inner, ok := strings.CutPrefix(v, encodedPrefix)
	if !ok {
		return v, nil
	}
	inner, ok = strings.CutSuffix(inner, encodedSuffix)
	if !ok {
		return v, nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(inner)
	if err != nil {
		return "", errors.New("header value: invalid base64 between =?base64? and ?=")
	}
	if !utf8.Valid(b) {
		return "", errors.New("header value: the decoded base64 is not valid UTF-8")
	}
	return string(b), nil
}

// NameField returns the member of params that is mirrored into the Mcp-Name header of a
// request, and FieldNone if the method has no such header.
func NameField(method string) Field {
	switch method {
	case "tools/call", "prompts/get":
		return FieldName
	case "resources/read":
		return FieldURI
	case "tasks/get", "tasks/update", "tasks/cancel":
		return FieldTaskID
	default:
		return FieldNone
	}
}
