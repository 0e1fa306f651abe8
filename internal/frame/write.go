// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"strconv"
	"strings"
	"time"
)

// AppendEvent appends a JSON text, possibly in parts, as one event of a stream: its
// type, its id if that is not empty, and one line of data. Line breaks in the text,
// which can only be between tokens, become spaces, because some readers use only the
// last data line.
//
// An id with a CR, LF or NUL cannot be encoded in an event stream; the event has no id
// then.
func AppendEvent(dst []byte, id string, parts ...[]byte) []byte {
	dst = append(dst, "event: message\n"...)
	dst = appendID(dst, id)
	dst = append(dst, "data: "...)
	for _, part := range parts {
		dst = appendFlat(dst, part)
	}
	return append(dst, "\n\n"...)
}

// AppendEndpoint appends the first event of an HTTP with SSE connection: the URI for
// the client's POSTs (2024-11-05, basic/transports, "HTTP with SSE").
func AppendEndpoint(dst []byte, uri string) []byte {
	dst = append(dst, "event: endpoint\ndata: "...)
	dst = appendFlat(dst, uri)
	return append(dst, "\n\n"...)
}

// AppendPriming appends the first event of a stream, with an id and empty data, which
// lets a client resume the stream before any message has arrived (2025-11-25,
// basic/transports, "Sending Messages to the Server").
func AppendPriming(dst []byte, id string) []byte {
	dst = appendID(dst, id)
	return append(dst, "data:\n\n"...)
}

// AppendRetry appends a block that sets the reconnection time of the client, rounded up
// to milliseconds. It may be put between any two events.
func AppendRetry(dst []byte, d time.Duration) []byte {
	ms := (max(d, 0) + time.Millisecond - 1) / time.Millisecond
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, int64(ms), 10)
	return append(dst, "\n\n"...)
}

// AppendComment appends a comment, which every reader ignores, as a sign of life on a
// quiet stream. It may be put between any two events.
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
