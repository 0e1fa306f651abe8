// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ServeStdio serves one client on a pair of pipes, both eras interleaved: each
// modern request by what it says itself, and the legacy session that an
// initialize opens. It returns nil when r has ended, after a moment for requests
// that are nearly done; otherwise the error of r or w, or why ctx or the server
// ended. A client that no longer reads has gone, whether or not it still writes:
// nothing that it began goes on then.
//
// Where it is not r that ends first, r is closed if it is an [io.Closer], and so
// is w if it takes nothing any more. A read or write that this does not end stays
// behind; for the standard streams of a process that is until the process exits.
func (s *Server) ServeStdio(ctx context.Context, r io.Reader, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fl := &flight{kind: pipe, stop: session.StopFunc(cancel)}
	if !s.flights.enter(fl) {
		return errDraining
	}
	defer s.flights.leave(fl)
	c := s.newStdio(newMux(w, cancel), "")

	written := make(chan struct{})
	go func() { // ends with mux.close or with a write that takes too long; await waits for it
		defer close(written)
		c.mux.run()
	}()
	lines, read := make(chan line), make(chan struct{})
	go func() { // ends with r, and after a line with ctx; abandon waits for it where r can be closed
		defer close(read)
		readLines(ctx, r, int(s.cfg.Limits.RequestBody), lines)
	}()

	// In this order: no request comes any more, those that came have their answers,
	// the answers are queued, and then they are written.
	err := c.loop(ctx, lines)
	if err == nil {
		c.part()
	}
	c.finish(ctx)
	c.mux.close()
	await(written, w)
	if err != nil {
		cancel(err)
		abandon(r, read)
	}
	return err
}

// newStdio returns what serves one connection of lines, for whoever is at its other
// end. The mux is the caller's to run.
func (s *Server) newStdio(out *mux, principal string) *stdio {
	c := &stdio{server: s, mux: out, principal: principal, own: session.New("", principal, &mcp.Peer{}, &s.rules), opened: make(chan opening, 1)}
	c.own.Initialized()
	c.place = s.pipes.Add(1)
	c.mux.stand(c.own.Standalone())
	return c
}

// letGo is how long a read or write is given to end whose pipe was closed. Those
// of the standard streams of a process do not end by that.
const letGo = 100 * time.Millisecond

// await waits for the writer. One that is stuck gets a moment, then its pipe is
// closed, and then it is left behind.
func await(written <-chan struct{}, w io.Writer) {
	if endsWithin(written, lastWords) {
		return
	}
	if closer, ok := w.(io.Closer); ok {
		_ = closer.Close()
		endsWithin(written, letGo)
	}
}

// abandon ends a read that nobody waits for any more.
func abandon(r io.Reader, read <-chan struct{}) {
	if closer, ok := r.(io.Closer); ok {
		_ = closer.Close()
		endsWithin(read, letGo)
	}
}

// endsWithin reports whether done is closed before the time is over.
func endsWithin(done <-chan struct{}, d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}

// line is one line of a pipe, or why there are no more.
type line struct {
	data []byte
	err  error
}

// readLines reads until the end, which it delivers as the last line, or until
// nobody takes lines any more.
func readLines(ctx context.Context, r io.Reader, limit int, lines chan<- line) {
	lr := frame.NewLineReader(r, limit)
	for {
		data, err := lr.Next()
		select {
		case lines <- line{data, err}:
			// To read from the standard input of a process is to wait in the system, with the
			// processor on which those who serve the line would run: they are let run first.
			runtime.Gosched()
		case <-ctx.Done():
			return
		}
		if _, tooLong := errors.AsType[*frame.TooLongError](err); err != nil && !tooLong {
			return
		}
	}
}

// eras is how many sets of requests in flight a pipe has.
const eras = 2

// stdio is one connection over pipes. Its fields belong to the goroutine that
// runs loop.
type stdio struct {
	server *Server
	mux    *mux
	own    *session.Session // exchanges of the modern era, and what belongs to none
	place  uint64           // tells the pipe from others, and from HTTP
	legacy *session.Session // nil before initialize is answered
	opened chan opening     // an initialize is done
	begun  *flight          // the initialize that was begun; nil where it failed
	held   []func()         // handles what came for the session before it was open
	tasks  sync.WaitGroup   // requests and the inner listen

	unlisten context.CancelFunc // ends the inner listen; nil before it
	parted   bool               // the client has closed its end

	// Of a connection over HTTP with SSE, which only the legacy era has; zero on a pipe.
	sse               bool
	principal, remote string
}

// loop handles lines until there are no more. Handlers run elsewhere: it waits
// for nothing but room to answer.
func (c *stdio) loop(ctx context.Context, lines <-chan line) error {
	for {
		select {
		case l := <-lines:
			if _, tooLong := errors.AsType[*frame.TooLongError](l.err); l.err != nil && !tooLong {
				return endOfPipe(l.err)
			}
			c.handle(ctx, l)
		case o := <-c.opened:
			c.open(ctx, o)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// endOfPipe: that a client closes its end is how a pipe ends, and no error
// (2025-11-25, basic/lifecycle, "Shutdown").
func endOfPipe(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// finish ends all that is left. Requests, those that still wait for the session
// to be open among them, are given a moment where the client has merely said
// everything; where the server is ending they had it already.
func (c *stdio) finish(ctx context.Context) {
	c.mux.tearDown(errPipeClosed)
	c.deafen()
	words := lastWords
	if c.parted {
		words = partingWords
	}
	patience, cancel := context.WithTimeout(ctx, words)
	defer cancel()
	c.awaitOpen(ctx, patience)
	c.mux.settle(patience, 0)
	if c.parted {
		c.mux.part(time.Now()) // the errors that end the rest are for nobody
	}
	c.own.End(sessionEnded())
	c.server.leave(c.server.lot.DropPlace(c.place), errPipeClosed) // nobody can come back on the pipe
	c.endLegacy()
	c.tasks.Wait()
}

// justSaid is how long before the end of its input a client may have made a request that
// is answered after it: a script writes all that it has to say, and closes.
const justSaid = 250 * time.Millisecond

// partingWords is lastWords at the end of the input: clients kill a server that lives on for
// 2 s, and backends have to end after this.
const partingWords = 1200 * time.Millisecond

// part is called at the end of the input. A client that has left is not written to: some
// fail when a message comes while they close. What it asked for long ago is cancelled.
func (c *stdio) part() {
	c.parted = true
	if c.legacy != nil {
		c.mux.drop(c.legacy.Standalone())
	}
	for _, fl := range c.mux.part(time.Now().Add(-justSaid)) {
		fl.stop.End(errPipeClosed)
	}
}

// deafen ends the inner listen, or has none begin.
func (c *stdio) deafen() {
	if c.unlisten != nil {
		c.unlisten()
	}
	c.unlisten = func() {}
}

// endLegacy ends the session of the pipe, if there is one, and what was kept for
// it.
func (c *stdio) endLegacy() {
	if c.legacy == nil {
		return
	}
	c.legacy.End(sessionEnded())
	c.server.endScope(c.legacy.Scope)
}

// say writes a message that belongs to no exchange.
func (c *stdio) say(ctx context.Context, m session.Message) {
	o := outlet{server: c.server, stream: c.own.Standalone()}
	_ = o.put(ctx, m) // fails only when everything ends
}

// fail answers with an error that belongs to no exchange. It waits for room like
// any answer, so that a client which sends rubbish and does not read is read from
// no faster than it reads.
func (c *stdio) fail(ctx context.Context, id mcp.ID, err *mcp.Error) {
	c.server.refused.Add(1)
	c.say(ctx, session.Message{Head: mcp.AppendError(nil, id, err)})
}

// refuse is fail for what may be an event.
func (c *stdio) refuse(ctx context.Context, no *refusal) {
	if no.event.Kind != "" {
		no.event.Principal, no.event.Remote = c.principal, c.remote
		c.server.observe(ctx, no.event)
	}
	c.fail(ctx, no.id, no.err)
}

// handle serves one line. What is wrong with a line is answered, and the next
// line is read: a pipe has no other message to lose (I44).
func (c *stdio) handle(ctx context.Context, l line) {
	limits := &c.server.cfg.Limits
	if long, ok := errors.AsType[*frame.TooLongError](l.err); ok {
		m, _ := mcp.Parse(long.Head, limits.message()) // for the id, if it stands in the beginning
		c.fail(ctx, m.ID, mcp.Errorf(mcp.CodeInvalidRequest, "line exceeds %s (limits.requestBody)", bytesText(limits.RequestBody)))
		return
	}
	if !mcp.IsBatch(l.data) {
		c.message(ctx, l.data)
		return
	}
	if c.isOpening() {
		c.hold(ctx, mcp.ID{}, func() { c.handle(ctx, l) })
		return
	}
	if c.legacy == nil || c.legacy.Client.Version != mcp.V20250326 {
		c.fail(ctx, mcp.ID{}, refuseBatch().err)
		return
	}
	parts, err := mcp.SplitBatch(l.data, limits.Batch, limits.message())
	if err != nil {
		c.fail(ctx, mcp.ID{}, parseError(err))
		return
	}
	for _, part := range parts {
		c.message(ctx, part)
	}
}

// message serves one message of a line, which may be one of a batch.
func (c *stdio) message(ctx context.Context, data []byte) {
	m, err := mcp.Parse(data, c.server.cfg.Limits.message())
	switch {
	case isSenselessCancel(&m, err):
		c.ignored(ctx, &m)
		return
	case err != nil:
		c.fail(ctx, m.ID, parseError(err))
		return
	}
	switch m.Kind {
	case mcp.KindRequest:
		c.request(ctx, &m)
	case mcp.KindNotification:
		c.notified(ctx, &m)
	default:
		if c.legacy == nil {
			c.server.counts.Strays.Add(1)
			c.server.observe(ctx, Event{Kind: Stray, Principal: c.principal, Remote: c.remote, Detail: m.ID.String()})
			return
		}
		c.server.legacyAnswered(ctx, c.legacy, &m, c.remote)
	}
}

// isModernLine decides the era of a request on a pipe: a request that names
// anything of the modern metadata is modern, and so are those whose methods
// legacy revisions do not have.
func isModernLine(m *mcp.Message) bool {
	return m.Params.Has(mcp.MetaVersion) || m.Params.Has(mcp.MetaClientCapabilities) ||
		m.Method == "server/discover" || m.Method == "subscriptions/listen"
}

// request serves a request. A client that asks and does not read what it is told
// waits here: where there are more streams than requests may run, some of them
// have ended and are not written yet.
func (c *stdio) request(ctx context.Context, m *mcp.Message) {
	c.mux.settle(ctx, eras*c.server.cfg.Limits.InFlightPerSession)
	// The era is looked at before the session: a modern request needs none, and must
	// not wait for one that is being opened.
	switch {
	case c.inFlight(m.ID):
		c.fail(ctx, m.ID, c.server.refuseBegin(m.ID, session.ErrDuplicate).err)
	case isModernLine(m) && !c.sse:
		c.modernRequest(ctx, m)
	case m.Method == "ping":
		c.say(ctx, pong(m.ID))
	case m.Method == "initialize" && c.begun == nil:
		c.initialize(ctx, m)
	case c.isOpening():
		c.hold(ctx, m.ID, func() { c.request(ctx, m) })
	case c.legacy == nil:
		c.fail(ctx, m.ID, mcp.Errorf(mcp.CodeInvalidRequest, "session not initialized; send initialize first, or name %q in _meta", mcp.MetaVersion.Key()))
	default:
		c.legacyRequest(ctx, m)
	}
}

// inFlight reports whether the id is taken in either era: there is one pipe, and
// the answers on it are told apart by their ids alone.
func (c *stdio) inFlight(id mcp.ID) bool {
	return c.own.InFlight(id) || c.legacy != nil && c.legacy.InFlight(id)
}

// modernRequest serves a request that says itself who sends it. Its exchange is
// one of the pipe's own session, so that ids in flight are told apart and the end
// of the pipe ends it.
func (c *stdio) modernRequest(ctx context.Context, m *mcp.Message) {
	t := new(task)
	if wireErr := t.modern(m, ""); wireErr != nil {
		c.fail(ctx, m.ID, wireErr)
		return
	}
	c.server.bound(t)
	back, stateErr := c.server.readState(&t.first)
	if stateErr != nil {
		c.refuse(ctx, c.server.refuseState(m.ID, stateErr))
		return
	}
	if back.parked != "" {
		c.modernRetry(ctx, m, &back)
		return
	}
	if err := c.server.checkPending(""); err != nil {
		c.refuse(ctx, c.server.refuseBegin(m.ID, err))
		return
	}
	ctx = t.begin(ctx, back.req, modern{})
	t.place, t.again = c.place, back.again
	x, err := c.own.Begin(m.ID, t.stop)
	if err != nil {
		t.stop.End(err)
		c.refuse(ctx, c.server.refuseBegin(m.ID, err))
		return
	}
	t.x = x
	t.caller = c.server.modernCaller(t)
	c.start(ctx, t)
}

// modernRetry has a request go on with one that is parked.
func (c *stdio) modernRetry(ctx context.Context, m *mcp.Message, back *returned) {
	_, x, no := c.server.takeOver(m, back, c.place, func(t *task) (*session.Exchange, *refusal) {
		x, err := c.own.Begin(m.ID, t.stop)
		if err != nil {
			return nil, c.server.refuseBegin(m.ID, err)
		}
		c.mux.follow(x, &t.flight)
		return x, nil
	})
	switch {
	case no == nil:
	case x == nil:
		c.refuse(ctx, no)
	default:
		c.server.observe(ctx, no.event)
		x.Finish(no.message())
	}
}

// legacyRequest serves a request of the session that the pipe has.
func (c *stdio) legacyRequest(ctx context.Context, m *mcp.Message) {
	taskCtx, t, err := c.server.legacyTask(ctx, c.legacy, m)
	if err != nil {
		c.say(ctx, c.server.taskRefusal(ctx, c.legacy, m.ID, err, c.remote))
		return
	}
	c.start(taskCtx, t)
}

// start runs a request whose answer goes on the pipe.
func (c *stdio) start(ctx context.Context, t *task) {
	c.mux.follow(t.x, &t.flight)
	t.group = &c.tasks
	if !c.server.start(ctx, t) {
		t.x.Finish(session.Message{Head: mcp.AppendError(nil, t.x.ID(), shuttingDown())})
	}
}

// notified serves a notification. A cancel is looked up in both eras: it names a
// request by its id, and ids are shared on a pipe.
func (c *stdio) notified(ctx context.Context, m *mcp.Message) {
	if m.Method == "notifications/cancelled" {
		id, err := mcp.ParseID(m.Params.Raw(mcp.FieldRequestID))
		if err == nil && c.own.Cancel(id, errCancelled) {
			return
		}
	}
	if c.isOpening() {
		c.hold(ctx, mcp.ID{}, func() { c.notified(ctx, m) })
		return
	}
	if c.legacy == nil {
		c.ignored(ctx, m)
		return
	}
	c.server.legacyNotified(ctx, c.legacy, m, c.remote)
	if m.Method == "notifications/initialized" && c.unlisten == nil {
		c.listen(ctx)
	}
}

// ignored tells of a notification that is for no session. Of those that mean
// something without one there are only cancels, and this one hit nothing.
func (c *stdio) ignored(ctx context.Context, m *mcp.Message) {
	if m.Method == "notifications/cancelled" {
		c.server.cancelledNothing(ctx, Event{Principal: c.principal, Remote: c.remote}, m.Params.Raw(mcp.FieldRequestID))
	}
}

// isSenselessCancel reports whether a message that was refused is a cancellation all
// the same: "Invalid cancellation notifications SHOULD be ignored" (2026-07-28,
// basic/patterns/cancellation). It cancels nothing, and where no status of HTTP has to
// say something, nothing is said.
func isSenselessCancel(m *mcp.Message, err error) bool {
	refused, ok := errors.AsType[*mcp.ParseError](err)
	return ok && refused.Code == mcp.CodeInvalidRequest && m.ID.IsZero() && m.Method == "notifications/cancelled"
}

// listen tells the client of changes for as long as the pipe lives. Finish waits
// for it.
func (c *stdio) listen(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	c.unlisten = cancel
	c.server.listenFor(ctx, c.legacy, noGap, nil, &c.tasks)
}
