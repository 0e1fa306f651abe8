// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "bytes"

// WithMember returns the object with one more member at its end, as a copy. The
// object was parsed before and has no member of that name; no bytes count as {}.
func WithMember(raw []byte, name string, value []byte) []byte {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	end := bytes.LastIndexByte(raw, '}')
	out := make([]byte, 0, len(raw)+len(name)+len(value)+len(`"":,`))
	out = append(out, raw[:end]...)
	if out[skipSpaceBack(out, len(out))] != '{' {
		out = append(out, ',')
	}
	out = append(AppendString(out, name), ':')
	out = append(out, value...)
	return append(out, raw[end:]...)
}
