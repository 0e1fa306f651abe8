// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// complaint is an error of who called.
type complaint struct {
	sentence bool // it is one
	err      error
}

func (c *complaint) Error() string { return c.err.Error() }

func (c *complaint) Unwrap() error { return c.err }

// Errorf is an error of whoever made the call: of a tool it goes to the model, as a
// result with isError, so that it can call again with better arguments; of a prompt or
// a resource it is an invalid parameter. Its text is shown as it is, and no more of
// an error that wraps it. It formats and wraps as [fmt.Errorf] does.
func Errorf(format string, args ...any) error {
	return &complaint{sentence: true, err: fmt.Errorf(format, args...)}
}

// misfit is the complaint about arguments that cannot be read.
func misfit(err error) error { return &complaint{err: fmt.Errorf("the arguments do not fit: %w", err)} }

// asResult makes a complaint the result of a tool.
func (c *complaint) asResult() *Result {
	text := c.Error()
	if !c.sentence {
		text = "T" + text[1:] + "." // each of ours begins with "the"
	}
	r := Say("%s", text)
	r.IsError = true
	return r
}

// decode reads a JSON text into what holds the defaults. The words of its error are
// for whoever wrote the call, who knows JSON and the schema, and nothing of Go's
// types.
func decode(raw []byte, into any) error {
	if raw == nil {
		return nil
	}
	err := json.Unmarshal(raw, into)
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.JSONPointer != "" {
		return fmt.Errorf("%s is not of the type that the schema asks for", wrong.JSONPointer)
	}
	if err != nil {
		return errors.New("it is not what the schema asks for")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return mcp.Errorf(mcp.CodeInvalidParams, format, args...)
}
