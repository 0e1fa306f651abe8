// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

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

// The limits: those of [Limits], the number of messages of a batch, and the length of a
// message.
const (
	LimitNone    Limit = jsonscan.LimitNone
	LimitDepth   Limit = jsonscan.LimitDepth
	LimitMembers Limit = jsonscan.LimitMembers
	LimitBatch   Limit = jsonscan.LimitBatch
	LimitBytes   Limit = jsonscan.LimitBytes
)

// Limits bound the work of reading a message. A zero field means its default.
type Limits struct {
	Depth   int // nested arrays and objects, including the envelope; at most 1024
	Members int // members of all objects together

	// ListDepth is Depth for the tools, prompts, resources and resource templates of a
	// result: the code that merges lists can omit a single item that is too deep. The
	// default is Depth.
	ListDepth int
}

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

// parseError returns the scanner's error as a ParseError, and any other error as it is.
func parseError(err error) error {
	e, ok := err.(*jsonscan.Error) //nolint:errorlint // the scanner wraps none
	if !ok {
		return err
	}
	code := int64(CodeInvalidRequest)
	if e.Malformed {
		code = CodeParseError
	}
	return &ParseError{Code: code, Offset: e.Offset, Reason: e.Reason, Cure: e.Cure, Exceeded: Limit(e.Exceeded)}
}
