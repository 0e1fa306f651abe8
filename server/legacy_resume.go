// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http"
	"strings"
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

// writeStream writes a stream of a session to a response, so that the client can resume
// it if its revision allows that, and returns how it ended. It does not detach.
func (s *Server) writeStream(p *response, sess *session.Session, c *session.Consumer, gone <-chan struct{}) session.State {
	opts := streamOptions{keepAlive: s.cfg.KeepAlive, gone: gone}
	if !canResume(sess.Client.Version) {
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

// Poll implements [mcp.CallerExtension]: over HTTP, for a revision with clients that
// reconnect.
func (c *requestCaller) Poll(retry time.Duration) bool {
	sess := c.request.sess
	return sess != nil && canPoll(sess.Client.Version) && !c.server.isEnding() && c.stream.Pause(retry)
}

// legacyResume answers a GET with the ids of the last events that the client has
// received. It is not counted as in flight: the request that it continues is, or has
// ended; so a client that loses its connection while the server drains still gets its
// answer.
func (s *Server) legacyResume(p *response, r *http.Request, sess *session.Session, sent string, ids []session.EventID) *refusal {
	for _, id := range ids { // before any is resumed, so that a refusal detaches no other consumer
		if err := sess.CanResume(id, time.Now()); !isAnswerable(err) {
			return s.refuseResume(sess, sent, err)
		}
	}
	b := newBatchStream()
	defer func() {
		b.detach()
		s.retain(sess)
	}()
	for _, id := range ids {
		c, err := sess.Resume(id, b.wake, time.Now())
		gone, isGone := errors.AsType[*session.GoneError](err)
		switch {
		case err == nil:
			b.addConsumer(c)
		case isGone && !gone.Request.IsZero():
			b.addMessage(session.Message{Head: mcp.AppendError(nil, gone.Request, s.goneFault(gone).Wire())})
		default:
			return s.refuseResume(sess, sent, err)
		}
	}
	if b.isSpent() {
		// 400 and not a stream without events: a client that took such a stream for a
		// success would reconnect for ever (M063, M066).
		return refuse(http.StatusBadRequest, "nothing follows event id %s; its stream has ended", escape(sent)).inSession(sess)
	}
	p.beginStream()
	if len(b.members) == 1 && len(b.ready) == 0 {
		p.aborted = !isInOrder(s.writeStream(p, sess, b.members[0].consumer, r.Context().Done()))
		return nil
	}
	b.write(p, s.cfg.KeepAlive, r.Context().Done())
	return nil
}

// isAnswerable reports whether a client that resumes can be answered: with the rest, or
// with an error for what is no longer retained.
func isAnswerable(err error) bool {
	gone, ok := errors.AsType[*session.GoneError](err)
	return err == nil || ok && !gone.Request.IsZero()
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

// refuseResume returns the refusal of a GET with event ids. A new stream instead would
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

// eventSeparator separates the ids of the streams of a batch, which share one response.
// The last event id then contains the position in each of them.
const eventSeparator = "."

// parseEvents parses a Last-Event-ID. It may name as many streams as a batch may have
// messages, each once.
func (s *Server) parseEvents(text string) ([]session.EventID, bool) {
	parts := strings.SplitN(text, eventSeparator, s.cfg.Limits.Batch+1)
	if len(parts) > s.cfg.Limits.Batch {
		return nil, false
	}
	ids := make([]session.EventID, len(parts))
	seen := make(map[uint64]bool, len(parts))
	for i, part := range parts {
		id, ok := session.ParseEventID(part)
		if !ok || seen[id.Stream] {
			return nil, false
		}
		ids[i], seen[id.Stream] = id, true
	}
	return ids, true
}

// joinEventIDs returns the ids as one.
func joinEventIDs(ids []session.EventID) string {
	var text []byte
	for i, id := range ids {
		if i > 0 {
			text = append(text, eventSeparator...)
		}
		text = id.AppendTo(text)
	}
	return string(text)
}
