// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "github.com/signalbox-mcp/signalbox/mcp"

// Class specifies how a message may be merged or dropped when its receiver is slow.
type Class uint8

// The classes of a message.
const (
	// Plain messages are delivered in order. The sender of one waits for space.
	Plain Class = iota

	// Progress replaces an older message of its key if the receiver is slow.
	Progress

	// Log messages are dropped if the receiver is slow.
	Log

	// Change is a level, not an edge: while one is queued, others of its key are merged
	// into it, however fast the receiver is.
	Change

	// Opening is the one message that a held stream begins with. It precedes everything
	// that was appended earlier.
	Opening
)

// Message is an outgoing message in its wire format.
type Message struct {
	Class Class

	// Key distinguishes messages of one class: the token of a Progress, the list or the
	// resource of a Change.
	Key string

	// Value is the progress value, as spelled in the message. A missing value or one that
	// is not a number is not compared with others.
	Value []byte

	// Head, Body and Tail are the message, in this order. A small message is all in Head; a
	// large result is a Body that is never copied. They must not be modified.
	Head, Body, Tail []byte

	// Status is passed from the code that makes the message to the code that writes it. 0
	// means none.
	Status int

	// Rest reports that the message is the rest of a terminal that began as a
	// ResultStream.
	Rest bool

	// Pos is the position of the message on its stream, counted from 1. It is set when a
	// consumer takes the message.
	Pos uint64

	// Timeline is that of the request which the message is the final answer to, or nil.
	// The code that writes the message reports that it is delivered.
	Timeline *mcp.Timeline

	stream uint64 // the number of a resumable stream; with Pos, the event id
	ask    *Ask   // nil if the message is not the request of an Ask
	last   bool   // the terminal
}

// IsTerminal reports whether the message is the last one on its stream.
func (m *Message) IsTerminal() bool { return m.last }

// Len returns the size of the message in bytes.
func (m *Message) Len() int { return len(m.Head) + len(m.Body) + len(m.Tail) }

func (m *Message) same(n *Message) bool { return m.Class == n.Class && m.Key == n.Key }
