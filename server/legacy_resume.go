// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// canResume reports whether a revision has event ids (2025-03-26, basic/transports,
// "Resumability and Redelivery").
func canResume(v mcp.Version) bool { return v.Era() == mcp.EraLegacy && v >= mcp.V20250326 }

// canPoll reports whether a client of the revision reconnects when a stream ends before
// its answer. Only 2025-11-25 specifies this, and only its streams begin with an event of
// empty data: a client of an older revision parses that as a message, and fails
// (2025-11-25, basic/transports, "Sending Messages to the Server").
func canPoll(v mcp.Version) bool { return v.Era() == mcp.EraLegacy && v >= mcp.V20251125 }

// streamOptions configure how a stream is written to a response.
type streamOptions struct {
	keepAlive time.Duration
	gone      <-chan struct{} // closed when the client disconnects, or the stream must end
	maxLife   time.Duration   // of the response; zero is no limit
	onWrite   func()          // called after messages were written, unless nil
}

// writeStream writes a stream to a response, so that the client can resume it if it has a
// session and its revision allows that, and returns how it ended. It does not detach.
func (s *Server) writeStream(p *response, sess *session.Session, c *session.Consumer, gone <-chan struct{}) session.State {
	opts := streamOptions{keepAlive: s.cfg.KeepAlive, gone: gone}
	if sess == nil || !canResume(sess.Client.Version) {
		return p.writeStream(c, opts)
	}
	c.MakeResumable()
	s.kept.track(sess)
	opts.onWrite = s.shedIfFull
	if canPoll(sess.Client.Version) && !c.IsSpent() {
		p.writePriming(c.Prime())
		opts.maxLife = s.cfg.StreamLife
	}
	state := p.writeStream(c, opts)
	if state == session.Paused {
		p.write(frame.AppendRetry(nil, s.reconnectDelay(c)))
	}
	return state
}

// reconnectDelay is the delay after which a client must reconnect: as the Handler has
// requested, or short and random, so that clients do not reconnect all at once.
func (s *Server) reconnectDelay(c *session.Consumer) time.Duration {
	if retry := c.Retry(); retry > 0 {
		return retry
	}
	return reconnectAfter + jitter(reconnectAfter)
}

// isEnding reports whether a client that reconnects may reach another process: then it
// must not be asked to.
func (s *Server) isEnding() bool { return s.quiet.Load() || s.inflight.isDraining() }

// Poll implements [mcp.Poller]: over HTTP, for a revision with clients that reconnect.
func (c *requestCaller) Poll(retry time.Duration) bool {
	sess := c.request.sess
	return sess != nil && canPoll(sess.Client.Version) && !c.server.isEnding() && c.stream.Pause(retry)
}

// legacyResume answers a GET with the id of the last event that the client has received.
// It is not counted as in flight: the request that it continues is, or has ended; so a
// client that loses its connection while the server drains still gets its answer.
func (s *Server) legacyResume(p *response, r *http.Request, sess *session.Session, sent string, id session.EventID) *refusal {
	c, err := sess.Resume(id, make(chan struct{}, 1), time.Now())
	if gone, ok := errors.AsType[*session.GoneError](err); ok && !gone.Request.IsZero() {
		p.beginStream()
		p.writeEvent(&session.Message{Head: mcp.AppendError(nil, gone.Request, s.goneFault(gone).Wire())})
		return nil
	}
	if err != nil {
		return s.refuseResume(sess, sent, err)
	}
	defer s.retain(sess)
	defer c.Detach()
	if c.IsSpent() {
		// 400 and not a stream without events: a client that took such a stream for a
		// success would reconnect for ever (M063, M066).
		return refuse(http.StatusBadRequest, "nothing follows event id %s; its stream has ended", escape(sent)).inSession(sess)
	}
	p.beginStream()
	p.aborted = !isInOrder(s.writeStream(p, sess, c, r.Context().Done()))
	return nil
}

// isInOrder reports whether a response ended in the intended way: with the last message,
// or with a time to reconnect.
func isInOrder(state session.State) bool { return state == session.Ended || state == session.Paused }

// goneFault is the error of a request with messages that are no longer retained. It names
// the limit that was exceeded.
func (s *Server) goneFault(gone *session.GoneError) *mcp.Fault {
	f := &mcp.Fault{Code: mcp.CodeLimit, Outcome: mcp.Unknown}
	if gone.Over {
		f.Outcome = mcp.Completed
	}
	limit := "eventLog " + bytesText(s.cfg.Limits.EventLog)
	switch {
	case gone.Aged:
		limit = "eventRetention " + s.cfg.Limits.EventRetention.String()
	case gone.Shared:
		limit = "eventLogTotal " + bytesText(s.cfg.Limits.EventLogs)
	}
	f.Message = "result no longer available (limits." + limit + ")"
	return f
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
