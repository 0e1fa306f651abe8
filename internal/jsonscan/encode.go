// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import "unicode/utf8"

// JSON text passed to the Append functions (params, results, the data of an error) is
// appended unmodified and unchecked: it comes from Parse or from an encoder. They
// append one message without a line end.

// envelopeSize is the length of a notification apart from its method and its params.
const envelopeSize = len(`{"jsonrpc":"2.0","method":"","params":}`)

// withCapacity allocates n bytes if dst has no capacity, so that a separate message is
// allocated once.
func withCapacity(dst []byte, n int) []byte {
	if cap(dst) > 0 {
		return dst
	}
	return make([]byte, 0, n)
}

// AppendNotification appends a notification to dst. Empty params are omitted.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = withCapacity(dst, envelopeSize+len(method)+len(params))
	dst = AppendString(append(dst, `{"jsonrpc":"2.0","method":`...), method)
	if len(params) > 0 {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
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
