// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// ID is the id of a JSON-RPC request, kept as the bytes of the message: 1 and "1"
// differ, and 9007199254740993 is preserved. IDs are comparable and may be map keys.
// The zero value is no id.
type ID struct {
	// A token is kept in short if it fits and otherwise in long, never in both, so that
	// equal ids compare equal. Most ids need no allocation.
	long  string
	short [23]byte
	size  uint8 // of short
}

// ParseID returns the id with the given JSON text: a string, or a number written as an
// integer, of at most 1 KiB. The error is a [*ParseError].
func ParseID(raw []byte) (ID, error) {
	if len(raw) <= len(ID{}.short) && jsonscan.IsInteger(raw) {
		return newID(raw), nil
	}
	text := bytes.Clone(raw) // so that the caller's bytes of a number can be on its stack
	s := jsonscan.NewScanner(text, jsonscan.Limits{})
	i := s.Begin()
	if i >= 0 {
		if end := s.Value(i, 0); s.End(end) >= 0 {
			if token := s.ID(i, end); token != nil {
				return newID(token), nil
			}
		}
	}
	return ID{}, parseError(s.Err)
}

func newID(token []byte) ID {
	var id ID
	if len(token) > len(id.short) {
		id.long = string(token)
		return id
	}
	id.size = uint8(copy(id.short[:], token))
	return id
}

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.size == 0 && id.long == "" }

// String returns the id's JSON text.
func (id ID) String() string {
	if id.size == 0 {
		return id.long
	}
	return string(id.short[:id.size])
}

// AppendTo appends the id's JSON text.
func (id ID) AppendTo(dst []byte) []byte {
	if id.size == 0 {
		return append(dst, id.long...)
	}
	return append(dst, id.short[:id.size]...)
}
