// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
)

// EventID identifies a message that a consumer of a resumable stream took: the number of
// the stream and the position on it. Position 0 is before the first message.
//
// Stream numbers are valid in one session only: each session counts from a different
// number, so that an id from another session is as unknown as a forged one (2025-11-25,
// basic/transports, "Resumability and Redelivery").
type EventID struct{ Stream, Pos uint64 }

// eventBase is the base of the numbers in an id: short, and safe in a header and in an
// event stream.
const eventBase = 36

// String returns the id in its wire format.
func (e EventID) String() string {
	var buf [32]byte // 13 digits, a dash, 13 digits
	id := append(strconv.AppendUint(buf[:0], e.Stream, eventBase), '-')
	return string(strconv.AppendUint(id, e.Pos, eventBase))
}

// IsZero reports whether e is the zero id.
func (e EventID) IsZero() bool { return e == EventID{} }

// ParseEventID parses the output of String. It accepts no other spelling: an id that a
// client sends is compared with the text that was sent to it.
func ParseEventID(text string) (EventID, bool) {
	stream, pos, ok := strings.Cut(text, "-")
	if !ok {
		return EventID{}, false
	}
	var e EventID
	var errs [2]error
	e.Stream, errs[0] = strconv.ParseUint(stream, eventBase, 64)
	e.Pos, errs[1] = strconv.ParseUint(pos, eventBase, 64)
	if errs[0] != nil || errs[1] != nil || e.IsZero() || e.String() != text {
		return EventID{}, false
	}
	return e, true
}

// Event returns the id of a message that a consumer took, or the zero id if its stream
// cannot be resumed.
func (m *Message) Event() EventID {
	if m.stream == 0 {
		return EventID{}
	}
	return EventID{Stream: m.stream, Pos: m.Pos}
}

// firstStream returns the number of a session's first stream. The session id is a secret
// and cannot be derived from it.
func firstStream(id string) uint64 {
	sum := sha256.Sum256([]byte("streams of session " + id))
	return binary.BigEndian.Uint64(sum[:])
}
