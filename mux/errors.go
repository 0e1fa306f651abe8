// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// complaint is an error that the caller has made.
type complaint struct {
	sentence bool // the text is a whole sentence
	err      error
}

func (c *complaint) Error() string { return c.err.Error() }

func (c *complaint) Unwrap() error { return c.err }

// Errorf returns an error about the caller's request. For a tool it is sent to the
// model, as a result with isError, so that the model can call again with better
// arguments. For a prompt or a resource it becomes an invalid-params error. Its own
// text is sent, without that of errors that wrap it. Errorf formats and wraps like
// [fmt.Errorf].
func Errorf(format string, args ...any) error {
	return &complaint{sentence: true, err: fmt.Errorf(format, args...)}
}

// misfit returns the error for arguments that cannot be decoded.
func misfit(err error) error {
	return &complaint{err: fmt.Errorf("the arguments are invalid: %w", err)}
}

// asResult returns the complaint as a tool's result.
func (c *complaint) asResult() *Result {
	text := c.Error()
	if !c.sentence {
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
