// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

// Class says what may happen to a message on its way to a slow receiver.
type Class uint8

// The classes of a message.
const (
	// Plain messages are delivered in order; whoever appends one waits for room.
	Plain Class = iota

	// Progress is worth as much as the latest of its key: where the receiver is
	// slow, a newer one takes the place of an older one.
	Progress

	// Log messages are dropped where the receiver is slow.
	Log

	// Change is a level, not an edge: while one waits, others of its key say
	// nothing new, whatever the pace of the receiver.
	Change

	// Opening is the one message that a held stream begins with. It goes before
	// everything that was appended earlier.
	Opening
)

// Message is one message on its way out, as the bytes of the wire.
type Message struct {
	Class Class

	// Key tells messages of one class apart: the token of a Progress, the list
	// or the resource of a Change.
	Key string

	// Value is how far a Progress is, as its number is spelled. What has none, or
	// something that is no number, is not compared with others.
	Value []byte

	// Head, Body and Tail are the message, in this order. A small one is all in
	// Head; a large result is a Body that nobody copied. They must not be
	// changed.
	Head, Body, Tail []byte

	// Status is for the edge that made the message and the one that writes it;
	// 0 is nothing special.
	Status int

	// Rest says that the message is a terminal of which the client has had the beginning:
	// what is left of a ResultStream.
	Rest bool

	// Pos is the message's position on its stream, counted from 1, once a
	// carrier has taken it.
	Pos uint64

	stream uint64 // the number of a stream that can be resumed, with Pos
	ask    *Ask   // whose question this is
	last   bool   // the terminal
}

// IsTerminal reports whether nothing follows the message on its stream.
func (m *Message) IsTerminal() bool { return m.last }

// Len returns how many bytes the message has.
func (m *Message) Len() int { return len(m.Head) + len(m.Body) + len(m.Tail) }

func (m *Message) same(n *Message) bool { return m.Class == n.Class && m.Key == n.Key }
