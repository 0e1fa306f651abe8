// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/json"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// member returns the value of a member of an object, or nil if it is absent. It is for
// members that have no mcp.Field, because the gateway routes nothing by them.
func member(raw []byte, name string) []byte {
	for n, value := range jsonscan.Members(raw) {
		if n == name {
			return value
		}
	}
	return nil
}

// nestsDeeper reports whether a JSON text has more than most nested arrays and objects.
func nestsDeeper(raw []byte, most int) bool {
	if bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("[")) <= most {
		return false
	}
	depth, inText := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{', c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

// text decodes a valid JSON string.
func text(raw []byte) string {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "" // impossible: it was parsed before
	}
	return s
}
