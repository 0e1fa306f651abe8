// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// JSON text passed to the Append functions (params, results, the data of an error) is
// appended unmodified and unchecked: it comes from Parse or from an encoder. They
// append one message without a line end.

// envelopeSize bounds the length of a message apart from its id, its method, and its
// params or result.
const envelopeSize = len(`{"jsonrpc":"2.0","id":,"method":"","params":}`)

// withCapacity allocates n bytes if dst has no capacity, so that a separate message is
// allocated once.
func withCapacity(dst []byte, n int) []byte {
	if cap(dst) > 0 {
		return dst
	}
	return make([]byte, 0, n)
}

// AppendRequest appends a request to dst. Empty params are omitted. The id must not be
// the zero ID: a request without an id would be a notification.
func AppendRequest(dst []byte, id mcp.ID, method string, params []byte) []byte {
	dst = withCapacity(dst, envelopeSize+len(id.String())+len(method)+len(params))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.AppendTo(dst)
	dst = append(dst, `,"method":`...)
	dst = jsonscan.AppendString(dst, method)
	if len(params) > 0 {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// Pieces is a message that is sent in up to three pieces. One that was made at once has
// only the first.
type Pieces [3][]byte

// Len returns the length of the message.
func (p *Pieces) Len() int { return len(p[0]) + len(p[1]) + len(p[2]) }

// EditedRequest returns a request with the params of o as e changes them, and the
// members beside them. The values set in e must be valid JSON. A long unchanged part is
// the second piece, in o's memory, and must not be changed. The other pieces share
// memory of their own.
func EditedRequest(id mcp.ID, method string, e *mcp.Edit, o *mcp.Object) Pieces {
	var buf [256]byte
	before := append(buf[:0], `{"jsonrpc":"2.0","id":`...)
	before = id.AppendTo(before)
	before = append(before, `,"method":`...)
	before = jsonscan.AppendString(before, method)
	before = append(before, `,"params":`...)
	after := []byte{'}'}
	if beside := o.Beside(); len(beside) > 0 {
		after = append(append([]byte{','}, beside...), '}')
	}
	return e.Pieces(before, o, after)
}

// AppendNotification appends a notification to dst. Empty params are omitted.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	return jsonscan.AppendNotification(dst, method, params)
}

// AppendResult appends the result of the request with this id to dst. The id must not
// be the zero ID. An empty result is sent as {}.
func AppendResult(dst []byte, id mcp.ID, result []byte) []byte {
	dst = withCapacity(dst, envelopeSize+len(id.String())+len(result))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.AppendTo(dst)
	dst = append(dst, `,"result":`...)
	// The member is required: without it the message is invalid.
	if len(result) == 0 {
		result = []byte("{}")
	}
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends an error to dst. If err.Raw is set it is sent unmodified, because
// a peer's error is not rewritten.
//
// The zero ID omits the member, because the id could not be read: JSON-RPC would have
// null there, which no revision of the specification's schema allows (2026-07-28,
// basic, "Error Responses").
func AppendError(dst []byte, id mcp.ID, err *mcp.Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if !id.IsZero() {
		dst = append(dst, `"id":`...)
		dst = id.AppendTo(dst)
		dst = append(dst, ',')
	}
	dst = append(dst, `"error":`...)
	dst = appendError(dst, err)
	return AppendBeside(append(dst, '}'), err.Beside)
}

// AppendBeside adds the members returned by [mcp.Object.Beside] to a message. msg is the
// result of another Append function.
func AppendBeside(msg, beside []byte) []byte { return jsonscan.AppendBeside(msg, beside) }

// appendError appends the error object alone.
func appendError(dst []byte, e *mcp.Error) []byte {
	if len(e.Raw) > 0 {
		return append(dst, e.Raw...)
	}
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, e.Code, 10)
	dst = append(dst, `,"message":`...)
	dst = jsonscan.AppendString(dst, e.Message)
	if len(e.Data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}
