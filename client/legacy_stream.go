// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"syscall"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxMisses bounds the attempts in a row to read on that brought nothing new, no
// message and no id, and that the server did not ask for. Progress counts and not
// success: a server that answers 200 and ends at once would otherwise be asked for ever.
const maxMisses = 5

// shortestPoll is the shortest wait that counts as having clients poll. A server
// that says less and ends at once is asked less and less often.
const shortestPoll = time.Second

// resumeLimiter counts the attempts in a row to read on that brought nothing new.
type resumeLimiter struct {
	misses int // nothing new, and the server did not ask for the attempt
	hasty  int // no message, and the server did not space the attempts out
	away   int // the server could not say whether there is a stream
}

// isOver reports whether a further attempt is in vain.
func (p *resumeLimiter) isOver() bool { return p.misses >= maxMisses }

// note notes an attempt that was answered, by where the stream was before it and is
// after it, and how long it took. inOrder is an answer that did not break. A server that
// has said once when to come back has its clients poll, for as long as a call or a
// session takes (2025-11-25, basic/transports, "Sending Messages to the Server").
func (p *resumeLimiter) note(before, after *cursor, inOrder bool, lasted time.Duration) {
	isNew, asked := after.ids > before.ids, after.retry >= 0
	p.away = 0
	if after.messages > before.messages {
		*p = resumeLimiter{}
		return
	}
	p.hasty++
	if (isNew || asked) && (lasted >= shortestPoll || inOrder && after.retry >= shortestPoll) {
		p.hasty = 0
	}
	p.misses++
	if isNew || asked && inOrder {
		p.misses = 0
	}
}

// wait returns how long to wait before the next attempt.
func (p *resumeLimiter) wait(pos *cursor) time.Duration { return pos.wait(p.hasty + p.away) }

// hasNoStream reports whether the answer to a GET says that there is no such stream.
func hasNoStream(status int, err error) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return true
	default:
		return status/100 == 2 && errors.Is(err, errNoStream)
	}
}

// mayPass reports whether a refusal says nothing about the stream that was asked for. A
// server that has not noticed the end of the last connection answers with 409.
func mayPass(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= 500
	}
}

// resume reads on in the stream of a call that broke off, from the last event that had
// an id, until the response, or until the server says that there is nothing to read. A
// refusal that may pass is repeated for as long as the call lives
// (2025-11-25, basic/transports, "Resumability and Redelivery").
//
//nolint:contextcheck,nolintlint // as in follow
func (w *legacyHTTP) resume(ctx context.Context, c *httpCall) {
	life := &c.life
	take := func(m *mcp.Message, bad error) bool { return w.take(ctx, c, m, bad) }
	for patience := (resumeLimiter{}); ; {
		if !pause(life, patience.wait(&c.pos)) {
			return
		}
		began, before := time.Now(), c.pos
		status, err := w.get(life, &c.pos, c, func() {}, take)
		switch {
		case c.call.IsOver() || life.Err() != nil:
			return
		case c.doubt != nil:
			w.resolve(life, c)
			return
		case hasNoStream(status, err):
			w.giveUp(ctx, c, status, w.lost(err, "the stream of its answer broke and cannot be resumed (HTTP status %d)", status))
			return
		case mayPass(status):
			patience.away++
			continue
		}
		patience.note(&before, &c.pos, err == nil, time.Since(began))
		switch {
		case status == 0 && isGone(err, patience.misses):
			w.giveUp(ctx, c, status, w.lost(err, "the stream of its answer broke, and it cannot be reached"))
			return
		case patience.isOver():
			w.giveUp(ctx, c, status, w.lost(err, "the stream of its answer broke, and %d attempts to resume it brought nothing", maxMisses))
			return
		}
	}
}

// giveUp ends a call whose stream cannot be resumed. status is that of the last
// attempt, 0 where there was none.
func (w *legacyHTTP) giveUp(ctx context.Context, c *httpCall, status int, why *mcp.Fault) {
	w.log.LogAttrs(ctx, slog.LevelWarn, "giving up on the stream of a call's answer",
		slog.String("method", c.call.Method()), slog.Int("status", status), slog.Any("cause", why))
	c.fail(why)
}

// isGone reports whether the n-th attempt in a row shows that a server has gone, and
// with it what could be resumed. A host that refuses the connection says so, and whoever
// calls is to know at once. One that cannot be reached may be so for a moment, while
// something in between restarts, and is tried twice.
func isGone(err error, n int) bool {
	f, ok := unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	return ok && isUnreachable(f) && (n > 1 || errors.Is(f, syscall.ECONNREFUSED))
}

// liveAfter is how long a listening stream without any event has to last to
// count as one that works.
const liveAfter = 20 * time.Second

// listen keeps the session's listening stream open. A server need not have one;
// but one that cannot be reached, or refuses it for now, has not said so, and is asked
// for as long as the session lives. If it has forgotten the session by then, that is
// what has ended, and not the stream. After a gap that could not be read, every list may
// have changed. answered is called when the server has said yes or no to it, each time.
func (w *legacyHTTP) listen(ctx context.Context, answered func()) {
	defer close(w.noListen)
	pos := cursor{retry: -1}
	heard, gap := false, false
	start := time.Now()
	open := func() {
		// Who listens has not waited for the stream for longer, and was told nothing of
		// what has changed until now.
		if gap || !heard && time.Since(start) >= listenGrace {
			w.s.feed.invalidate()
		}
		gap = false
		answered()
	}
	for patience := (resumeLimiter{}); ; {
		began, before := time.Now(), pos
		status, err := w.get(ctx, &pos, nil, open, w.takeUnsolicited)
		lasted := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return
		case heard && status == http.StatusNotFound, pos.lastID == "" && w.isOfSession(ctx, status):
			w.noteGone(err)
			return
		case status == http.StatusBadRequest && pos.lastID != "":
			// It knows the event no more, and may well have the stream.
			pos.lastID = ""
		case hasNoStream(status, err):
			w.noteDeaf(ctx, heard, status)
			return
		}
		if status != 0 {
			answered() // with an error that may pass
		}
		if status == 0 || mayPass(status) {
			heard = true // or would have been; nobody knows any more
			patience.away++
		} else {
			heard = heard || status/100 == 2
			patience.note(&before, &pos, err == nil, lasted)
		}
		if status/100 == 2 && (lasted >= liveAfter || lasted >= shortestPoll && pos.retry >= 0) {
			patience.misses, patience.hasty = 0, 0
		}
		if patience.isOver() {
			w.noteDeaf(ctx, true, status)
			return
		}
		// With an id the server sends what we missed. Without one it cannot, and
		// nobody knows what there was.
		gap = gap || heard && pos.lastID == ""
		if !pause(ctx, patience.wait(&pos)) {
			return
		}
	}
}

// noteDeaf logs that the listening stream is not opened again. That a server has none is
// its right, and is no news.
func (w *legacyHTTP) noteDeaf(ctx context.Context, heard bool, status int) {
	if heard {
		w.log.LogAttrs(ctx, slog.LevelWarn, "giving up on the backend's GET stream", slog.Int("status", status))
		return
	}
	w.log.LogAttrs(ctx, slog.LevelDebug, "backend has no GET stream", slog.Int("status", status))
}

// isOfSession reports whether a server that refuses the stream, as one does that has
// none, does so because it has forgotten the session: one that was started again
// right after the handshake. A session without a stream would be noListenStream for as long as
// it lives, so that the server is asked.
func (w *legacyHTTP) isOfSession(ctx context.Context, status int) bool {
	return w.id != "" && (status == http.StatusNotFound || status == http.StatusBadRequest) && w.forgotten(ctx)
}

// takeUnsolicited hands on one message of the listening stream. What is no message there
// belongs to nobody who could be told.
func (w *legacyHTTP) takeUnsolicited(m *mcp.Message, bad error) (more bool) {
	if bad == nil {
		w.s.route(m)
	}
	return true
}

// errNoStream says that a GET was answered by something else than a stream.
var errNoStream = errors.New("no stream")

// get opens a stream by GET, from pos on: the position of this very stream, because
// the ids of one stream mean nothing in another. It gives the messages to take and
// returns the status, 0 where there was none. answered is called as soon as there
// is a stream.
func (w *legacyHTTP) get(ctx context.Context, pos *cursor, bound frame.Bound, answered func(), take messageFunc) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := w.headers()
	h["Accept"] = []string{"text/event-stream"}
	if pos.lastID != "" {
		h["Last-Event-Id"] = []string{pos.lastID}
	}
	resp, err := w.fetch(ctx, http.MethodGet, h)
	if err != nil {
		return 0, err
	}
	defer drain(resp, cancel)
	if resp.StatusCode/100 == 2 && mediaType(resp) != typeEvents {
		return resp.StatusCode, errNoStream
	}
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode, w.readRefusal(resp)
	}
	answered()
	return resp.StatusCode, w.read(resp, pos, bound, neverForward, take)
}

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
