// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON returns a JSON text without the secrets, however they are spelled in it: in
// strings, names of members included, with or without escapes, and as numbers. What
// has none stays as the bytes that it is, and a text without any is raw itself. raw
// has to be valid.
func (r *Redactor) JSON(raw []byte) []byte {
	if r == nil {
		return raw
	}
	var out []byte
	kept := 0 // so many bytes of raw are in out already
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

// between are the bytes that stand alone, and those that end a number or a word.
const between = "\" \n\t\r,:[]{}"

// tokenEnd returns where the token ends that begins at i.
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

// token returns what stands in place of a token that has a secret in it.
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
