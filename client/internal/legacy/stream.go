// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"syscall"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxEmptyAttempts bounds the consecutive attempts to resume a stream that brought
// nothing new, neither a message nor an event id, and that the server did not ask for.
// Success does not count, only progress: a server that answers 200 and ends the stream
// at once would otherwise be asked for ever.
const maxEmptyAttempts = 5

// shortestPoll is the shortest interval that counts as polling. A server that asks for
// less and ends its streams at once is asked less and less often.
const shortestPoll = time.Second

// resumeLimiter counts consecutive attempts to resume a stream that brought nothing
// new.
type resumeLimiter struct {
	empty   int // nothing new, and the server did not ask for the attempt
	quick   int // no message, and the server did not space the attempts out
	refused int // no answer, or one that leaves open whether there is a stream
}

// exhausted reports whether to stop trying.
func (p *resumeLimiter) exhausted() bool { return p.empty >= maxEmptyAttempts }

// record counts an attempt that was answered. before and after are the stream's
// position, inOrder is set if the answer did not break, and lasted is the duration of
// the attempt. A server that has once sent a retry time lets its clients poll, for as
// long as a call or a session lasts (2025-11-25, basic/transports, "Sending Messages to
// the Server").
func (p *resumeLimiter) record(before, after *httpconn.Cursor, inOrder bool, lasted time.Duration) {
	isNew, asked := after.IDs > before.IDs, after.Retry >= 0
	p.refused = 0
	if after.Messages > before.Messages {
		*p = resumeLimiter{}
		return
	}
	p.quick++
	if (isNew || asked) && (lasted >= shortestPoll || inOrder && after.Retry >= shortestPoll) {
		p.quick = 0
	}
	p.empty++
	if isNew || asked && inOrder {
		p.empty = 0
	}
}

// delay returns how long to wait before the next attempt.
func (p *resumeLimiter) delay(pos *httpconn.Cursor) time.Duration {
	return pos.Wait(p.quick + p.refused)
}

// hasNoStream reports whether the answer to a GET means that there is no such stream.
func hasNoStream(status int, err error) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return true
	default:
		return status/100 == 2 && errors.Is(err, errNoStream)
	}
}

// isTransient reports whether a refusal means nothing about the stream that was asked
// for. A server that has not noticed the end of the last connection answers with 409.
func isTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= 500
	}
}

// resume continues the broken stream of a call, after the last event that had an id,
// until the response, or until the server has nothing to resume. A transient refusal is
// retried as long as the call lives (2025-11-25, basic/transports, "Resumability and
// Redelivery").
//
//nolint:contextcheck,nolintlint // as in exchange
func (w *httpConn) resume(ctx context.Context, c *httpconn.Call) {
	life := c.Ctx
	take := func(m *mcp.Message, bad error) bool { return w.receive(ctx, c, m, bad) }
	for limiter := (resumeLimiter{}); ; {
		if !backoff.Sleep(life, limiter.delay(&c.Pos)) {
			return
		}
		began, before := time.Now(), c.Pos
		status, err := w.get(life, &c.Pos, c, func() {}, take)
		switch {
		case c.Call.IsOver() || life.Err() != nil:
			return
		case c.Doubt != nil:
			w.checkSession(life, c)
			return
		case hasNoStream(status, err):
			w.giveUp(ctx, c, status, w.Lost(err, "the stream of its answer broke and cannot be resumed (HTTP status %d)", status))
			return
		case isTransient(status):
			limiter.refused++
			continue
		}
		limiter.record(&before, &c.Pos, err == nil, time.Since(began))
		switch {
		case status == 0 && isServerGone(err, limiter.empty):
			w.giveUp(ctx, c, status, w.Lost(err, "the stream of its answer broke, and it cannot be reached"))
			return
		case limiter.exhausted():
			w.giveUp(ctx, c, status, w.Lost(err, "the stream of its answer broke, and %d attempts to resume it brought nothing", maxEmptyAttempts))
			return
		}
	}
}

// GiveUp ends a call after its stream could not be resumed. status is that of the last
// attempt, 0 if it got no answer.
func (w *httpConn) giveUp(ctx context.Context, c *httpconn.Call, status int, why *mcp.Fault) {
	w.Log.LogAttrs(ctx, slog.LevelWarn, "giving up on a call's response stream",
		slog.String("method", c.Call.Method()), slog.Int("status", status), slog.Any("cause", why))
	c.Fail(why)
}

// isServerGone reports whether the n-th consecutive attempt shows that the server has
// gone, and the resumable streams with it. A host that refuses the connection has gone
// at once. A host that cannot be reached may be back in a moment, when a proxy has
// restarted, and gets a second attempt.
func isServerGone(err error, n int) bool {
	f, ok := call.Unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	return ok && isUnreachable(f) && (n > 1 || errors.Is(f, syscall.ECONNREFUSED))
}

// stableAfter is how long a listening stream without any event must last to count as a
// working one.
const stableAfter = 20 * time.Second

// listen keeps the session's listening stream open until ctx ends, until the server has
// no such stream, or until the session has ended.
//
// An unreachable server, or one with a transient refusal, is asked again for as long as
// the session lives. A 404 after the stream has been open means that the server has
// forgotten the session. After a gap that cannot be replayed, every list counts as
// changed. answered is called after each answer of the server to a GET, whatever the
// answer.
func (w *httpConn) listen(ctx context.Context, answered func()) {
	defer close(w.noListen)
	pos := httpconn.Cursor{Retry: -1}
	hadStream, gap := false, false
	start := time.Now()
	open := func() {
		// The session is used without the stream after listenGrace, and its listens have
		// received no change until now.
		if gap || !hadStream && time.Since(start) >= listenGrace {
			w.session.feed.Invalidate()
		}
		gap = false
		answered()
	}
	for limiter := (resumeLimiter{}); ; {
		began, before := time.Now(), pos
		status, err := w.get(ctx, &pos, nil, open, w.takeUnsolicited)
		lasted := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return
		case hadStream && status == http.StatusNotFound, pos.LastID == "" && w.isSessionRefused(ctx, status):
			w.endSession(err)
			return
		case status == http.StatusBadRequest && pos.LastID != "":
			// The server does not know the event any more, but may have the stream.
			pos.LastID = ""
		case hasNoStream(status, err):
			w.logNoListen(ctx, hadStream, status)
			return
		}
		if status != 0 {
			answered() // with a transient error
		}
		if status == 0 || isTransient(status) {
			hadStream = true // the stream may have existed before
			limiter.refused++
		} else {
			hadStream = hadStream || status/100 == 2
			limiter.record(&before, &pos, err == nil, lasted)
		}
		if status/100 == 2 && (lasted >= stableAfter || lasted >= shortestPoll && pos.Retry >= 0) {
			limiter.empty, limiter.quick = 0, 0
		}
		if limiter.exhausted() {
			w.logNoListen(ctx, true, status)
			return
		}
		// With an event id the server replays what was missed. Without one, what was
		// missed is unknown.
		gap = gap || hadStream && pos.LastID == ""
		if !backoff.Sleep(ctx, limiter.delay(&pos)) {
			return
		}
	}
}

// logNoListen logs that the listening stream is not opened again. A server that never
// had the stream is no reason to warn.
func (w *httpConn) logNoListen(ctx context.Context, hadStream bool, status int) {
	if hadStream {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "giving up on the backend's GET stream", slog.Int("status", status))
		return
	}
	w.Log.LogAttrs(ctx, slog.LevelDebug, "backend has no GET stream", slog.Int("status", status))
}

// isSessionRefused reports whether a GET is refused because the server has forgotten
// the session: it may have restarted right after the handshake. A server without the
// stream answers with the same status, so the server is asked; otherwise a lost session
// would stay in use without a stream.
func (w *httpConn) isSessionRefused(ctx context.Context, status int) bool {
	return w.id != "" && (status == http.StatusNotFound || status == http.StatusBadRequest) && w.isForgotten(ctx)
}

// takeUnsolicited routes one message of the listening stream. An invalid one is
// dropped, because no caller waits for it.
func (w *httpConn) takeUnsolicited(m *mcp.Message, bad error) (more bool) {
	if bad == nil {
		w.session.route(m)
	}
	return true
}

// errNoStream is the error of a GET that was answered by anything other than a stream.
var errNoStream = errors.New("no stream")

// get opens a stream by GET and passes its messages to take. It resumes at pos, which
// must be the position in this very stream, because event ids of one stream mean
// nothing in another. answered is called as soon as there is a stream. get returns the
// HTTP status, 0 without an answer.
func (w *httpConn) get(ctx context.Context, pos *httpconn.Cursor, bound frame.Bound, answered func(), take httpconn.MessageFunc) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := w.headers()
	h["Accept"] = []string{"text/event-stream"}
	if pos.LastID != "" {
		h["Last-Event-Id"] = []string{pos.LastID}
	}
	resp, err := w.Fetch(ctx, http.MethodGet, h)
	if err != nil {
		return 0, err
	}
	defer httpconn.Drain(resp, cancel)
	if resp.StatusCode/100 == 2 && httpconn.MediaType(resp) != httpconn.TypeEvents {
		return resp.StatusCode, errNoStream
	}
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode, w.ReadRefusal(resp)
	}
	answered()
	return resp.StatusCode, w.Read(resp, pos, bound, httpconn.NeverForward, take)
}
