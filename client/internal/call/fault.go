// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"errors"
	"log/slog"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func IsTooLong(err error) bool {
	pe, ok := errors.AsType[*mcp.ParseError](err)
	return ok && pe.Exceeded == mcp.LimitBytes
}

// ForwardError returns the error of a call if its result was cut while it was
// forwarded. Its client has a part of it and gets no other result.
func (s *Setup) ForwardError(ctx context.Context, err error) error {
	cause := errors.Join(ErrNoRetry, err)
	if errors.Is(err, jsonrpc.ErrNotTaken) {
		return s.Fault(mcp.CodeBackendFailed, mcp.Completed, cause, "its answer was cut, because the client did not take it")
	}
	f := s.arrivalError(err, cause)
	s.Log.WarnContext(ctx, "backend's response broke off while it was forwarded, and the client's response was cut off; look at the backend's own log",
		slog.String("reason", f.Message), slog.Any("cause", err))
	return f
}

// arrivalError returns the fault for a result that did not arrive completely.
func (s *Setup) arrivalError(err, cause error) *mcp.Fault {
	_, isWrong := errors.AsType[*mcp.ParseError](err)
	switch {
	case IsTooLong(err):
		return s.TooLong(cause)
	case isWrong:
		return s.Fault(mcp.CodeBackendFailed, mcp.Unknown, cause, "its answer breaks the protocol: %v", err)
	default:
		return s.Lost(cause, "the connection broke during its answer")
	}
}

func (s *Setup) TooLong(cause error) *mcp.Fault {
	return s.Fault(mcp.CodeLimit, mcp.Unknown, cause, "it sent a message of more than %d bytes (limits.backendMessage)", s.MaxMessage)
}

// Malformed returns the error of a call with an invalid response.
func (s *Setup) Malformed(cause error) *mcp.Fault {
	return s.Fault(mcp.CodeBackendFailed, mcp.Unknown, cause, "its answer breaks the protocol: %v", cause)
}

// BeforeSend converts the failure of a step before a request, such as the handshake,
// into the failure of the request, which was not sent.
func BeforeSend(f *mcp.Fault) *mcp.Fault {
	before := *f // a copy: other requests may wait for the same handshake
	before.Code, before.Outcome = mcp.CodeBackendUnavailable, mcp.NotDispatched
	return &before
}

// ErrClosed is the cause of faults after Close.
var ErrClosed = errors.New("the client is closed")

// ErrNoListenStream is the cause if a listen ends because the server, which is still
// available, no longer has a stream of changes.
var ErrNoListenStream = errors.New("no listening stream")

// Rejected reports that the backend refused a message unprocessed, so that it may be
// sent again another way. err is returned to the caller if there is no other way.
type Rejected struct {
	Why rejection
	Err error
}

// rejection is the reason why a backend refused a message unprocessed.
type rejection uint8

const (
	WrongEra       rejection = iota + 1 // it does not speak, or no longer speaks, this era
	SessionGone                         // it does not know the session
	HeaderMismatch                      // -32020: the headers known for a tool are outdated
	Busy                                // 408, 429 or 503 before processing
	NeverSpoke                          // it has refused every handshake so far
)

func (r *Rejected) Error() string { return r.Err.Error() }

func (r *Rejected) Unwrap() error { return r.Err }

// IsRejected checks err itself, not its causes: an error may be caused by another
// request's rejection.
func IsRejected(err error, why rejection) bool {
	r, ok := err.(*Rejected) //nolint:errorlint // see above
	return ok && r.Why == why
}

// Unwrap returns the error as callers of the package may see it.
func Unwrap(err error) error {
	if r, ok := err.(*Rejected); ok { //nolint:errorlint // as IsRejected
		return r.Err
	}
	return err
}

// Answered reports whether a call ended with a result or the server's own error, so
// that nothing of it is left in the session. After any other end the server may still
// send messages of the call, and the session is not lent again.
func Answered(err error) bool {
	if err == nil {
		return true
	}
	_, ok := err.(*mcp.Error) //nolint:errorlint // a Fault may wrap one and is not one
	return ok
}

// UnknownType is the error of a result of a type that was not agreed on. The legacy
// era has no result types; a modern client would trust one.
func UnknownType(res *mcp.Result) error {
	return mcp.Errorf(mcp.CodeInternalError, "its result has the unknown type %q", res.Type())
}
