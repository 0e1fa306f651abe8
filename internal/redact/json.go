// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON removes the secrets from a JSON text, however they are spelled in it: in
// strings, including names of members, with or without escapes, and as numbers. Other
// bytes are not changed, and a text without secrets is returned as raw itself. raw must
// be valid JSON.
func (r *Redactor) JSON(raw []byte) []byte {
	if r == nil {
		return raw
	}
	var out []byte
	kept := 0 // number of bytes of raw that are in out
	for i := 0; i < len(raw); {
		end := tokenEnd(raw, i)
		if clean, found := r.token(raw[i:end]); found {
			out = append(append(out, raw[kept:i]...), clean...)
			kept = end
		}
		i = end
	}
	if kept == 0 {
		return raw
	}
	return append(out, raw[kept:]...)
}

// between are the bytes that are tokens themselves or end a number or a literal.
const between = "\" \n\t\r,:[]{}"

// tokenEnd returns the end of the token that begins at i.
func tokenEnd(raw []byte, i int) int {
	switch {
	case raw[i] == '"':
		return stringEnd(raw, i)
	case strings.IndexByte(between, raw[i]) >= 0:
		return i + 1
	}
	n := bytes.IndexAny(raw[i:], between)
	if n < 0 {
		return len(raw)
	}
	return i + n
}

func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(raw))
}

// token returns the replacement of a token that contains a secret.
func (r *Redactor) token(raw []byte) (clean []byte, found bool) {
	text := string(raw)
	if raw[0] == '"' && (bytes.IndexByte(raw, '\\') < 0 || json.Unmarshal(raw, &text) != nil) {
		text = string(bytes.Trim(raw, `"`))
	}
	without := r.Text(text)
	if without == text {
		return nil, false
	}
	clean, err := json.Marshal(without)
	return clean, err == nil // a string always encodes
}
