// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxMisses bounds the attempts in a row to read on that brought nothing new, no
// message and no id. Progress counts and not success: a server that answers 200 and
// ends at once would otherwise be asked for ever.
const maxMisses = 5

// maxPolls bounds the attempts in a row to read on in a call's stream that brought
// nothing and that the server had asked for. A server that has its clients poll may
// do so for as long as a call takes, and that has bounds of its own; this one is for
// those who have none (2025-11-25, basic/transports, "Sending Messages to the Server").
const maxPolls = 1000

// shortestPoll is the shortest wait that counts as having clients poll. A server
// that says less and ends at once is broken, whatever it says.
const shortestPoll = time.Second

// patience counts the attempts in a row to read on that brought nothing new. hasty
// are those that brought no message and that the server did not space out: an id alone
// keeps the hope up, and is no reason to be in a hurry.
type patience struct{ misses, polls, hasty int }

// isOver reports whether a further attempt is in vain.
func (p *patience) isOver() bool { return p.misses >= maxMisses || p.polls >= maxPolls }

// note notes an attempt by where the stream was before it and is after it, and how
// long it took. inOrder is an answer that did not break.
func (p *patience) note(before, after *position, inOrder bool, lasted time.Duration) {
	isNew, asked := after.ids > before.ids, after.asked > before.asked
	if after.messages > before.messages {
		*p = patience{}
		return
	}
	p.hasty++
	if (isNew || asked) && (lasted >= shortestPoll || inOrder && after.retry >= shortestPoll) {
		p.hasty = 0
	}
	switch {
	case isNew:
		p.misses, p.polls = 0, 0
	case inOrder && asked && after.retry >= shortestPoll:
		p.polls++
	default:
		p.misses++
	}
}

// resume reads on in the stream of a call that broke off, from the last event
// that had an id, until the response, or until there is no hope
// (2025-11-25, basic/transports, "Resumability and Redelivery").
//
//nolint:contextcheck,nolintlint // as in follow
func (w *legacyHTTP) resume(ctx context.Context, c *carrier) {
	life := &c.life
	take := func(m *mcp.Message, bad error) bool { return w.take(ctx, c, m, bad) }
	for patience := (patience{}); !patience.isOver(); {
		if !pause(life, c.pos.wait(patience.hasty)) {
			return
		}
		began, before := time.Now(), c.pos
		status, err := w.get(life, &c.pos, func() {}, take)
		switch {
		case c.call.IsOver() || life.Err() != nil:
			return
		case c.doubt != nil:
			w.resolve(life, c)
			return
		// No hope: the server has understood what was asked, and has no such stream.
		// 5xx, 429 and a connection that breaks may pass.
		case status/100 == 4 && status != http.StatusTooManyRequests, status/100 == 2 && errors.Is(err, errNoStream):
			c.fail(w.lost(err, "the stream of its answer broke and cannot be resumed (HTTP status %d)", status))
			return
		}
		patience.note(&before, &c.pos, err == nil, time.Since(began))
		if status == 0 && isGone(err, patience.misses) {
			c.fail(w.lost(err, "the stream of its answer broke, and it cannot be reached"))
			return
		}
	}
	c.fail(w.lost(nil, "the stream of its answer broke, and %d attempts to resume it brought nothing", maxMisses))
}

// isGone reports whether the n-th attempt in a row shows that a server has gone, and
// with it what could be resumed. A host that refuses the connection says so, and whoever
// calls is to know at once. One that cannot be reached may be so for a moment, while
// something in between restarts, and is tried twice.
func isGone(err error, n int) bool {
	f, ok := plain(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	return ok && isUnreachable(f) && (n > 1 || errors.Is(f, syscall.ECONNREFUSED))
}

// liveAfter is how long a listening stream without any event has to last to
// count as one that works.
const liveAfter = 20 * time.Second

// listen keeps the session's listening stream open. A server need not have one;
// but one that cannot be reached has not said so, and is asked until it can be. If
// it has forgotten the session by then, that is what has ended, and not the stream.
// After a gap that could not be read, every list may have changed. answered is
// called when the server has said yes or no to it, each time.
func (w *legacyHTTP) listen(ctx context.Context, answered func()) {
	defer close(w.deaf)
	pos := position{retry: -1}
	heard, away := false, 0
	start := time.Now()
	open := func() {
		// Who listens has not waited for the stream for longer, and was told nothing of
		// what has changed until now.
		if !heard && time.Since(start) >= listenGrace {
			w.s.feed.invalidate()
		}
		answered()
	}
	for patience := (patience{}); !patience.isOver(); {
		began, before := time.Now(), pos
		status, err := w.get(ctx, &pos, open, w.takeStray)
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
		case status/100 == 4 && status != http.StatusTooManyRequests, status/100 == 2 && errors.Is(err, errNoStream):
			return // no listening stream, which is the server's right
		}
		if status != 0 {
			answered() // with an error that may pass
		}
		heard = heard || status/100 == 2
		if isAway(status, err) {
			heard = true // or would have been; nobody knows any more
			away++
		} else {
			patience.note(&before, &pos, err == nil, lasted)
			away = 0
		}
		patience.polls = 0 // a session may have its client poll for all of its life
		if status/100 == 2 && (lasted >= liveAfter || lasted >= shortestPoll && pos.asked > before.asked) {
			patience.misses, patience.hasty = 0, 0
		}
		if !pause(ctx, pos.wait(patience.hasty+away)) {
			return
		}
		// With an id the server sends what we missed. Without one it cannot, and
		// nobody knows what there was.
		if pos.lastID == "" && heard {
			w.s.feed.invalidate()
		}
	}
	w.log.WarnContext(ctx, "backend's listening stream ends again and again; no longer opened")
}

// isOfSession reports whether a server that refuses the stream, as one does that has
// none, does so because it has forgotten the session: one that was started again
// right after the handshake. A session without a stream would be deaf for as long as
// it lives, so that the server is asked.
func (w *legacyHTTP) isOfSession(ctx context.Context, status int) bool {
	return w.id != "" && (status == http.StatusNotFound || status == http.StatusBadRequest) && w.forgotten(ctx)
}

// isAway reports whether a server did not say anything of what it was asked, but
// that it is not there now: nobody took the connection, or it is about to end.
func isAway(status int, err error) bool {
	f, ok := plain(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	return status == http.StatusServiceUnavailable || ok && status == 0 && isUnreachable(f)
}

// takeStray hands on one message of the listening stream. What is no message there
// belongs to nobody who could be told.
func (w *legacyHTTP) takeStray(m *mcp.Message, bad error) (more bool) {
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
func (w *legacyHTTP) get(ctx context.Context, pos *position, answered func(), take taker) (int, error) {
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
	return resp.StatusCode, w.read(resp, pos, passNothing, take)
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
