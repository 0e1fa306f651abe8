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

// StringID returns the string s as an id. It may be empty, and must not be longer than
// an id may be.
func StringID(s string) mcp.ID { return newID(jsonscan.AppendString(nil, s)) }

func newID(token []byte) mcp.ID {
	id, err := mcp.ParseID(token)
	if err != nil {
		panic(err) // impossible: it was just encoded, and is short
	}
	return id
}
