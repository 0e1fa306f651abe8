// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import "strconv"

// An Error describes why a text is not accepted.
type Error struct {
	// Malformed reports that the text is not JSON. Otherwise it is JSON, but invalid,
	// ambiguous, or beyond a limit.
	Malformed bool
	// Offset is the position in the text, counted from 0.
	Offset int
	// Reason describes the error and Cure how to correct it, if known. Both may quote
	// the text; they are escaped and at most one line long.
	Reason string
	Cure   string
	// Exceeded is the limit that the text exceeds, or LimitNone.
	Exceeded Limit
}

// Limit names a bound that a caller sets.
type Limit uint8

// The limits: those of [Limits], the number of elements of [SplitBatch], and the length
// of the text that an [Arrival] reads. The constants are untyped, so that they are
// limits of package mcp too.
const (
	LimitNone = iota
	LimitDepth
	LimitMembers
	LimitBatch
	LimitBytes
)

// Error returns the reason, the offset and the cure.
func (e *Error) Error() string {
	text := e.Reason + " at byte " + strconv.Itoa(e.Offset)
	if e.Cure != "" {
		text += "; " + e.Cure
	}
	return text
}

// Quoted returns a part of a text for an error: ASCII, escaped, and of readable length.
func Quoted(text []byte) string {
	const most = 64
	if len(text) <= most {
		return strconv.QuoteToASCII(string(text))
	}
	return strconv.QuoteToASCII(string(text[:most])) + "..."
}
