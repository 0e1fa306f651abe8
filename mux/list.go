// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// page returns one page of a list: the items after the one in the cursor of the
// request. Added and removed items do not move others to another page, so that a client
// that follows the cursors misses none of the items that exist throughout.
func page[T any](m *Mux, req *mcp.Request, member string, s *itemList[T]) (*mcp.Result, error) {
	after, err := cursorOf(req)
	if err != nil {
		return nil, err
	}
	from, _ := slices.BinarySearchFunc(s.entries, after+1, func(e entry[T], n uint64) int { return int(e.number) - int(n) })
	rest := s.entries[from:]
	more := m.PageSize > 0 && len(rest) > m.PageSize
	if more {
		rest = rest[:m.PageSize]
	}
	out := append(append([]byte(`{"`), member...), `":[`...)
	for i, e := range rest {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e.listed...)
	}
	out = append(out, ']')
	if more {
		out = jsonscan.AppendString(append(out, `,"nextCursor":`...), cursor(rest[len(rest)-1].number))
	}
	if m.TTL > 0 {
		out = strconv.AppendInt(append(out, `,"ttlMs":`...), m.TTL.Milliseconds(), 10)
		out = append(out, `,"cacheScope":"public"`...) // all clients get the same
	}
	return mcp.NewResult(append(out, '}'))
}

// cursor returns the cursor for the items after a number. A made-up cursor does no
// harm: the list begins elsewhere.
func cursor(after uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(nil, after))
}

// cursorOf returns the number after which the client wants to continue (2026-07-28,
// server/utilities/pagination, "Error Handling").
func cursorOf(req *mcp.Request) (after uint64, err error) {
	if !req.Params.Has(mcp.FieldCursor) {
		return 0, nil
	}
	text, _ := req.Params.Text(mcp.FieldCursor)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		if n, size := binary.Uvarint(raw); size > 0 && size == len(raw) && n < 1<<62 {
			return n, nil
		}
	}
	return 0, mcp.Errorf(mcp.CodeInvalidParams, "params.cursor is unknown: list again from the beginning")
}
