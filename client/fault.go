// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// fault returns a Fault in the backend's name, for a failure determined here.
func (s *setup) fault(code int64, outcome mcp.Outcome, cause error, format string, args ...any) *mcp.Fault {
	return &mcp.Fault{Code: code, Outcome: outcome, Backend: s.Name, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// unavailable is the failure of a request that was not sent.
func (s *setup) unavailable(cause error, format string, args ...any) *mcp.Fault {
	return s.fault(mcp.CodeBackendUnavailable, mcp.NotDispatched, cause, format, args...)
}

// otherOutputText describes the first invalid line of a process's output, or is empty.
func (s *setup) otherOutputText() string {
	line := s.otherOutput.Load()
	if line == nil {
		return ""
	}
	return "it wrote \"" + *line + "\" to its output, which is not a message"
}

// beforeSend converts the failure of a step before a request, such as the handshake,
// into the failure of the request, which was not sent.
func beforeSend(f *mcp.Fault) *mcp.Fault {
	before := *f // a copy: other requests may wait for the same handshake
	before.Code, before.Outcome = mcp.CodeBackendUnavailable, mcp.NotDispatched
	return &before
}

// lost is the failure of a request that the backend may have executed.
func (s *setup) lost(cause error, format string, args ...any) *mcp.Fault {
	return s.fault(mcp.CodeBackendFailed, mcp.Unknown, cause, format, args...)
}

// givenUp is the failure of a request after its own context has ended.
func (s *setup) givenUp(ctx context.Context, outcome mcp.Outcome) *mcp.Fault {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return s.fault(mcp.CodeDeadline, outcome, context.Cause(ctx), "no answer in time")
	}
	return s.fault(mcp.CodeBackendFailed, outcome, context.Cause(ctx), "the request was cancelled")
}

// errClosed is the cause of faults after Close.
var errClosed = errors.New("the client is closed")

func (s *setup) closed() *mcp.Fault {
	return s.fault(mcp.CodeShuttingDown, mcp.NotDispatched, errClosed, "shutting down")
}

// cut is the error of requests in progress when the client closes.
func (s *setup) cut() *mcp.Fault {
	return s.fault(mcp.CodeShuttingDown, mcp.Unknown, errClosed, "shutting down")
}

// errNoListenStream is the cause if a listen ends because the server, which is still
// available, no longer has a stream of changes.
var errNoListenStream = errors.New("no listening stream")

func (s *setup) errNoListen() *mcp.Fault {
	return s.fault(mcp.CodeUnsupported, mcp.Completed, errNoListenStream, "it no longer reports changes")
}

// rejected reports that the backend refused a message unprocessed, so that it may be
// sent again another way. err is returned to the caller if there is no other way.
type rejected struct {
	why rejection
	err error
}

// rejection is the reason why a backend refused a message unprocessed.
type rejection uint8

const (
	wrongEra       rejection = iota + 1 // it does not speak, or no longer speaks, this era
	sessionGone                         // it does not know the session
	headerMismatch                      // -32020: the headers known for a tool are outdated
	busy                                // 408, 429 or 503 before processing
	neverSpoke                          // it has refused every handshake so far
)

func (r *rejected) Error() string { return r.err.Error() }
func (r *rejected) Unwrap() error { return r.err }

// isRejected checks err itself, not its causes: an error may be caused by another
// request's rejection.
func isRejected(err error, why rejection) bool {
	r, ok := err.(*rejected) //nolint:errorlint // see above
	return ok && r.why == why
}

// unwrap returns the error as callers of the package may see it.
func unwrap(err error) error {
	if r, ok := err.(*rejected); ok { //nolint:errorlint // as isRejected
		return r.err
	}
	return err
}
