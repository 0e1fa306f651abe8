// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "strconv"

// A ParseError describes why bytes are not an acceptable message.
type ParseError struct {
	// Code is CodeParseError if the bytes are not JSON, and CodeInvalidRequest if they
	// are JSON but an invalid or ambiguous message.
	Code int64
	// Offset is the position in the bytes, counted from 0.
	Offset int
	// Reason describes the error and Cure how to correct it, if known. Both may quote
	// the message; they are escaped and at most one line long.
	Reason string
	Cure   string
	// Exceeded is the configured limit that the bytes exceed. It is LimitNone if they
	// are invalid under any limits, including the fixed bounds.
	Exceeded Limit
}

// Limit names a bound that a reader sets for its input.
type Limit uint8

// The limits: those of [Limits], the number of messages of [SplitBatch], and the length
// of the text that an [Arrival] reads.
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

// Wire returns the error as it is sent to the sender of the bytes.
func (e *ParseError) Wire() *Error {
	return &Error{Code: e.Code, Message: e.Error()}
}

// quoted returns a name from a message for an error text: ASCII, escaped, and of
// readable length.
func quoted(name []byte) string {
	const most = 64
	if len(name) <= most {
		return strconv.QuoteToASCII(string(name))
	}
	return strconv.QuoteToASCII(string(name[:most])) + "..."
}
