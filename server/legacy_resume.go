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

// canResume reports whether a revision has event ids (2025-03-26,
// basic/transports, "Resumability and Redelivery").
func canResume(v mcp.Version) bool { return v.Era() == mcp.EraLegacy && v >= mcp.V20250326 }

// canPoll reports whether a client of the revision comes back when a stream ends
// before its answer. Only 2025-11-25 says so, and only there a stream begins with
// an event of empty data: a client of an older revision parses that as a message,
// and fails (2025-11-25, basic/transports, "Sending Messages to the Server").
func canPoll(v mcp.Version) bool { return v.Era() == mcp.EraLegacy && v >= mcp.V20251125 }

// ride is how one carrier writes on one response.
type streamOptions struct {
	keepAlive time.Duration
	gone      <-chan struct{} // closed when the client is, or the stream is to end
	maxLife   time.Duration   // of the response; zero is no end
	onWrite   func()          // called after each write of messages, unless nil
}

// carry writes a session's stream on a response, in a way that the client can come
// back where its revision has that, and returns how it ended. It does not detach.
func (s *Server) writeStream(p *response, sess *session.Session, c *session.Consumer, gone <-chan struct{}) session.State {
	ride := streamOptions{keepAlive: s.cfg.KeepAlive, gone: gone}
	if !canResume(sess.Client.Version) {
		return p.writeStream(c, ride)
	}
	c.MakeResumable()
	s.kept.track(sess)
	ride.onWrite = s.shedIfFull
	if canPoll(sess.Client.Version) && !c.IsSpent() {
		p.writePriming(c.Prime())
		ride.maxLife = s.cfg.StreamLife
	}
	state := p.writeStream(c, ride)
	if state == session.Paused {
		p.write(frame.AppendRetry(nil, s.reconnectDelay(c)))
	}
	return state
}

// comeBack is when a client is told to come back for the rest: when its Handler
// says, or else soon, but not all at once.
func (s *Server) reconnectDelay(c *session.Consumer) time.Duration {
	if retry := c.Retry(); retry > 0 {
		return retry
	}
	return reconnectAfter + jitter(reconnectAfter)
}

// isEnding reports whether a client that comes back may find another process:
// then it has no reason to go.
func (s *Server) isEnding() bool { return s.quiet.Load() || s.inflight.isDraining() }

// Poll implements [mcp.Poller]: over HTTP, for a revision whose clients come back.
func (c *requestCaller) Poll(retry time.Duration) bool {
	sess := c.request.sess
	return sess != nil && canPoll(sess.Client.Version) && !c.server.isEnding() && c.stream.Pause(retry)
}

// legacyResume answers a GET that names the events after which its client has seen
// nothing. It needs no flight: what it carries has one, or has ended; so that a
// client which loses its connection while the server drains still gets its answer.
func (s *Server) legacyResume(p *response, r *http.Request, sess *session.Session, sent string, ids []session.EventID) *refusal {
	for _, id := range ids { // before any, so that a refusal takes no stream from anybody
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
		// 400 and not a stream without events: a client that took that for a success
		// would come back for ever (M063, M066).
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

// isAnswerable reports whether there is something to say to whoever comes back: the
// rest, or that it is gone.
func isAnswerable(err error) bool {
	gone, ok := errors.AsType[*session.GoneError](err)
	return err == nil || ok && !gone.Request.IsZero()
}

// isInOrder reports whether a response ended as its client is to see it: with the
// last message, or with the time to come back.
func isInOrder(state session.State) bool { return state == session.Ended || state == session.Paused }

// goneFault is the last word to a request whose answer, or what came before it, is
// not kept any more. It names the key that would have kept it.
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

// refuseResume returns the refusal of a GET with event ids. A stream that begins
// anew instead would hide that something is missing.
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

// eventSeparator stands between the ids of several streams on one response: those
// of a batch. The last id that a client has seen is then where it stands on each.
const eventSeparator = "."

// parseEvents reads a Last-Event-ID of ours. It may name as many streams as a
// batch has messages, each once.
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

// spell returns ids as one.
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
