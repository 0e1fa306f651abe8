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

// The bounds of a resumeLimiter; its comment describes their use.
const (
	maxEmptyAttempts = 5
	shortestPoll     = time.Second
	stableAfter      = 20 * time.Second
)

// resumeLimiter limits the consecutive attempts to resume a stream. Its rules:
//
//   - A message resets the wait and the count of attempts. A successful status does not: a
//     server that answers 200 and ends the stream at once would be asked for ever.
//   - The wait is the retry time that the server has sent, otherwise a default. It is
//     doubled with each refusal that may pass, and with each stream that brought no
//     message, unless the server spaces the attempts out itself, by shortestPoll at least.
//     So a server that asks for less and ends its streams at once is asked less and less
//     often.
//   - After maxEmptyAttempts that brought nothing new, neither a message nor an event id,
//     and that the server did not ask for, it is not asked again. A server that has once
//     sent a retry time asks with each stream that it ends in order: it lets its clients
//     poll, for as long as a call or a session lasts (2025-11-25, basic/transports,
//     "Sending Messages to the Server"). A refusal that may pass is not counted.
//   - The session's own stream is opened again for as long as the session lives, if the
//     server cannot be reached, or if the last stream lasted: stableAfter, or shortestPoll
//     if the server has sent a retry time.
type resumeLimiter struct {
	listening bool // the stream is the session's own, not that of a call

	empty   int // nothing new, and the server did not ask for the attempt
	quick   int // no message, and the server did not space the attempts out
	refused int // no answer, or one that leaves open whether there is a stream
}

// attempt is the outcome of one GET of a stream.
type attempt struct {
	status        int             // of the answer, 0 without one
	err           error           // nil if the stream ended in order
	before, after httpconn.Cursor // the position in the stream
	lasted        time.Duration
}

// record counts an attempt.
func (p *resumeLimiter) record(a *attempt) {
	isNew, asked := a.after.IDs > a.before.IDs, a.after.Retry >= 0
	inOrder := a.err == nil
	switch {
	case isTransient(a.status), a.status == 0 && p.listening:
		p.refused++
		return
	case a.after.Messages > a.before.Messages,
		p.listening && a.status/100 == 2 && (a.lasted >= stableAfter || a.lasted >= shortestPoll && asked):
		p.empty, p.quick, p.refused = 0, 0, 0
		return
	}
	p.refused = 0
	p.quick++
	if (isNew || asked) && (a.lasted >= shortestPoll || inOrder && a.after.Retry >= shortestPoll) {
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

// exhausted reports whether to stop trying.
func (p *resumeLimiter) exhausted() bool { return p.empty >= maxEmptyAttempts }

// hasNoStream reports whether the answer means that there is no such stream.
func (a *attempt) hasNoStream() bool {
	switch a.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return true
	default:
		return a.status/100 == 2 && errors.Is(a.err, errNoStream)
	}
}

// isTransient reports whether a status may change with another attempt, and so does not
// mean that the server lacks the stream. A server that has not noticed the end of the last
// connection answers with 409.
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
func (w *httpConn) resume(ctx context.Context, c *httpCall) {
	life := c.ctx
	take := func(m *mcp.Message, bad error) bool { return w.receive(ctx, c, m, bad) }
	var limiter resumeLimiter
	for backoff.Sleep(life, limiter.delay(&c.pos)) {
		a := w.get(life, w.session.about(&c.outbound), &c.pos, c, func() {}, take)
		switch {
		case c.call.IsOver() || life.Err() != nil:
			return
		case c.doubt != nil:
			w.checkSession(life, c)
			return
		case call.IsRejected(a.err, call.NoCredential):
			w.giveUp(ctx, c, a.status, w.Lost(call.Unwrap(a.err), "the stream of its answer broke, and there is no valid credential to resume it"))
			return
		case a.hasNoStream():
			w.giveUp(ctx, c, a.status, w.Lost(a.err, "the stream of its answer broke and cannot be resumed (HTTP status %d)", a.status))
			return
		}
		limiter.record(&a)
		switch {
		case a.status == 0 && isServerGone(a.err, limiter.empty):
			w.giveUp(ctx, c, a.status, w.Lost(a.err, "the stream of its answer broke, and it cannot be reached"))
			return
		case limiter.exhausted():
			w.giveUp(ctx, c, a.status, w.Lost(a.err, "the stream of its answer broke, and %d attempts to resume it brought nothing", maxEmptyAttempts))
			return
		}
	}
}

// giveUp ends a call after its stream could not be resumed. status is that of the last
// attempt, 0 if it got no answer.
func (w *httpConn) giveUp(ctx context.Context, c *httpCall, status int, why *mcp.Fault) {
	w.Log.LogAttrs(ctx, slog.LevelWarn, "giving up on a call's response stream",
		slog.String("method", c.call.Method()), slog.Int("status", status), slog.Any("cause", why))
	c.fail(why)
}

// isServerGone reports whether the n-th consecutive attempt shows that the server has
// gone, and the resumable streams with it. A host that refuses the connection has gone
// at once. A host that cannot be reached may be back in a moment, when a proxy has
// restarted, and gets a second attempt.
func isServerGone(err error, n int) bool {
	f, ok := call.Unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	return ok && isUnreachable(f) && (n > 1 || errors.Is(f, syscall.ECONNREFUSED))
}

// listen keeps the session's listening stream open until ctx ends, until the server has
// no such stream, or until the session has ended.
//
// A 404 after the stream has been open means that the server has forgotten the session.
// After a gap that cannot be replayed, every list counts as changed. answered is called
// after each response to a GET, whatever its status.
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
	for limiter := (resumeLimiter{listening: true}); ; {
		a := w.get(ctx, w.session.own(call.MethodListen), &pos, nil, open, w.takeUnsolicited)
		switch {
		case ctx.Err() != nil:
			return
		case hadStream && a.status == http.StatusNotFound, pos.LastID == "" && w.isSessionRefused(ctx, a.status):
			w.endSession(a.err)
			return
		case a.status == http.StatusBadRequest && pos.LastID != "":
			// The server does not know the event any more, but may have the stream.
			pos.LastID = ""
		case a.hasNoStream():
			w.logNoListen(ctx, hadStream, a.status)
			return
		}
		if a.status != 0 {
			answered() // with a transient error
		}
		// Without an answer, or with a transient one, the stream may have existed before.
		hadStream = hadStream || a.status == 0 || isTransient(a.status) || a.status/100 == 2
		limiter.record(&a)
		if limiter.exhausted() {
			w.logNoListen(ctx, true, a.status)
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
// nothing in another. answered is called as soon as there is a stream.
func (w *httpConn) get(ctx context.Context, about *mcp.Request, pos *httpconn.Cursor, bound frame.Bound, answered func(), take httpconn.MessageFunc) attempt {
	began, a := time.Now(), attempt{before: *pos}
	a.status, a.err = w.readStream(ctx, about, pos, bound, answered, take)
	a.after, a.lasted = *pos, time.Since(began)
	return a
}

func (w *httpConn) readStream(ctx context.Context, about *mcp.Request, pos *httpconn.Cursor, bound frame.Bound, answered func(), take httpconn.MessageFunc) (status int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := w.headers()
	h["Accept"] = []string{"text/event-stream"}
	if pos.LastID != "" {
		h["Last-Event-Id"] = []string{pos.LastID}
	}
	resp, err := w.Fetch(ctx, about, http.MethodGet, h) //nolint:bodyclose // Drain closes it
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
