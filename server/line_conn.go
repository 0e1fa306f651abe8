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
	entry := &inflight{kind: kindPipe, stop: session.StopFunc(cancel)}
	if !s.inflight.add(entry) {
		return errDraining
	}
	defer s.inflight.remove(entry)
	c := s.newLineConn(newPipeWriter(w, cancel), "")

	written := make(chan struct{})
	go func() { // ends with mux.close or with a write that takes too long; await waits for it
		defer close(written)
		c.writer.run()
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
		c.endInput()
	}
	c.finish(ctx)
	c.writer.close()
	awaitWriter(written, w)
	if err != nil {
		cancel(err)
		abandonReader(r, read)
	}
	return err
}

// newStdio returns what serves one connection of lines, for whoever is at its other
// end. The mux is the caller's to run.
func (s *Server) newLineConn(w *pipeWriter, principal string) *lineConn {
	c := &lineConn{server: s, writer: w, principal: principal, connSession: session.New("", principal, &mcp.Peer{}, &s.rules), opened: make(chan initializeOutcome, 1)}
	c.connSession.Initialized()
	c.id = s.pipes.Add(1)
	c.writer.addPermanent(c.connSession.Standalone())
	return c
}

// letGo is how long a read or write is given to end whose pipe was closed. Those
// of the standard streams of a process do not end by that.
const closeGrace = 100 * time.Millisecond

// await waits for the writer. One that is stuck gets a moment, then its pipe is
// closed, and then it is left behind.
func awaitWriter(written <-chan struct{}, w io.Writer) {
	if endsWithin(written, finishGrace) {
		return
	}
	if closer, ok := w.(io.Closer); ok {
		_ = closer.Close()
		endsWithin(written, closeGrace)
	}
}

// abandon ends a read that nobody waits for any more.
func abandonReader(r io.Reader, read <-chan struct{}) {
	if closer, ok := r.(io.Closer); ok {
		_ = closer.Close()
		endsWithin(read, closeGrace)
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
type lineConn struct {
	server       *Server
	writer       *pipeWriter
	connSession  *session.Session       // exchanges of the modern era, and what belongs to none
	id           uint64                 // tells the pipe from others, and from HTTP
	legacy       *session.Session       // nil before initialize is answered
	opened       chan initializeOutcome // an initialize is done
	initializing *inflight              // the initialize that was begun; nil where it failed
	queued       []func()               // handles what came for the session before it was open
	wg           sync.WaitGroup         // requests and the inner listen

	cancelListen context.CancelFunc // ends the inner listen; nil before it
	inputEnded   bool               // the client has closed its end

	// Of a connection over HTTP with SSE, which only the legacy era has; zero on a pipe.
	sse               bool
	principal, remote string
}

// loop handles lines until there are no more. Handlers run elsewhere: it waits
// for nothing but room to answer.
func (c *lineConn) loop(ctx context.Context, lines <-chan line) error {
	for {
		select {
		case l := <-lines:
			if _, tooLong := errors.AsType[*frame.TooLongError](l.err); l.err != nil && !tooLong {
				return endOfPipe(l.err)
			}
			c.handleLine(ctx, l)
		case o := <-c.opened:
			c.finishInitialize(ctx, o)
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
func (c *lineConn) finish(ctx context.Context) {
	c.writer.tearDown(errPipeClosed)
	c.stopListen()
	words := finishGrace
	if c.inputEnded {
		words = partingGrace
	}
	patience, cancel := context.WithTimeout(ctx, words)
	defer cancel()
	c.awaitInitialize(ctx, patience)
	c.writer.waitBusy(patience, 0)
	if c.inputEnded {
		c.writer.dropRequests(time.Now()) // the errors that end the rest are for nobody
	}
	c.connSession.End(errSessionEnded())
	c.server.cancelParked(c.server.parked.DropPlace(c.id), errPipeClosed) // nobody can come back on the pipe
	c.endLegacy()
	c.wg.Wait()
}

// justSaid is how long before the end of its input a client may have made a request that
// is answered after it: a script writes all that it has to say, and closes.
const recentRequest = 250 * time.Millisecond

// partingWords is lastWords at the end of the input: clients kill a server that lives on for
// 2 s, and backends have to end after this.
const partingGrace = 1200 * time.Millisecond

// part is called at the end of the input. A client that has left is not written to: some
// fail when a message comes while they close. What it asked for long ago is cancelled.
func (c *lineConn) endInput() {
	c.inputEnded = true
	if c.legacy != nil {
		c.writer.dropStream(c.legacy.Standalone())
	}
	for _, entry := range c.writer.dropRequests(time.Now().Add(-recentRequest)) {
		entry.stop.End(errPipeClosed)
	}
}

// deafen ends the inner listen, or has none begin.
func (c *lineConn) stopListen() {
	if c.cancelListen != nil {
		c.cancelListen()
	}
	c.cancelListen = func() {}
}

// endLegacy ends the session of the pipe, if there is one, and what was kept for
// it.
func (c *lineConn) endLegacy() {
	if c.legacy == nil {
		return
	}
	c.legacy.End(errSessionEnded())
	c.server.endScope(c.legacy.Scope)
}

// say writes a message that belongs to no exchange.
func (c *lineConn) send(ctx context.Context, m session.Message) {
	o := streamSender{server: c.server, stream: c.connSession.Standalone()}
	_ = o.send(ctx, m) // fails only when everything ends
}

// fail answers with an error that belongs to no exchange. It waits for room like
// any answer, so that a client which sends rubbish and does not read is read from
// no faster than it reads.
func (c *lineConn) sendError(ctx context.Context, id mcp.ID, err *mcp.Error) {
	c.server.refused.Add(1)
	c.send(ctx, session.Message{Head: mcp.AppendError(nil, id, err)})
}

// refuse is fail for what may be an event.
func (c *lineConn) refuse(ctx context.Context, no *refusal) {
	if no.event.Kind != "" {
		no.event.Principal, no.event.Remote = c.principal, c.remote
		c.server.observe(ctx, no.event)
	}
	c.sendError(ctx, no.id, no.err)
}

// handle serves one line. What is wrong with a line is answered, and the next
// line is read: a pipe has no other message to lose (I44).
func (c *lineConn) handleLine(ctx context.Context, l line) {
	limits := &c.server.cfg.Limits
	if long, ok := errors.AsType[*frame.TooLongError](l.err); ok {
		m, _ := mcp.Parse(long.Head, limits.message()) // for the id, if it stands in the beginning
		c.sendError(ctx, m.ID, mcp.Errorf(mcp.CodeInvalidRequest, "line exceeds %s (limits.requestBody)", bytesText(limits.RequestBody)))
		return
	}
	if !mcp.IsBatch(l.data) {
		c.handleMessage(ctx, l.data)
		return
	}
	if c.isInitializing() {
		c.enqueue(ctx, mcp.ID{}, func() { c.handleLine(ctx, l) })
		return
	}
	if c.legacy == nil || c.legacy.Client.Version != mcp.V20250326 {
		c.sendError(ctx, mcp.ID{}, refuseBatch().err)
		return
	}
	parts, err := mcp.SplitBatch(l.data, limits.Batch, limits.message())
	if err != nil {
		c.sendError(ctx, mcp.ID{}, parseError(err))
		return
	}
	for _, part := range parts {
		c.handleMessage(ctx, part)
	}
}

// message serves one message of a line, which may be one of a batch.
func (c *lineConn) handleMessage(ctx context.Context, data []byte) {
	m, err := mcp.Parse(data, c.server.cfg.Limits.message())
	switch {
	case isInvalidCancel(&m, err):
		c.reportIgnored(ctx, &m)
		return
	case err != nil:
		c.sendError(ctx, m.ID, parseError(err))
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
		c.server.legacyResponse(ctx, c.legacy, &m, c.remote)
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
func (c *lineConn) request(ctx context.Context, m *mcp.Message) {
	c.writer.waitBusy(ctx, eras*c.server.cfg.Limits.InFlightPerSession)
	// The era is looked at before the session: a modern request needs none, and must
	// not wait for one that is being opened.
	switch {
	case c.inFlight(m.ID):
		c.sendError(ctx, m.ID, c.server.refuseBegin(m.ID, session.ErrDuplicate).err)
	case isModernLine(m) && !c.sse:
		c.modernRequest(ctx, m)
	case m.Method == "ping":
		c.send(ctx, pong(m.ID))
	case m.Method == "initialize" && c.initializing == nil:
		c.initialize(ctx, m)
	case c.isInitializing():
		c.enqueue(ctx, m.ID, func() { c.request(ctx, m) })
	case c.legacy == nil:
		c.sendError(ctx, m.ID, mcp.Errorf(mcp.CodeInvalidRequest, "session not initialized; send initialize first, or name %q in _meta", mcp.MetaVersion.Key()))
	default:
		c.legacyRequest(ctx, m)
	}
}

// inFlight reports whether the id is taken in either era: there is one pipe, and
// the answers on it are told apart by their ids alone.
func (c *lineConn) inFlight(id mcp.ID) bool {
	return c.connSession.InFlight(id) || c.legacy != nil && c.legacy.InFlight(id)
}

// modernRequest serves a request that says itself who sends it. Its exchange is
// one of the pipe's own session, so that ids in flight are told apart and the end
// of the pipe ends it.
func (c *lineConn) modernRequest(ctx context.Context, m *mcp.Message) {
	ir := new(inflightRequest)
	if wireErr := ir.initModern(m, ""); wireErr != nil {
		c.sendError(ctx, m.ID, wireErr)
		return
	}
	c.server.trackMemory(ir)
	opened, stateErr := c.server.readState(&ir.original)
	if stateErr != nil {
		c.refuse(ctx, c.server.refuseState(m.ID, stateErr))
		return
	}
	if opened.parkedID != "" {
		c.modernRetry(ctx, m, &opened)
		return
	}
	if err := c.server.checkPending(""); err != nil {
		c.refuse(ctx, c.server.refuseBegin(m.ID, err))
		return
	}
	ctx = ir.begin(ctx, opened.req, modernEncoder{})
	ir.connID, ir.restarts = c.id, opened.restarts
	x, err := c.connSession.Begin(m.ID, ir.stop)
	if err != nil {
		ir.stop.End(err)
		c.refuse(ctx, c.server.refuseBegin(m.ID, err))
		return
	}
	ir.x = x
	ir.caller = c.server.modernCaller(ir)
	c.start(ctx, ir)
}

// modernRetry has a request go on with one that is parked.
func (c *lineConn) modernRetry(ctx context.Context, m *mcp.Message, opened *openedRequest) {
	_, x, no := c.server.resumeParked(m, opened, c.id, func(ir *inflightRequest) (*session.Exchange, *refusal) {
		x, err := c.connSession.Begin(m.ID, ir.stop)
		if err != nil {
			return nil, c.server.refuseBegin(m.ID, err)
		}
		c.writer.addRequest(x, &ir.inflight)
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
func (c *lineConn) legacyRequest(ctx context.Context, m *mcp.Message) {
	taskCtx, ir, err := c.server.beginLegacyRequest(ctx, c.legacy, m)
	if err != nil {
		c.send(ctx, c.server.requestRefusal(ctx, c.legacy, m.ID, err, c.remote))
		return
	}
	c.start(taskCtx, ir)
}

// start runs a request whose answer goes on the pipe.
func (c *lineConn) start(ctx context.Context, ir *inflightRequest) {
	c.writer.addRequest(ir.x, &ir.inflight)
	ir.wg = &c.wg
	if !c.server.start(ctx, ir) {
		ir.x.Finish(session.Message{Head: mcp.AppendError(nil, ir.x.ID(), errShuttingDown())})
	}
}

// notified serves a notification. A cancel is looked up in both eras: it names a
// request by its id, and ids are shared on a pipe.
func (c *lineConn) notified(ctx context.Context, m *mcp.Message) {
	if m.Method == "notifications/cancelled" {
		id, err := mcp.ParseID(m.Params.Raw(mcp.FieldRequestID))
		if err == nil && c.connSession.Cancel(id, errCancelled) {
			return
		}
	}
	if c.isInitializing() {
		c.enqueue(ctx, mcp.ID{}, func() { c.notified(ctx, m) })
		return
	}
	if c.legacy == nil {
		c.reportIgnored(ctx, m)
		return
	}
	c.server.legacyNotification(ctx, c.legacy, m, c.remote)
	if m.Method == "notifications/initialized" && c.cancelListen == nil {
		c.listen(ctx)
	}
}

// ignored tells of a notification that is for no session. Of those that mean
// something without one there are only cancels, and this one hit nothing.
func (c *lineConn) reportIgnored(ctx context.Context, m *mcp.Message) {
	if m.Method == "notifications/cancelled" {
		c.server.observeIdleCancel(ctx, Event{Principal: c.principal, Remote: c.remote}, m.Params.Raw(mcp.FieldRequestID))
	}
}

// isSenselessCancel reports whether a message that was refused is a cancellation all
// the same: "Invalid cancellation notifications SHOULD be ignored" (2026-07-28,
// basic/patterns/cancellation). It cancels nothing, and where no status of HTTP has to
// say something, nothing is said.
func isInvalidCancel(m *mcp.Message, err error) bool {
	refused, ok := errors.AsType[*mcp.ParseError](err)
	return ok && refused.Code == mcp.CodeInvalidRequest && m.ID.IsZero() && m.Method == "notifications/cancelled"
}

// listen tells the client of changes for as long as the pipe lives. Finish waits
// for it.
func (c *lineConn) listen(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	c.cancelListen = cancel
	c.server.startListen(ctx, c.legacy, missedNothing, nil, &c.wg)
}
