// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "strconv"

// ParseError says why bytes are no acceptable message.
type ParseError struct {
	// Code is CodeParseError where the bytes are no JSON text, and
	// CodeInvalidRequest where they are, but no message or an ambiguous one.
	Code int64
	// Offset is where in the bytes, counted from 0.
	Offset int
	// Reason says what is wrong, and Cure what to do about it, or nothing.
	// Both may quote the message and are escaped; neither is longer than a line.
	Reason string
	Cure   string
	// Exceeded is the limit of the reader that the bytes go beyond. It is
	// LimitNone where they are wrong under any limits, which includes the bounds
	// that nobody can set.
	Exceeded Limit
}

// Limit names one of the bounds that a reader sets for what it reads.
type Limit uint8

// The limits: those of [Limits], the number of messages of [SplitBatch], and the
// length of what [Arrival] reads.
const (
	LimitNone Limit = iota
	LimitDepth
	LimitMembers
	LimitBatch
	LimitBytes
)

// Error returns the reason, the offset and the cure.
func (e *ParseError) Error() string {
	text := e.Reason + " at byte " + strconv.Itoa(e.Offset)
	if e.Cure != "" {
		text += "; " + e.Cure
	}
	return text
}

// Wire returns the error as the sender of the bytes is told.
func (e *ParseError) Wire() *Error {
	return &Error{Code: e.Code, Message: e.Error()}
}

// quoted returns a name from a message as it may stand in an error text: ASCII,
// escaped, and no longer than somebody reads.
func quoted(name []byte) string {
	const most = 64
	if len(name) <= most {
		return strconv.QuoteToASCII(string(name))
	}
	return strconv.QuoteToASCII(string(name[:most])) + "..."
}
