// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strconv"
	"unicode/utf8"
)

// JSON text passed to the Append functions (params, results, the data of an error) is
// appended unmodified and unchecked: it comes from Parse or from an encoder. They
// append one message without a line end.

// envelopeSize bounds the length of a message apart from its method, its params or
// result, and a long id.
const envelopeSize = len(`{"jsonrpc":"2.0","id":,"method":"","params":}`) + len(ID{}.short)

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
func AppendRequest(dst []byte, id ID, method string, params []byte) []byte {
	dst = withCapacity(dst, envelopeSize+len(id.long)+len(method)+len(params))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.AppendTo(dst)
	dst = append(dst, ',')
	return appendCall(dst, method, params)
}

// Pieces is a message that is sent in up to three pieces. One that was made at once has
// only the first.
type Pieces [3][]byte

// Len returns the length of the message.
func (p *Pieces) Len() int { return len(p[0]) + len(p[1]) + len(p[2]) }

// EditedRequest returns a request with the params of o as e changes them. The values
// set in e must be valid JSON. A long unchanged run is the second piece, in o's memory,
// and must not be changed. The other pieces share memory of their own.
func EditedRequest(id ID, method string, e *Edit, o *Object) Pieces {
	room := envelopeSize + len(id.long) + len(method) + e.length(o) + len(o.Beside())
	if len(o.raw) >= longRun {
		room -= len(o.raw) - runOverhead
	}
	dst := make([]byte, 0, room)
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.AppendTo(dst)
	dst = append(dst, `,"method":`...)
	dst = AppendString(dst, method)
	dst = append(dst, `,"params":`...)
	left := uncopied{min: longRun}
	dst = AppendBeside(append(e.appendTo(dst, o, &left), '}'), o.Beside())
	if left.run == nil {
		return Pieces{dst}
	}
	return Pieces{dst[:left.at:left.at], left.run, dst[left.at:]}
}

// AppendNotification appends a notification to dst. Empty params are omitted.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = withCapacity(dst, envelopeSize+len(method)+len(params))
	return appendCall(append(dst, `{"jsonrpc":"2.0",`...), method, params)
}

// appendCall appends the part that requests and notifications have in common, up to the
// end.
func appendCall(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `"method":`...)
	dst = AppendString(dst, method)
	if len(params) > 0 {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends the result of the request with this id to dst. The id must not
// be the zero ID. An empty result is sent as {}.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = withCapacity(dst, envelopeSize+len(id.long)+len(result))
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
func AppendError(dst []byte, id ID, err *Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if !id.IsZero() {
		dst = append(dst, `"id":`...)
		dst = id.AppendTo(dst)
		dst = append(dst, ',')
	}
	dst = append(dst, `"error":`...)
	dst = err.appendTo(dst)
	return AppendBeside(append(dst, '}'), err.Beside)
}

// AppendBeside adds the members returned by [Object.Beside] to a message. msg is the
// result of another Append function.
func AppendBeside(msg, beside []byte) []byte {
	if len(beside) == 0 {
		return msg
	}
	msg = append(append(msg[:len(msg)-1], ','), beside...)
	return append(msg, '}')
}

// appendTo appends the error object alone.
func (e *Error) appendTo(dst []byte) []byte {
	if len(e.Raw) > 0 {
		return append(dst, e.Raw...)
	}
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, e.Code, 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	if len(e.Data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}

// AppendString appends s to dst as a JSON string. Each byte of invalid UTF-8 becomes
// U+FFFD, so that the text is always valid. HTML is not escaped, because the text is
// not embedded in HTML.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		// Runs of plain text are copied as a whole when they end.
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\uFFFD"...)
			start = i + 1
		}
		i += n
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendEscape appends the short escape if every reader knows it, and otherwise the
// long one.
func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	default:
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
}
