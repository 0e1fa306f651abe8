// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"errors"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Limits of resending a request.
const (
	MaxResend    = 2                     // of a request that was not sent
	firstBackoff = 50 * time.Millisecond // doubled each time, with jitter
)

// RetryDecision is how to proceed with a failed request.
type RetryDecision uint8

// The decisions on a failed request.
const (
	GiveUp     RetryDecision = iota
	Resend                   // not sent, or refused unprocessed: send again after a pause
	Reprobe                  // the server has changed its era
	resendOnce               // it may have run, which does no harm
)

// ResendDelay returns how long to wait before the n-th resend.
func ResendDelay(n int) time.Duration { return backoff.Jitter(firstBackoff << n) }

// Classify decides whether a request may be sent again. A request that may have run is
// sent again only if its method is read-only; tools/call never is.
func Classify(req *mcp.Request, err error) RetryDecision {
	switch {
	case IsRejected(err, WrongEra):
		return Reprobe
	case IsRejected(err, SessionGone):
		return GiveUp // a new session was tried already
	case IsRejected(err, NoCredential):
		return GiveUp // Credentials have decided
	}
	// The outcome decides from here on. An error of the server itself is a response,
	// whatever its code.
	f, ok := Unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	switch {
	case !ok, errors.Is(err, ErrNoRetry):
		return GiveUp
	case IsRejected(err, Busy) && (f.Outcome == mcp.NotDispatched || isReadOnly(req)):
		return Resend
	case f.Outcome == mcp.NotDispatched && f.Code == mcp.CodeBackendUnavailable && !IsRefusal(f):
		return Resend
	case f.Outcome == mcp.Unknown && f.Code == mcp.CodeBackendFailed && isReadOnly(req):
		return resendOnce
	default:
		return GiveUp
	}
}

// serverRefusal is the cause of a fault that is the server's response. The server would
// respond the same again.
type serverRefusal interface {
	error
	IsServerRefusal()
}

// IsRefusal reports whether the fault is the response of the server.
func IsRefusal(f *mcp.Fault) bool {
	_, ok := errors.AsType[serverRefusal](f.Cause)
	return ok
}

// isReadOnly reports whether the protocol defines the request as one that changes
// nothing. A request with input was prepared by other requests and must not be sent
// twice.
func isReadOnly(req *mcp.Request) bool {
	if req.Params.Has(mcp.FieldInputResponses) || req.Params.Has(mcp.FieldRequestState) {
		return false
	}
	return IsReadMethod(req.Method)
}

// IsReadMethod reports whether the protocol, or the extension for skills, defines the method as one that changes
// nothing.
func IsReadMethod(method string) bool {
	switch method {
	case MethodDiscover, MethodPing, MethodToolsList, "prompts/list", "resources/list", "resources/templates/list",
		"completion/complete", MethodTaskGet, "resources/read", "prompts/get",
		"skills/list", "skills/get", "resources/directory/read":
		return true
	default:
		return false
	}
}
