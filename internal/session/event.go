// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
)

// EventID names a message that a carrier of a resumable stream took: the stream,
// and the message's place on it. The place 0 is before the first message.
//
// Stream numbers of one session mean nothing in another: each session counts from
// a number of its own, so that an id of another session is as unknown as one that
// somebody made up (2025-11-25, basic/transports, "Resumability and Redelivery").
type EventID struct{ Stream, Pos uint64 }

// eventBase is the base in which ids are spelled: short, and safe in a header and
// in an event stream.
const eventBase = 36

// String returns the id as it goes on the wire.
func (e EventID) String() string {
	var room [32]byte // 13 digits, a dash, 13 digits
	return string(e.AppendTo(room[:0]))
}

// AppendTo appends the id as it goes on the wire.
func (e EventID) AppendTo(dst []byte) []byte {
	dst = strconv.AppendUint(dst, e.Stream, eventBase)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, e.Pos, eventBase)
}

// IsZero reports whether e is no id.
func (e EventID) IsZero() bool { return e == EventID{} }

// ParseEventID reads what String wrote, and nothing else: what comes back from a
// client is compared with what we would have said.
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

// Event returns the id of a message that a carrier took, and the zero id where
// its stream cannot be resumed.
func (m *Message) Event() EventID {
	if m.stream == 0 {
		return EventID{}
	}
	return EventID{Stream: m.stream, Pos: m.Pos}
}

// firstStream returns the number of a session's first stream. The id of the
// session is a secret that cannot be told from it.
func firstStream(id string) uint64 {
	sum := sha256.Sum256([]byte("streams of session " + id))
	return binary.BigEndian.Uint64(sum[:])
}
