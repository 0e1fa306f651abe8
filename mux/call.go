// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Call is one request for a tool, a prompt or a resource while it is served. Its
// methods may be called concurrently until the function returns. After that the client
// has its answer and receives nothing more.
type Call struct {
	// Request is the request, including its sender: Request.Principal, Request.Client.
	// It must not be changed.
	Request *mcp.Request
	// Caller is the sender of the request. Use it for messages that Call has no method
	// for.
	Caller mcp.Caller

	mux   *Mux
	tasks bool // it may continue in the background
	vars  map[string]string

	readOnce   sync.Once // of the answers in the request
	received   *receivedAnswers
	unreadable error
}

// Arguments returns the arguments of the call: a JSON object, or another value if the
// client sent one. It returns {} if the client sent none.
func (c *Call) Arguments() JSON {
	if raw := c.Request.Params.Raw(mcp.FieldArguments); raw != nil {
		return JSON(raw)
	}
	return "{}"
}

// checkRequired returns an error if a required argument is missing. It ignores
// arguments that are not an object.
func (c *Call) checkRequired(names []string) error {
	if len(names) == 0 {
		return nil
	}
	given := make(map[string]bool)
	for name := range jsonscan.Members(c.Request.Params.Raw(mcp.FieldArguments)) {
		given[name] = true
	}
	for _, name := range names {
		if !given[name] {
			return &callerError{err: fmt.Errorf("the argument %q is missing", name)}
		}
	}
	return nil
}

// Bind decodes the arguments into a pointer to a struct or a map, which may hold
// defaults. Names are case-sensitive, and unknown arguments are ignored. The function
// should return the error of Bind: it names the invalid argument to the caller.
func (c *Call) Bind(into any) error {
	if err := decode(c.Request.Params.Raw(mcp.FieldArguments), into); err != nil {
		return &callerError{err: fmt.Errorf("the arguments are invalid: %w", err)}
	}
	return nil
}

// Var returns the value of a template variable in the URI of the request.
func (c *Call) Var(name string) string { return c.vars[name] }

// URI returns the URI of the resource that is read.
func (c *Call) URI() string {
	uri, _ := c.Request.Params.Text(mcp.FieldURI)
	return uri
}

// Progress reports progress if the client asked for it. A total of 0 means unknown. An
// error means that the client is gone; the function should return it.
func (c *Call) Progress(ctx context.Context, done, total float64, message string) error {
	token := c.Request.Params.Raw(mcp.MetaProgressToken)
	if token == nil {
		return nil
	}
	params := append(append([]byte(`{"progressToken":`), token...), `,"progress":`...)
	params = strconv.AppendFloat(params, done, 'f', -1, 64)
	if total > 0 {
		params = strconv.AppendFloat(append(params, `,"total":`...), total, 'f', -1, 64)
	}
	if message != "" {
		params = jsonscan.AppendString(append(params, `,"message":`...), message)
	}
	return notify(ctx, c.Caller, "notifications/progress", append(params, '}'))
}

// Log sends a log message if the client wants messages of that level. The logger may be
// "". Data must encode as JSON. The error is like that of Progress, or about the data.
func (c *Call) Log(ctx context.Context, level mcp.LogLevel, logger string, data any) error {
	if !c.Request.LogLevel.Wants(level) {
		return nil
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	params := jsonscan.AppendString([]byte(`{"level":`), level.String())
	if logger != "" {
		params = jsonscan.AppendString(append(params, `,"logger":`...), logger)
	}
	params = append(append(params, `,"data":`...), raw...)
	return notify(ctx, c.Caller, "notifications/message", append(params, '}'))
}

func notify(ctx context.Context, caller mcp.Caller, method string, params []byte) error {
	n, err := mcp.NewNotification(method, params)
	if err != nil {
		return err
	}
	return caller.Notify(ctx, n)
}

// fail answers a request for a prompt or a resource, the item, whose function returned err.
func (c *Call) fail(item string, err error) (*mcp.Result, error) {
	if more, ok := errors.AsType[*inputRequired](err); ok {
		return more.result(c)
	}
	if wrong, ok := errors.AsType[*callerError](err); ok {
		return nil, invalid("%s: %s", item, wrong)
	}
	return nil, err
}

// Bound returns a function for a Tool or a Prompt that calls f with its arguments,
// decoded by [Call.Bind] into the zero value of In. f is not called for invalid
// arguments. If an argument has a default other than its zero value, use Call.Bind
// instead.
func Bound[In, Out any](f func(ctx context.Context, call *Call, in In) (Out, error)) func(ctx context.Context, call *Call) (Out, error) {
	return func(ctx context.Context, call *Call) (Out, error) {
		var in In
		if err := call.Bind(&in); err != nil {
			var none Out
			return none, err
		}
		return f(ctx, call, in)
	}
}

// Always returns a function for a Tool, a Prompt or a Resource that always returns out,
// which must not be changed afterwards.
func Always[Out any](out Out) func(ctx context.Context, call *Call) (Out, error) {
	return func(context.Context, *Call) (Out, error) { return out, nil }
}

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
