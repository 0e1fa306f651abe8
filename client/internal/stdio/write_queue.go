// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
)

// writeQueue is a queue of lines to write. Short lines are joined so that they are one
// write. Long ones are not copied, because copying all of the queue for each added line
// costs more than to write it. The zero value is empty.
type writeQueue struct {
	parts     [][]byte // none is empty
	size      int      // bytes in parts
	spare     []byte   // empty memory for the next short lines
	sparePart int      // 1 + the index of the part in spare's memory, or the first of its kind; 0 if none
}

// Limits: of a short line, of the queued bytes up to which a line is not copied, and of
// the parts for which memory is kept.
const (
	shortLine = 16 << 10
	maxHeld   = 1 << 20
	keptParts = 16
)

// add queues a message as a line. The queue owns the message's first and last piece
// from then on. While little is queued the second piece is not copied. It may be a
// small part of a larger message of a client, which it keeps in memory and which no
// limit counts; so a piece that may wait long is copied.
func (b *writeQueue) add(msg jsonrpc.Pieces) {
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

// addLong queues a long line without a copy if its shared piece contains no line
// breaks.
func (b *writeQueue) addLong(msg jsonrpc.Pieces) {
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

// reuse empties a queue that was written, and keeps a little of its memory.
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
