// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import "bytes"

// WithMember returns a copy of the object with one more member at its end. The object
// must be parsed already and must not have a member of that name; empty text counts as
// {}.
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
