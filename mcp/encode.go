// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strconv"
	"unicode/utf8"
)

// What the Append functions are given as JSON text (params, results, the data of
// an error) is appended as it is: it came from Parse or from an encoder, and
// nobody scans it again. What they append is one message without a line end.

// around bounds what a message has beside its method, its params or result, and an
// id that is long.
const around = len(`{"jsonrpc":"2.0","id":,"method":"","params":}`) + len(ID{}.short)

// withRoom makes room for n bytes where there is no piece of memory yet, so that a
// message that is made for itself is one, and need not grow.
func withRoom(dst []byte, n int) []byte {
	if cap(dst) > 0 {
		return dst
	}
	return make([]byte, 0, n)
}

// AppendRequest appends a request to dst. No params are left out. The id must not
// be the zero ID: a request without one would be a notification.
func AppendRequest(dst []byte, id ID, method string, params []byte) []byte {
	dst = withRoom(dst, around+len(id.long)+len(method)+len(params))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.AppendTo(dst)
	dst = append(dst, ',')
	return appendCall(dst, method, params)
}

// Pieces is a message that is sent piece by piece. One that was made at once has only the
// first.
type Pieces [3][]byte

// Len returns how long the message is.
func (p *Pieces) Len() int { return len(p[0]) + len(p[1]) + len(p[2]) }

// EditedRequest returns a request whose params are those that an edit makes of o. The
// values that the edit sets have to be JSON texts. What is long and stays as it was is the
// second piece, in o's memory, and must not be changed; all else is in one piece of memory
// of its own.
func EditedRequest(id ID, method string, e *Edit, o *Object) Pieces {
	room := around + len(id.long) + len(method) + e.length(o) + len(o.Beside())
	if len(o.raw) >= longRun {
		room -= len(o.raw) - besideRun
	}
	dst := make([]byte, 0, room)
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.AppendTo(dst)
	dst = append(dst, `,"method":`...)
	dst = AppendString(dst, method)
	dst = append(dst, `,"params":`...)
	left := leftOut{min: longRun}
	dst = AppendBeside(append(e.appendTo(dst, o, &left), '}'), o.Beside())
	if left.run == nil {
		return Pieces{dst}
	}
	return Pieces{dst[:left.at:left.at], left.run, dst[left.at:]}
}

// AppendNotification appends a notification to dst. No params are left out.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = withRoom(dst, around+len(method)+len(params))
	return appendCall(append(dst, `{"jsonrpc":"2.0",`...), method, params)
}

// appendCall appends what requests and notifications have in common, to the end.
func appendCall(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `"method":`...)
	dst = AppendString(dst, method)
	if len(params) > 0 {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends the result of the request of this id, which must not be the
// zero ID, to dst. No result is an empty one.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = withRoom(dst, around+len(id.long)+len(result))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.AppendTo(dst)
	dst = append(dst, `,"result":`...)
	// The member has to be there: without it the message is none.
	if len(result) == 0 {
		result = []byte("{}")
	}
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends an error to dst. Where its Raw is set, that is what is sent:
// what a peer said of its own mistake is not ours to retell.
//
// The zero ID leaves the member out, because the id could not be read: JSON-RPC
// would have null there, which the specification's schema has in no revision
// (2026-07-28, basic, "Error Responses").
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

// AppendBeside adds the members to a message that stood beside an object in the one that
// it came in. They are those of [Object.Beside], and msg is what another Append function
// has returned.
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

// AppendString appends s to dst as a JSON string. What is no UTF-8 becomes U+FFFD,
// one for each byte: nobody behind has to wonder whether the text is valid. HTML
// is not escaped, because nothing here is shown as HTML.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		// Runs of plain text are copied as a whole, when something else ends them.
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

// appendEscape writes the short forms that every reader has, and else the long one.
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
