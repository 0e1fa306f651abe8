// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"strconv"
	"strings"
	"time"
)

// AppendEvent appends a JSON text, which may be in parts, as one event of a stream: its
// type, its id if that is not empty, and one line of data. Line breaks in the text, which can
// only stand between two tokens, become spaces, because there are readers that
// take the last data line for the whole.
//
// An id with a CR, LF or NUL cannot be said in an event stream; the event goes
// out without one.
func AppendEvent(dst []byte, id string, parts ...[]byte) []byte {
	dst = append(dst, "event: message\n"...)
	dst = appendID(dst, id)
	dst = append(dst, "data: "...)
	for _, part := range parts {
		dst = appendFlat(dst, part)
	}
	return append(dst, "\n\n"...)
}

// AppendEndpoint appends the event that a connection of HTTP with SSE begins with: the
// URI to which its messages are POSTed (2024-11-05, basic/transports, "HTTP with SSE").
func AppendEndpoint(dst []byte, uri string) []byte {
	dst = append(dst, "event: endpoint\ndata: "...)
	dst = appendFlat(dst, uri)
	return append(dst, "\n\n"...)
}

// AppendPriming appends the event that a stream begins with so that a client can
// resume it before any message came: an id and empty data (2025-11-25,
// basic/transports, "Sending Messages to the Server").
func AppendPriming(dst []byte, id string) []byte {
	dst = appendID(dst, id)
	return append(dst, "data:\n\n"...)
}

// AppendRetry appends a block that sets the time after which a client is to come
// back once the stream has ended, rounded up to milliseconds. It holds nothing
// else, and may stand between any two events.
func AppendRetry(dst []byte, d time.Duration) []byte {
	ms := (max(d, 0) + time.Millisecond - 1) / time.Millisecond
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, int64(ms), 10)
	return append(dst, "\n\n"...)
}

// AppendComment appends a comment, which every reader ignores: a sign of life on
// a quiet stream. It may stand between any two events.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	dst = appendFlat(dst, text)
	return append(dst, "\n\n"...)
}

func appendID(dst []byte, id string) []byte {
	if id == "" || strings.ContainsAny(id, "\r\n\x00") {
		return dst
	}
	dst = append(dst, "id: "...)
	dst = append(dst, id...)
	return append(dst, '\n')
}
