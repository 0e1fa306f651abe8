// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// callerError is an error that the caller has made.
type callerError struct {
	isSentence bool // the text is a whole sentence
	err        error
}

func (c *callerError) Error() string { return c.err.Error() }

func (c *callerError) Unwrap() error { return c.err }

// Errorf returns an error about the caller's request. For a tool it is sent to the
// model, as a result with isError, so that the model can call again with better
// arguments. For a prompt or a resource it becomes an invalid-params error. Its own
// text is sent, without that of errors that wrap it. Errorf formats and wraps like
// [fmt.Errorf].
func Errorf(format string, args ...any) error {
	return &callerError{isSentence: true, err: fmt.Errorf(format, args...)}
}

// invalidArguments returns the error for arguments that cannot be decoded.
func invalidArguments(err error) error {
	return &callerError{err: fmt.Errorf("the arguments are invalid: %w", err)}
}

// asResult returns the error as a tool's result.
func (c *callerError) asResult() *Result {
	text := c.Error()
	if !c.isSentence {
		text = "T" + text[1:] + "." // all such texts begin with "the"
	}
	r := Say("%s", text)
	r.IsError = true
	return r
}

// decode decodes a JSON text over the defaults in into. Its error is for the client or
// model, which knows JSON and the schema but not the Go types.
func decode(raw []byte, into any) error {
	if raw == nil {
		return nil
	}
	err := json.Unmarshal(raw, into)
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.JSONPointer != "" {
		return fmt.Errorf("%s does not have the type required by the schema", wrong.JSONPointer)
	}
	if err != nil {
		return errors.New("they do not match the schema")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return mcp.Errorf(mcp.CodeInvalidParams, format, args...)
}
