// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Denial is what Config.Authenticate returns to say how a request is refused.
// Any other error is a plain 401.
type Denial struct {
	// Status is 401 or 403; zero is 401.
	Status int
	// Challenge is the WWW-Authenticate header; "" is "Bearer".
	Challenge string
	// Message is shown to the client. It must not quote the credentials.
	Message string
}

// Error returns the message.
func (d *Denial) Error() string { return d.Message }

// refusal is the answer to an HTTP request that goes no further.
type refusal struct {
	status int
	id     mcp.ID
	err    *mcp.Error
	header [2]string // one more header, or nothing
	event  Event     // what is told of it; nothing where that has no kind
}

// refuse returns a refusal of something that is not yet a message.
func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, err: mcp.Errorf(mcp.CodeInvalidRequest, format, args...)}
}

// refuseMessage returns the refusal of a message that could be read.
func refuseMessage(status int, id mcp.ID, err *mcp.Error) *refusal {
	return &refusal{status: status, id: id, err: err}
}

func (r *refusal) withHeader(header, value string) *refusal {
	r.header = [2]string{header, value}
	return r
}

// message returns the body: a JSON-RPC error, with the id where it is known.
func (r *refusal) message() session.Message {
	return session.Message{Head: mcp.AppendError(nil, r.id, r.err), Status: r.status}
}

func errShuttingDown() *mcp.Error {
	f := &mcp.Fault{Code: mcp.CodeShuttingDown, Outcome: mcp.NotDispatched, Message: "the gateway is shutting down"}
	return f.Wire()
}

// parseError says what is wrong with the bytes of a message. An error that comes
// from a limit names its key, as all do that an operator can lift.
func parseError(err error) *mcp.Error {
	pe, ok := errors.AsType[*mcp.ParseError](err)
	if !ok {
		return mcp.Errorf(mcp.CodeParseError, "the body is no message")
	}
	wire := pe.Wire()
	if key := limitOf(pe); key != "" {
		wire.Message += " (limits." + key + ")"
	}
	return wire
}

// refuseParse returns the refusal of bytes that are no message, or one that is
// beyond a limit.
func refuseParse(id mcp.ID, err error) *refusal {
	no := refuseMessage(http.StatusBadRequest, id, parseError(err))
	if pe, ok := errors.AsType[*mcp.ParseError](err); ok && limitOf(pe) != "" {
		return no.withEvent(Limited, "limits."+limitOf(pe))
	}
	return no
}

// limitOf returns the key of the limit that a message exceeds, "" where it is none
// of ours: the parser knows limits, and nothing of how a configuration names them.
func limitOf(pe *mcp.ParseError) string {
	switch pe.Exceeded {
	case mcp.LimitDepth:
		return "depth"
	case mcp.LimitMembers:
		return "members"
	case mcp.LimitBatch:
		return "batch"
	default:
		return ""
	}
}

// retryAfter is what clients are told who come at the wrong time, in seconds.
const retryAfter = "5"

func refuseDraining(id mcp.ID) *refusal {
	return refuseMessage(http.StatusServiceUnavailable, id, errShuttingDown()).withHeader("Retry-After", retryAfter)
}

// refuseLost is refuseDraining for a retry. What was asked for has had a part of its
// work done, so that nobody may take it for a request that never ran.
func refuseLost(id mcp.ID) *refusal {
	lost := &mcp.Fault{Code: mcp.CodeShuttingDown, Outcome: mcp.Unknown, Message: "the gateway is shutting down and keeps no request that waits for input"}
	return refuseMessage(http.StatusServiceUnavailable, id, lost.Wire()).withHeader("Retry-After", retryAfter)
}

// refuseBegin returns the refusal of a request that the session does not take.
func (s *Server) refuseBegin(id mcp.ID, err error) *refusal {
	full, isFull := errors.AsType[excessError](err)
	switch {
	case isFull:
		return s.refusePending(id, full)
	case errors.Is(err, session.ErrDuplicate):
		return refuseMessage(http.StatusBadRequest, id, mcp.Errorf(mcp.CodeInvalidRequest, "a request with id %s is in flight", id))
	case errors.Is(err, session.ErrTooMany):
		return refuseTooMany(id, s.cfg.Limits.InFlightPerSession, "requests in flight", "inFlightPerSession")
	default:
		return refuseSession(id)
	}
}

// refuseTooMany is the one way in which a bound of the server refuses: it says
// what there is too much of, which key sets the bound, and when to come back.
func refuseTooMany(id mcp.ID, n int, what, limit string) *refusal {
	return refuseLimit(id, strconv.Itoa(n)+" "+what, "limits."+limit)
}

// refuseLimit is refuseTooMany for what is not a number of things.
func refuseLimit(id mcp.ID, text, key string) *refusal {
	f := &mcp.Fault{Code: mcp.CodeLimit, Outcome: mcp.NotDispatched, Message: text + " (" + key + ")"}
	return refuseMessage(http.StatusTooManyRequests, id, f.Wire()).withHeader("Retry-After", retryAfter).withEvent(Limited, key)
}

// refuseSession is the answer for a session that is not, is no more, or is
// somebody else's (2025-11-25, basic/transports, "Session Management").
func refuseSession(id mcp.ID) *refusal {
	return refuseMessage(http.StatusNotFound, id, mcp.Errorf(mcp.CodeInvalidRequest, "session not found; open a new one with initialize"))
}

// asWire returns the error that a peer is to be told as it is.
func asWire(err error) (*mcp.Error, bool) { return errors.AsType[*mcp.Error](err) }
