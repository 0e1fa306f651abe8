// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// writeQueue is lines that wait to be written, in their order. Short ones are put together,
// so that they are one write; long ones are where they were made, because to copy all
// that waits whenever one more comes takes longer than to write it. The zero value is
// empty.
type writeQueue struct {
	parts     [][]byte // none of them empty
	size      int      // of all of them
	spare     []byte   // empty, for the next short lines
	sparePart int      // 1 + the part that has taken it, or the first that would have; 0 for none
}

// The bounds of what is short, of what waits before a line that is left where it is, and
// of the parts for which room is kept when all is written.
const (
	shortLine = 16 << 10
	maxHeld   = 1 << 20
	keptParts = 16
)

// add makes a line of a message, whose first and last piece are the backlog's from then
// on. While little waits the second is left where it is. That may be a small part of what
// a client has sent, which is held with it and which nobody counts: so what waits for
// long is copied.
func (b *writeQueue) add(msg mcp.Pieces) {
	last := len(b.parts) - 1
	switch {
	case msg.Len() > shortLine:
		b.addLong(msg)
	case last >= 0 && len(b.parts[last]) <= shortLine:
		b.parts[last] = frame.AppendLine(b.parts[last], msg[:]...)
	default:
		b.parts = append(b.parts, frame.AppendLine(b.spare, msg[:]...))
		if b.spare = nil; b.sparePart == 0 {
			b.sparePart = len(b.parts)
		}
	}
	b.size += msg.Len() + len("\n")
}

// addLong leaves a line where it is, if it is flat where somebody else has it.
func (b *writeQueue) addLong(msg mcp.Pieces) {
	switch {
	case len(msg[0]) == msg.Len():
		b.parts = append(b.parts, frame.MakeLine(msg[0]))
	case len(msg[0]) > 0 && len(msg[1]) > shortLine && b.size < maxHeld && frame.IsFlat(msg[1]):
		frame.Flatten(msg[0])
		b.parts = append(b.parts, msg[0], msg[1], frame.MakeLine(msg[2]))
	default:
		b.parts = append(b.parts, frame.AppendLine(make([]byte, 0, msg.Len()+len("\n")), msg[:]...))
	}
}

// reuse empties a backlog that has been written, and keeps a little of its room.
func (b *writeQueue) reuse() {
	if b.sparePart > 0 {
		if part := b.parts[b.sparePart-1]; cap(part) <= shortLine {
			b.spare = part[:0]
		}
	}
	clear(b.parts)
	if b.parts = b.parts[:0]; cap(b.parts) > keptParts {
		b.parts = nil
	}
	b.size, b.sparePart = 0, 0
}
