// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyPost serves a message of a session, or the initialize that opens one. An
// initialize that names a session is a message in that session: session ids are created
// here and nowhere else (I18).
func (s *Server) legacyPost(p *response, r *http.Request, from sender, m *mcp.Message) *refusal {
	if m.Method == "initialize" && m.Kind == mcp.KindRequest && r.Header.Get(sessionHeader) == "" {
		return s.legacyInitialize(p, r, from, m)
	}
	id := mcp.ID{}
	if m.Kind == mcp.KindRequest {
		id = m.ID
	}
	sess, no := s.legacySession(r, from, id)
	if no != nil {
		return no
	}
	switch m.Kind {
	case mcp.KindRequest:
		return s.legacyServe(p, r, sess, m, from.identity).inSession(sess)
	case mcp.KindNotification:
		s.legacyNotification(r.Context(), sess, m, from.identity, r.RemoteAddr)
	default:
		s.legacyResponse(r.Context(), sess, m, r.RemoteAddr)
	}
	p.writeAccepted()
	return nil
}

// legacyServe serves a request of a session. A disconnect does not cancel it (2025-11-25,
// basic/transports, "Sending Messages to the Server").
func (s *Server) legacyServe(p *response, r *http.Request, sess *session.Session, m *mcp.Message, identity *mcp.Identity) *refusal {
	if m.Method == "ping" {
		answer := pong(m.ID)
		p.writeJSON(&answer)
		return nil
	}
	// A duplicate id is refused further down.
	if isList(m.Method) && !sess.InFlight(m.ID) {
		req := legacyRequest(sess, m, identity)
		if s.answerCached(r.Context(), p, m.ID, &req, legacyEncoder{&s.lists}) {
			return nil
		}
	}
	ctx, ir, no := s.beginLegacyRequest(r.Context(), sess, m, identity)
	if no != nil {
		return no
	}
	ir.sess = sess
	defer s.retain(sess)
	c := attach(r, ir.x)
	defer c.Detach()
	if !s.start(ctx, ir) {
		ir.x.Cancel(errDraining)
		return refuseDraining(m.ID)
	}
	s.answer(p, r, ir, sess, ir.x, c)
	return nil
}

// legacyDelete ends a session. This withdraws the requests in it, like
// notifications/cancelled: the responses end without further messages. SDKs close their
// readers beside the DELETE and fail on a message that arrives then.
func (s *Server) legacyDelete(p *response, r *http.Request, from sender) *refusal {
	sess, no := s.legacySession(r, from, mcp.ID{})
	if no != nil {
		return no
	}
	s.end(sess, nil)
	p.w.WriteHeader(http.StatusNoContent)
	return nil
}

// legacySession returns the session that a request names, if it belongs to the sender.
func (s *Server) legacySession(r *http.Request, from sender, id mcp.ID) (*session.Session, *refusal) {
	ids := r.Header.Values(sessionHeader)
	if len(ids) > 1 {
		return nil, refuseMessage(http.StatusBadRequest, id, mcp.Errorf(mcp.CodeInvalidRequest, "%s header appears %d times; send it once", sessionHeader, len(ids)))
	}
	if len(ids) == 0 || ids[0] == "" {
		return nil, refuseMessage(http.StatusBadRequest, id, mcp.Errorf(mcp.CodeInvalidRequest, "%s header is missing; open a session with initialize", sessionHeader))
	}
	sess, err := s.sessions.Get(ids[0], from.principal, from.profile, time.Now())
	if err != nil {
		return nil, s.refuseLookup(id, ids[0], err)
	}
	noteIdentity(sess, from.identity)
	return sess, checkVersion(r.Header, sess, id).inSession(sess)
}

// refuseLookup refuses a request for which no session was found. Whether the session
// belongs to another principal or profile is reported to the operator only: the response, and the
// work done for it, are the same.
func (s *Server) refuseLookup(id mcp.ID, sent string, err error) *refusal {
	no := refuseSession(id)
	if s.inflight.isDraining() {
		no = refuseDraining(id) // an unknown session is no longer significant
	}
	kind := UnknownSession
	if errors.Is(err, session.ErrForeign) {
		kind = ForeignSession
	}
	no.withEvent(kind, "").event.Session = scopeKey(sent)
	return no
}

// checkVersion: 2025-11-25, basic/transports, "Protocol Version Header". The header may
// be absent, as it was in 2025-03-26.
func checkVersion(h http.Header, sess *session.Session, id mcp.ID) *refusal {
	values := h.Values(versionHeader)
	if len(values) == 0 || len(values) == 1 && mcp.Version(values[0]) == sess.Client.Version {
		return nil
	}
	return refuseMessage(http.StatusBadRequest, id, mcp.Errorf(mcp.CodeInvalidRequest,
		"%s header is %s; the session uses %s", spelled(versionHeader), escape(strings.Join(values, ", ")), sess.Client.Version))
}

// errSessionEnded is the error of requests for which the session has ended.
func errSessionEnded() *mcp.Error {
	f := &mcp.Fault{Code: mcp.CodeSessionEnded, Outcome: mcp.Unknown, Message: "the session has ended"}
	return f.Wire()
}
