// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// The error codes that have a meaning in the protocol.
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

// The codes of errors that Signalbox itself reports. They are outside the range that
// JSON-RPC reserves, so that they are not mistaken for a backend's (2026-07-28, basic,
// "Error Codes").
const (
	CodeBackendUnavailable = 1001 // the backend could not be reached
	CodeBackendFailed      = 1002 // it failed, or broke the protocol, during the request
	CodeDeadline           = 1003 // it did not answer in time
	CodeShuttingDown       = 1004 // this process is shutting down
	CodeUnsupported        = 1005 // the peer's revision cannot express this
	CodeLimit              = 1006 // a configured limit was reached
	CodeSessionEnded       = 1007 // the session ended while the request was served
)

// ErrRequestEnded is wrapped by the errors of a [Caller] after the terminal of its
// request.
var ErrRequestEnded = errors.New("the request has ended")

// An Error is an error as it appears on the wire, received or to be sent. It is
// immutable once it has been passed on.
type Error struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil if absent

	// Raw is the whole error object as it arrived, or nil for an error made here. If it
	// is set, it is what is forwarded.
	Raw json.RawMessage

	// Beside is the members beside the error in its message: see [Object.Beside].
	Beside []byte
}

// Errorf returns an error with the given code. The formatted message is sent to the
// peer: use %q for a peer's text, and include nothing internal.
func Errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error returns the message and the code.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (code %d)", e.Message, e.Code)
}

// Is reports whether target is an Error with the same code, so that errors.Is(err,
// &mcp.Error{Code: mcp.CodeMethodNotFound}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Outcome specifies whether a failed request may have been executed.
type Outcome string

// The outcomes. The zero value makes no statement; it is for a backend's own error.
const (
	NotDispatched Outcome = "not_dispatched" // no byte reached the backend: safe to send again
	Unknown       Outcome = "unknown"        // it may have run
	Completed     Outcome = "completed"      // it ran; its answer was lost or too late
)

// A Fault is a failure that Signalbox itself detected, as opposed to one that a peer
// reported. On the wire it becomes an error with its source, its outcome, the backend
// and the code of its cause in its data.
type Fault struct {
	Code    int64
	Outcome Outcome
	Backend string // the configured name, or ""
	Reason  string // the code of its cause, such as SB_NET_DNS, or ""; see docs/codes.md
	Call    CallID // of the request, or 0
	Message string // sent to the client: no addresses, no secrets
	Cause   error  // for the log and for errors.Is; never sent
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

// Error returns the message with the backend's name and the outcome.
func (f *Fault) Error() string {
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

// Wire returns the fault as it is sent to a client. The outcome appears twice: in the
// message for people and models, and in the data for programs.
func (f *Fault) Wire() *Error {
	data, err := json.Marshal(struct {
		Source  string  `json:"source"`
		Outcome Outcome `json:"outcome,omitempty"`
		Backend string  `json:"backend,omitempty"`
		Code    string  `json:"code,omitempty"`
	}{"gateway", f.Outcome, f.Backend, f.Reason})
	if err != nil {
		data = nil // cannot happen: strings always encode
	}
	return (&Error{Code: f.Code, Message: f.Error(), Data: data}).WithCall(f.Call)
}

// WithCall returns an error that names the call, in its message and as the member "call"
// of its data. It returns e itself without an id, and for an error that a peer sent.
func (e *Error) WithCall(id CallID) *Error {
	if id == 0 || e.Raw != nil {
		return e
	}
	text := id.String()
	own := *e
	own.Message += " (call " + text + ")"
	switch data := bytes.TrimSpace(e.Data); {
	case len(data) == 0:
		own.Data = json.RawMessage(`{"call":"` + text + `"}`)
	case data[0] == '{':
		own.Data = jsonscan.WithMember(data, "call", []byte(`"`+text+`"`))
	}
	return &own
}

// ToWire returns err as it is sent to a peer: an [*Error] unmodified, a [*Fault] in its
// wire form, wherever they are wrapped, and any other error as an internal error
// without its text, which may contain secrets.
//
// A Fault takes precedence over an Error that caused it: the cause is for the log and
// does not specify whether the request ran.
func ToWire(err error) *Error {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Wire()
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternalError, Message: "internal error"}
}
