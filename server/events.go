// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// EventKind says what has happened.
type EventKind string

// What an operator may want to know of: what was refused because of who asked,
// and what came to nothing.
const (
	ForeignHost     EventKind = "foreign_host"     // Detail: the Host header
	ForeignOrigin   EventKind = "foreign_origin"   // Detail: the Origin header
	Unauthenticated EventKind = "unauthenticated"  // Detail: what the client was told
	QueryToken      EventKind = "query_token"      // a credential stood in the URL
	ForeignSession  EventKind = "foreign_session"  // the session is another principal's
	UnknownSession  EventKind = "unknown_session"  // the session never was, or has ended
	ForeignState    EventKind = "foreign_state"    // the requestState is another principal's
	UnknownState    EventKind = "unknown_state"    // the requestState is none that holds, or of another request
	UnknownEventID  EventKind = "unknown_event_id" // Detail: the Last-Event-ID header
	Limited         EventKind = "limited"          // Detail: the key of the limit
	Stray           EventKind = "stray_response"   // Detail: the id that it answers
	IdleCancel      EventKind = "idle_cancel"      // Detail: the id that it cancels
)

// Event is something that happened at the edge and that the Handler does not
// hear of. Its texts are printable ASCII, whatever a client sent, and none of
// them is a credential.
type Event struct {
	Kind      EventKind
	Principal string // "" where it is anonymous, or not known
	Remote    string // the address of the connection; "" on a pipe
	Session   string // what tells a session apart in logs, which is never its id
	Detail    string // the value concerned, escaped and cut
}

// detailBytes is how much of a value an event has: enough to see what it is
// about, whatever a client sends to fill a log.
const detailBytes = 200

// observe tells whoever watches. It is a call on the goroutine that serves, so
// that nothing here is queued without a bound.
func (s *Server) observe(ctx context.Context, e Event) {
	e.Detail = printable(e.Detail, detailBytes)
	s.cfg.Observe(ctx, e)
}

// logEvents is who watches where nobody else does. A page that is refused is a
// record of its own: it is an attack, or a setting that somebody looks for.
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

// observeIn tells of something that came in a session.
func (s *Server) observeIn(ctx context.Context, sess *session.Session, remote string, kind EventKind, detail string) {
	s.observe(ctx, Event{Kind: kind, Principal: sess.Principal, Remote: remote, Session: sess.Scope.Key(), Detail: detail})
}

// cancelledNothing counts a cancel whose request is unknown or over. There is
// nobody to tell but the operator (2025-11-25, basic/utilities/cancellation,
// "Error Handling").
func (s *Server) observeIdleCancel(ctx context.Context, from Event, id []byte) {
	s.idleCancels.Add(1)
	from.Kind, from.Detail = IdleCancel, string(id)
	s.observe(ctx, from)
}

// noted returns the refusal with the event that it is.
func (r *refusal) withEvent(kind EventKind, detail string) *refusal {
	r.event.Kind, r.event.Detail = kind, detail
	return r
}

// in returns the refusal, if there is one, as that of a request in a session.
func (r *refusal) inSession(sess *session.Session) *refusal {
	if r != nil {
		r.event.Session = sess.Scope.Key()
	}
	return r
}

// report tells of a refusal that is an event.
func (s *Server) observeRefusal(r *http.Request, no *refusal, principal string) {
	if no.event.Kind == "" {
		return
	}
	e := no.event
	e.Principal, e.Remote = principal, r.RemoteAddr
	s.observe(r.Context(), e)
}

// printable returns the value as it may stand in any text: printable ASCII,
// everything else escaped, and cut between two of its characters.
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

// Guard returns a handler that serves next to those alone who may call the
// endpoint: the checks of Host, Origin, query and credentials are the same, and
// so are the refusals. It is for what stands beside the endpoint and is not for
// everybody, whatever its methods are. A page of an allowed origin may call it
// too, but its browser is not told to show it the answer: such a page is there to
// use tools, not to watch the gateway.
func (s *Server) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, no := s.admit(r, guardChecks())
		if no == nil {
			next.ServeHTTP(w, r)
			return
		}
		p := s.newResponse(w, r)
		defer p.end()
		s.refuse(p, r, no, principal)
	})
}

// admit makes the checks and returns who calls.
func (s *Server) admit(r *http.Request, checks []check) (principal string, no *refusal) {
	for _, check := range checks {
		if no := check(s, r); no != nil {
			return "", no
		}
	}
	return s.authenticate(r)
}

// turnAway answers with the refusal.
func (s *Server) refuse(p *response, r *http.Request, no *refusal, principal string) {
	s.refused.Add(1)
	s.observeRefusal(r, no, principal)
	p.writeRefusal(no)
}
