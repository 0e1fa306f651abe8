// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The error codes that the protocol gives a meaning.
const (
	CodeParseError     = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternalError  = -32603

	// Modern (2026-07-28, basic, "Error Codes").
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022

	// Legacy only; never sent to a modern peer.
	CodeResourceNotFound       = -32002
	CodeURLElicitationRequired = -32042
)

// The codes of Signalbox's own conclusions. They stand outside the range that
// JSON-RPC reserves, so that nobody takes them for a backend's
// (2026-07-28, basic, "Error Codes").
const (
	CodeBackendUnavailable = 1001 // the backend could not be reached
	CodeBackendFailed      = 1002 // it failed, or broke the protocol, during the request
	CodeDeadline           = 1003 // it did not answer in time
	CodeShuttingDown       = 1004 // this process is going away
	CodeUnsupported        = 1005 // the peer's revision has no way to say this
	CodeLimit              = 1006 // a configured limit was reached
	CodeSessionEnded       = 1007 // the session ended while the request was served
)

// ErrRequestEnded is wrapped by the errors of a [Caller] whose request has had
// its terminal.
var ErrRequestEnded = errors.New("the request has ended")

// Error is an error as it stands on the wire: what a peer said, or what it is to
// be told. It is immutable once it is given away.
type Error struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil where absent

	// Raw is the whole error object as it arrived, or nil for an error of our
	// own. Where it is set, it is what is forwarded.
	Raw json.RawMessage

	// Beside is what stood beside the error in its message: see [Object.Beside].
	Beside []byte
}

// Errorf returns an error of the given code. Its message goes to the peer as it
// is formatted: %q for whatever a peer said, and nothing that is only ours to know.
func Errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error returns the message and the code.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (code %d)", e.Message, e.Code)
}

// Is reports whether target is an Error of the same code, so that
// errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Outcome says whether a request that failed may have been executed.
type Outcome string

// The outcomes. The zero value is no statement, for an error that is a
// backend's own.
const (
	NotDispatched Outcome = "not_dispatched" // no byte of it reached the backend: safe to send again
	Unknown       Outcome = "unknown"        // it may have run
	Completed     Outcome = "completed"      // it ran; its answer was lost or came too late
)

// Fault is a failure that Signalbox concluded by itself, as opposed to one that
// a peer reported. On the wire it becomes an error whose data names its source,
// its outcome and the backend.
type Fault struct {
	Code    int64
	Outcome Outcome
	Backend string // the configured name, or ""
	Message string // shown to the client: no addresses, no secrets
	Cause   error  // for the log, and for errors.Is; never shown
}

// Error returns the message, with the backend's name and the outcome.
func (f *Fault) Error() string {
	return f.text()
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

func (f *Fault) text() string {
	msg := f.Message
	if f.Backend != "" {
		msg = fmt.Sprintf("backend %q: %s", f.Backend, msg)
	}
	switch f.Outcome {
	case NotDispatched:
		return msg + "; the request was not sent"
	case Unknown:
		return msg + "; the request may have been executed"
	case Completed:
		return msg + "; the request was executed"
	default:
		return msg
	}
}

// Wire returns the fault as it goes to a client. The outcome is said twice: in the
// message for people and models, and in the data for programs.
func (f *Fault) Wire() *Error {
	data, err := json.Marshal(struct {
		Source  string  `json:"source"`
		Outcome Outcome `json:"outcome,omitempty"`
		Backend string  `json:"backend,omitempty"`
	}{"gateway", f.Outcome, f.Backend})
	if err != nil {
		data = nil // three strings always encode
	}
	return &Error{Code: f.Code, Message: f.text(), Data: data}
}

// ToWire returns what a peer is told of err: an [*Error] as it is, a [*Fault]
// as its wire form, wherever they are wrapped, and anything else as an internal
// error without its text, because nobody has looked for secrets in that.
//
// A Fault comes before the Error that caused it: the cause is for the log, and
// says nothing of whether the request ran.
func ToWire(err error) *Error {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Wire()
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternalError, Message: "internal error"}
}
