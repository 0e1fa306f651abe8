// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyGet serves the standalone stream of a session. A second GET takes over from the
// first; one that is stuck counts until its write has failed. While the stream is open,
// an inner subscriptions/listen provides the changes of the client's view. A GET with an
// event id resumes the stream of that event, whichever it is.
func (s *Server) legacyGet(p *response, r *http.Request, from sender) *refusal {
	if no := s.checkAcceptStream(r); no != nil {
		return no
	}
	sess, no := s.legacySession(r, from, mcp.ID{})
	if no != nil {
		return no
	}
	last := r.Header.Values(lastEventHeader)
	if len(last) == 0 {
		return s.legacyStandalone(p, r, sess, from.identity, "", sess.Standalone().TryAttach)
	}
	sent := strings.Join(last, ", ")
	id, ok := session.ParseEventID(sent)
	if !ok {
		return s.refuseResume(sess, sent, session.ErrUnknownEvent)
	}
	if !sess.IsStandalone(id) {
		return s.legacyResume(p, r, sess, sent, id)
	}
	return s.legacyStandalone(p, r, sess, from.identity, sent, func(wake chan struct{}) (*session.Consumer, error) {
		return sess.Resume(id, wake, time.Now())
	})
}

// legacyStandalone serves the standalone stream. sent is the event after which it is
// resumed, or "". The stream ends when the credentials of its sender do; the session goes on
// with new ones.
func (s *Server) legacyStandalone(p *response, r *http.Request, sess *session.Session, identity *mcp.Identity, sent string, attach func(chan struct{}) (*session.Consumer, error)) *refusal {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	entry := &inflight{kind: kindStandalone, stop: cancel}
	if !s.inflight.add(entry) {
		return refuseDraining(mcp.ID{})
	}
	defer s.inflight.remove(entry)
	c, err := attach(make(chan struct{}, 1))
	if err != nil {
		return s.refuseResume(sess, sent, err)
	}
	defer c.Detach()
	changes := s.startListen(ctx, sess, identity, s.missedBefore(c, sent), c, nil)
	if changes == nil {
		return refuseDraining(mcp.ID{})
	}
	defer changes.end()
	defer cancel(nil)
	defer stopTimer(atExpiry(identity, func() { entry.tearDown(errExpired) }))
	p.beginStream()
	s.writeStream(p, sess, c, ctx.Done())
	if entry.tornDown.Load() {
		// (2025-11-25, basic/transports, "Sending Messages to the Server")
		p.write(frame.AppendRetry(nil, reconnectSoon()))
	}
	return nil
}

// legacyResume answers a GET with the id of the last event that the client has received.
// It is not counted as in flight: the request that it continues is, or has ended; so a
// client that loses its connection while the server drains still gets its answer.
func (s *Server) legacyResume(p *response, r *http.Request, sess *session.Session, sent string, id session.EventID) *refusal {
	c, err := sess.Resume(id, make(chan struct{}, 1), time.Now())
	if gone, ok := errors.AsType[*session.GoneError](err); ok && !gone.Request.IsZero() {
		p.beginStream()
		p.writeEvent(&session.Message{Head: jsonrpc.AppendError(nil, gone.Request, s.goneFault(gone).Wire())})
		return nil
	}
	if err != nil {
		return s.refuseResume(sess, sent, err)
	}
	defer s.retain(sess)
	defer c.Detach()
	if c.IsSpent() {
		// A client that gets a stream without events reconnects for ever (M063, M066), so
		// it gets a 400.
		return refuse(http.StatusBadRequest, "nothing follows event id %s; its stream has ended", escape(sent)).inSession(sess)
	}
	p.beginStream()
	p.aborted = !isInOrder(s.writeStream(p, sess, c, r.Context().Done()))
	return nil
}

// refuseResume returns the refusal of a GET with an event id. A new stream instead would
// hide that messages are missing.
func (s *Server) refuseResume(sess *session.Session, sent string, err error) *refusal {
	switch {
	case errors.Is(err, session.ErrEnded):
		return refuseSession(mcp.ID{}).inSession(sess)
	case errors.Is(err, session.ErrTooMany):
		return refuseTooMany(mcp.ID{}, s.cfg.Limits.StreamsPerSession, "responses for one stream of a session", "streamsPerSession").inSession(sess)
	default:
		return refuse(http.StatusBadRequest, "unknown event id %s; open a stream without Last-Event-ID", escape(sent)).withEvent(UnknownEventID, sent).inSession(sess)
	}
}

// goneFault is the error of a request with messages that are no longer retained. It names
// the limit that was exceeded.
func (s *Server) goneFault(gone *session.GoneError) *mcp.Fault {
	f := &mcp.Fault{Code: mcp.CodeLimit, Outcome: mcp.Unknown}
	if gone.Ended {
		f.Outcome = mcp.Completed
	}
	limit := "eventLog " + bytesText(s.cfg.Limits.EventLog)
	switch {
	case gone.Expired:
		limit = "eventRetention " + s.cfg.Limits.EventRetention.String()
	case gone.SharedLimit:
		limit = "eventLogTotal " + bytesText(s.cfg.Limits.EventLogs)
	}
	f.Message = "result no longer available (limits." + limit + ")"
	return f
}
