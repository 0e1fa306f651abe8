// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Causes of faults.
var (
	// ErrClosed is the cause of faults after Close.
	ErrClosed = errors.New("the client is closed")

	// ErrNoListenStream is the cause if a listen ends because the server, which is
	// still available, no longer has a stream of changes.
	ErrNoListenStream = errors.New("no listening stream")

	// ErrNoRetry marks failures that another attempt would only repeat.
	ErrNoRetry = errors.New("must not be retried now")
)

// Fault returns a Fault in the backend's name, for a failure determined here.
func (s *Setup) Fault(code int64, outcome mcp.Outcome, cause error, format string, args ...any) *mcp.Fault {
	return &mcp.Fault{Code: code, Outcome: outcome, Backend: s.Name, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// Unavailable is the failure of a request that was not sent.
func (s *Setup) Unavailable(cause error, format string, args ...any) *mcp.Fault {
	return s.Fault(mcp.CodeBackendUnavailable, mcp.NotDispatched, cause, format, args...)
}

// Because returns the fault with the code of its cause, which may be empty.
func Because(reason string, f *mcp.Fault) *mcp.Fault {
	f.Reason = reason
	return f
}

// Lost is the failure of a request that the backend may have executed.
func (s *Setup) Lost(cause error, format string, args ...any) *mcp.Fault {
	return s.Fault(mcp.CodeBackendFailed, mcp.Unknown, cause, format, args...)
}

// GivenUp is the failure of a request after its own context has ended.
func (s *Setup) GivenUp(ctx context.Context, outcome mcp.Outcome) *mcp.Fault {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return s.Fault(mcp.CodeDeadline, outcome, context.Cause(ctx), "no answer in time")
	}
	return s.Fault(mcp.CodeBackendFailed, outcome, context.Cause(ctx), "the request was cancelled")
}

// Closed is the failure of requests after the client was closed.
func (s *Setup) Closed() *mcp.Fault {
	return s.Fault(mcp.CodeShuttingDown, mcp.NotDispatched, ErrClosed, "shutting down")
}

// Cut is the error of requests in progress when the client closes.
func (s *Setup) Cut() *mcp.Fault {
	return s.Fault(mcp.CodeShuttingDown, mcp.Unknown, ErrClosed, "shutting down")
}

// NoListen is the end of a listen of a server that no longer has a stream of changes.
func (s *Setup) NoListen() *mcp.Fault {
	return s.Fault(mcp.CodeUnsupported, mcp.Completed, ErrNoListenStream, "it no longer reports changes")
}

// TooLong is the failure of a call with a response longer than MaxMessage.
func (s *Setup) TooLong(cause error) *mcp.Fault {
	return s.Fault(mcp.CodeLimit, mcp.Unknown, cause, "it sent a message of more than %d bytes (limits.backendMessage)", s.MaxMessage)
}

// IsTooLong reports whether a message was longer than the limit.
func IsTooLong(err error) bool {
	pe, ok := errors.AsType[*mcp.ParseError](err)
	return ok && pe.Exceeded == mcp.LimitBytes
}

// Malformed is the failure of a call with an invalid response.
func (s *Setup) Malformed(cause error) *mcp.Fault {
	return Because(code.TalkNotMCP, s.Fault(mcp.CodeBackendFailed, mcp.Unknown, cause, "its answer breaks the protocol: %v", cause))
}

// ForwardError returns the error of a call if its result was cut while it was
// forwarded. Its client has a part of it and gets no other result.
func (s *Setup) ForwardError(ctx context.Context, err error) error {
	cause := errors.Join(ErrNoRetry, err)
	_, isWrong := errors.AsType[*mcp.ParseError](err)
	var f *mcp.Fault
	switch {
	case errors.Is(err, jsonrpc.ErrNotTaken):
		return s.Fault(mcp.CodeBackendFailed, mcp.Completed, cause, "its answer was cut, because the client did not take it")
	case IsTooLong(err):
		f = s.TooLong(cause)
	case isWrong:
		f = Because(code.TalkNotMCP, s.Fault(mcp.CodeBackendFailed, mcp.Unknown, cause, "its answer breaks the protocol: %v", err))
	default:
		f = s.Lost(cause, "the connection broke during its answer")
	}
	s.Log.WarnContext(ctx, "backend's response broke off while it was forwarded, and the client's response was cut off; look at the backend's own log",
		slog.String("reason", f.Message), slog.Any("cause", err))
	return f
}

// BeforeSend converts the failure of a step before a request, such as the handshake,
// into the failure of the request, which was not sent.
func BeforeSend(f *mcp.Fault) *mcp.Fault {
	before := *f // a copy: other requests may wait for the same handshake
	before.Code, before.Outcome = mcp.CodeBackendUnavailable, mcp.NotDispatched
	return &before
}

// Rejected reports that the backend refused a message unprocessed, so that it may be
// sent again another way. err is returned to the caller if there is no other way.
type Rejected struct {
	Why rejection
	Err error
}

// rejection is the reason why a backend refused a message unprocessed.
type rejection uint8

// Reasons of rejections.
const (
	WrongEra       rejection = iota + 1 // it does not speak, or no longer speaks, this era
	SessionGone                         // it does not know the session
	HeaderMismatch                      // -32020: the headers known for a tool are outdated
	Busy                                // 408, 429 or 503 before processing
	NeverSpoke                          // it has refused every handshake so far
	NoCredential                        // Credentials have ended the request, which must not be sent again
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

// AfterStart returns the error of a request that the backend has begun to work on, if a later
// request for it has failed with err (see [task.AfterStart]). The first one is not sent again.
func (s *Setup) AfterStart(err error) error {
	err = Unwrap(err)
	f, ok := task.AfterStart(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	if !ok {
		return err
	}
	late := *f
	late.Outcome, late.Cause = cmp.Or(f.Outcome, mcp.Unknown), errors.Join(ErrNoRetry, f.Cause)
	if _, ok := err.(*mcp.Error); ok { //nolint:errorlint // only the backend's own error
		late.Backend = s.Name
	}
	return &late
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
