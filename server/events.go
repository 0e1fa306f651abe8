// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"log/slog"
	"strconv"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// EventKind is the kind of an [Event].
type EventKind string

// The events that an operator may want to know of: requests refused because of their
// origin, and messages without effect.
const (
	ForeignHost     EventKind = "foreign_host"     // Detail: the Host header
	ForeignOrigin   EventKind = "foreign_origin"   // Detail: the Origin header
	Unauthenticated EventKind = "unauthenticated"  // Detail: the message sent to the client
	QueryToken      EventKind = "query_token"      // a credential was in the URL
	ForeignProfile  EventKind = "foreign_profile"  // Detail: the profile that the credentials are not for, or "everything"
	ForeignSession  EventKind = "foreign_session"  // the session belongs to another principal or profile
	UnknownSession  EventKind = "unknown_session"  // the session never existed, or has ended
	ForeignState    EventKind = "foreign_state"    // the requestState belongs to another principal or profile
	UnknownState    EventKind = "unknown_state"    // the requestState is invalid, expired, or of another request
	UnknownEventID  EventKind = "unknown_event_id" // Detail: the Last-Event-ID header
	Limited         EventKind = "limited"          // Detail: the key of the limit
	Stray           EventKind = "stray_response"   // Detail: the id in the response
	IdleCancel      EventKind = "idle_cancel"      // Detail: the id in the cancel
)

// Event is an event at the edge that the Handler does not see. Its texts contain no
// credentials, and are printable ASCII, except for the principal, which is as authenticated.
type Event struct {
	Kind      EventKind
	Principal string // "" if anonymous or unknown
	Remote    string // the address of the connection; "" on a pipe
	Session   string // identifies a session in logs; never its id
	Detail    string // the value in question, escaped and cut
}

// detailBytes bounds the detail of an event, so that clients cannot fill a log.
const detailBytes = 200

// observe reports an event. It calls the observer on the goroutine that serves, so that
// no queue is needed.
func (s *Server) observe(ctx context.Context, e Event) {
	e.Detail = printable(e.Detail, detailBytes)
	s.cfg.Observe(ctx, e)
}

// logEvents is the default observer. A foreign page is logged as a warning: it is an
// attack, or a setting that the operator has to find.
func logEvents(logger *slog.Logger) func(context.Context, Event) {
	return func(ctx context.Context, e Event) {
		attrs := []slog.Attr{
			slog.String("event", string(e.Kind)), slog.String("principal", e.Principal),
			slog.String("remote", e.Remote), slog.String("session", e.Session), slog.String("detail", e.Detail),
		}
		if e.Kind == ForeignHost || e.Kind == ForeignOrigin {
			logger.LogAttrs(ctx, slog.LevelWarn, "request refused", attrs...)
			return
		}
		logger.LogAttrs(ctx, slog.LevelDebug, "edge event", attrs...)
	}
}

// observeIn reports an event in a session.
func (s *Server) observeIn(ctx context.Context, sess *session.Session, remote string, e Event) {
	e.Principal, e.Remote, e.Session = sess.Principal, remote, sess.Scope.Key()
	s.observe(ctx, e)
}

// observeIdleCancel counts and reports a cancel of a request that is unknown or has
// ended. The client gets no response (2025-11-25, basic/utilities/cancellation, "Error
// Handling").
func (s *Server) observeIdleCancel(ctx context.Context, from Event, id []byte) {
	s.idleCancels.Add(1)
	from.Kind, from.Detail = IdleCancel, string(id)
	s.observe(ctx, from)
}

// noteRefusal counts a refusal, and reports its event if it has one.
func (s *Server) noteRefusal(ctx context.Context, no *refusal, principal, remote string) {
	s.refused.Add(1)
	if no.event.Kind != "" {
		no.event.Principal, no.event.Remote = principal, remote
		s.observe(ctx, no.event)
	}
}

// withEvent sets the event that the refusal is reported as.
func (r *refusal) withEvent(kind EventKind, detail string) *refusal {
	r.event.Kind, r.event.Detail = kind, detail
	return r
}

// inSession sets the session of the refusal's event. r may be nil.
func (r *refusal) inSession(sess *session.Session) *refusal {
	if r != nil {
		r.event.Session = sess.Scope.Key()
	}
	return r
}

// printable returns v as printable ASCII, with everything else escaped, and cut at most
// bytes between two characters.
func printable(v string, most int) string {
	var b []byte
	for len(v) > 0 {
		_, n := utf8.DecodeRuneInString(v)
		q := strconv.QuoteToASCII(v[:n])
		if len(b)+len(q)-2 > most {
			break
		}
		b = append(b, q[1:len(q)-1]...)
		v = v[n:]
	}
	return string(b)
}
