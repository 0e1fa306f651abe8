// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Denial is an error of Config.Authenticate that specifies how a request is refused. Any
// other error is a plain 401.
type Denial struct {
	// Status is 401, 403, 404 or 503; zero is 401. With 404 the answer is that of
	// Config.NotFound: the sender is authenticated, and may not know of the profile. With
	// 503 it is unknown whether the credentials are valid.
	Status int
	// Challenge is the WWW-Authenticate header of a 401 or 403; "" is "Bearer".
	Challenge string
	// RetryAfter is how long the client should wait after a 503.
	RetryAfter time.Duration
	// Message is sent to the client, except with 404. It must not quote the credentials.
	Message string
}

// Error returns the message.
func (d *Denial) Error() string { return d.Message }

// refusal is the response to an HTTP request that is rejected.
type refusal struct {
	status int
	id     mcp.ID
	err    *mcp.Error
	header [2]string // one more header, or nothing
	event  Event     // reported to Config.Observe if it has a kind
	hidden bool      // the answer is that of Config.NotFound
}

// refuse returns the refusal of a request that has not been parsed as a message.
func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, err: mcp.Errorf(mcp.CodeInvalidRequest, format, args...)}
}

// seconds returns the value of a Retry-After header: whole seconds, at least one.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

// refuseMessage returns the refusal of a message that could be parsed.
func refuseMessage(status int, id mcp.ID, err *mcp.Error) *refusal {
	return &refusal{status: status, id: id, err: err}
}

func (r *refusal) withHeader(header, value string) *refusal {
	r.header = [2]string{header, value}
	return r
}

// message returns the body: a JSON-RPC error, with the id if it is known.
func (r *refusal) message() session.Message {
	return session.Message{Head: jsonrpc.AppendError(nil, r.id, r.err), Status: r.status}
}

func errShuttingDown() *mcp.Error {
	f := &mcp.Fault{Code: mcp.CodeShuttingDown, Outcome: mcp.NotDispatched, Message: "the gateway is shutting down"}
	return f.Wire()
}

// refuseParse returns the refusal of a message that does not parse. If a limit was
// exceeded, the error names its key, as for every limit that an operator can raise.
func refuseParse(id mcp.ID, err error) *refusal {
	pe, ok := errors.AsType[*mcp.ParseError](err)
	if !ok {
		return refuseMessage(http.StatusBadRequest, id, mcp.Errorf(mcp.CodeParseError, "the body is not a JSON-RPC message"))
	}
	no := refuseMessage(http.StatusBadRequest, id, pe.Wire())
	if key := limitOf(pe); key != "" {
		no.err.Message += " (" + key + ")"
		no.withEvent(Limited, key)
	}
	return no
}

// limitOf returns the configuration key of the limit that a message exceeds, or "". The
// parser knows the limits, but not their keys.
func limitOf(pe *mcp.ParseError) string {
	switch pe.Exceeded {
	case mcp.LimitDepth:
		return "limits.depth"
	case mcp.LimitMembers:
		return "limits.members"
	case mcp.LimitBatch:
		return "limits.batch"
	default:
		return ""
	}
}

// retryAfter is the Retry-After of a temporary refusal, in seconds.
const retryAfter = "5"

func refuseDraining(id mcp.ID) *refusal {
	return refuseMessage(http.StatusServiceUnavailable, id, errShuttingDown()).withHeader("Retry-After", retryAfter)
}

// refuseLost is refuseDraining for a retry. A part of the request has already run, so the
// client must not take it for one that was never sent.
func refuseLost(id mcp.ID) *refusal {
	lost := &mcp.Fault{Code: mcp.CodeShuttingDown, Outcome: mcp.Unknown, Message: "the gateway is shutting down and keeps no requests that wait for input"}
	return refuseMessage(http.StatusServiceUnavailable, id, lost.Wire()).withHeader("Retry-After", retryAfter)
}

// refuseBegin returns the refusal of a request that the session does not accept.
func (s *Server) refuseBegin(id mcp.ID, err error) *refusal {
	switch {
	case errors.Is(err, session.ErrDuplicate):
		return refuseMessage(http.StatusBadRequest, id, mcp.Errorf(mcp.CodeInvalidRequest, "a request with id %s is in flight", id))
	case errors.Is(err, session.ErrTooMany):
		return refuseTooMany(id, s.cfg.Limits.InFlightPerSession, "requests in flight", "inFlightPerSession")
	default:
		return refuseSession(id)
	}
}

// refuseTooMany is the refusal for every limit on a number of things. It names what there
// is too many of, the key of the limit, and when to retry.
func refuseTooMany(id mcp.ID, n int, what, limit string) *refusal {
	return refuseLimit(id, strconv.Itoa(n)+" "+what, "limits."+limit)
}

// refuseLimit is refuseTooMany for limits that do not count things.
func refuseLimit(id mcp.ID, text, key string) *refusal {
	f := &mcp.Fault{Code: mcp.CodeLimit, Outcome: mcp.NotDispatched, Message: text + " (" + key + ")"}
	return refuseMessage(http.StatusTooManyRequests, id, f.Wire()).withHeader("Retry-After", retryAfter).withEvent(Limited, key)
}

// refuseSession is the response for a session that does not exist, has ended, or belongs
// to another principal (2025-11-25, basic/transports, "Session Management").
func refuseSession(id mcp.ID) *refusal {
	return refuseMessage(http.StatusNotFound, id, mcp.Errorf(mcp.CodeInvalidRequest, "session not found; open a new one with initialize"))
}

// asWire returns err as the error to send to a peer unmodified, if it is one.
func asWire(err error) (*mcp.Error, bool) { return errors.AsType[*mcp.Error](err) }

func (s *Server) refuse(p *response, r *http.Request, no *refusal, from sender) {
	s.noteRefusal(r.Context(), no, from.principal, r.RemoteAddr)
	if no.hidden {
		s.serveHidden(p, r)
		return
	}
	if no.header[0] != "" {
		p.w.Header().Set(no.header[0], no.header[1])
	}
	m := no.message()
	p.writeJSON(&m)
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}

// escape returns a value from a client for use in a message: quoted ASCII, cut to a
// readable length.
func escape(v string) string {
	const most = 64
	if len(v) > most {
		return strconv.QuoteToASCII(v[:most]) + "..."
	}
	return strconv.QuoteToASCII(v)
}
