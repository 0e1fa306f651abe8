// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// page returns one page of a list: what comes behind the item that the cursor of the
// request was given out for. An item that goes or comes meanwhile moves no other to
// another page, so that who follows the cursors misses nothing that was there all the
// time.
func page[T any](m *Mux, req *mcp.Request, member string, s *shelf[T]) (*mcp.Result, error) {
	after, err := cursorOf(req)
	if err != nil {
		return nil, err
	}
	from, _ := slices.BinarySearchFunc(s.slots, after+1, func(slot slot[T], n uint64) int { return int(slot.number) - int(n) })
	rest := s.slots[from:]
	more := m.PageSize > 0 && len(rest) > m.PageSize
	if more {
		rest = rest[:m.PageSize]
	}
	out := append(append([]byte(`{"`), member...), `":[`...)
	for i, slot := range rest {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, slot.listed...)
	}
	out = append(out, ']')
	if more {
		out = mcp.AppendString(append(out, `,"nextCursor":`...), cursor(rest[len(rest)-1].number))
	}
	if m.TTL > 0 {
		out = strconv.AppendInt(append(out, `,"ttlMs":`...), m.TTL.Milliseconds(), 10)
		out = append(out, `,"cacheScope":"public"`...) // all clients have the same
	}
	return mcp.NewResult(append(out, '}'))
}

// cursor says where to go on. Whoever makes one up gets a list that begins elsewhere.
func cursor(after uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(nil, after))
}

// cursorOf returns the number behind which the client wants to go on (2026-07-28,
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
	return 0, mcp.Errorf(mcp.CodeInvalidParams, "params.cursor is none that was given out here")
}
