// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// NumberID returns the number n as an id.
func NumberID(n uint64) mcp.ID {
	var buf [20]byte
	return newID(strconv.AppendUint(buf[:0], n, 10))
}

// StringID returns the string s, which may be empty, as an id. It returns the zero ID if
// s is longer than an id may be.
func StringID(s string) mcp.ID { return newID(jsonscan.AppendString(nil, s)) }

func newID(token []byte) mcp.ID {
	id, _ := mcp.ParseID(token) // valid JSON: only the length can be wrong
	return id
}
