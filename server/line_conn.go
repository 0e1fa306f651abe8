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
	"github.com/signalbox-mcp/signalbox/internal/hangup"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ServeStdio serves one client on a pair of pipes, with both eras interleaved: each
// modern request by itself, and the legacy session that an initialize opens. It returns
// nil when r has ended, after a short time for requests that are nearly done; otherwise
// it returns the error of r or w, or the cause with which ctx or the server ended. A
// client that no longer reads counts as gone, even if it still writes: its requests are
// cancelled.
//
// If r is not the first to end, it is closed if it is an [io.Closer], and so is w if it
// accepts nothing any more. A read or write that this does not end is left behind; on the
// standard streams of a process it lasts until the process exits.
func (s *Server) ServeStdio(ctx context.Context, r io.Reader, w io.Writer) error {
	return s.ServeStdioAs(ctx, nil, r, w)
}

// ServeStdioAs is ServeStdio for a client with a known identity, or nil.
func (s *Server) ServeStdioAs(ctx context.Context, identity *mcp.Identity, r io.Reader, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := sender{identity: identity, profile: ProfileOf(ctx)}
	if identity != nil {
		from.principal = identity.Principal
	}
	entry := &inflight{kind: kindPipe, stop: cancel, profile: from.profile}
	if !s.inflight.add(entry) {
		return errDraining
	}
	defer s.inflight.remove(entry)
	if !s.hasProfile(from.profile) {
		return errNoProfile
	}
	c := s.newLineConn(newPipeWriter(w, cancel), from)

	written := make(chan struct{})
	go func() { // ends with writer.close or with a write that takes too long; awaitWriter waits for it
		defer close(written)
		c.writer.run(nil, nil)
	}()
	lines, read := make(chan line), make(chan struct{})
	go func() { // ends with r, and after a line with ctx; abandonReader waits for it if r can be closed
		defer close(read)
		readLines(ctx, r, int(s.cfg.Limits.RequestBody), lines)
	}()

	// In this order: no more requests arrive, those in flight are answered, the answers
	// are queued, and then they are written.
	err := c.loop(ctx, lines)
	c.gone = hangup.Now(w)
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

// newLineConn returns the state of one connection of lines. The caller must run its
// writer.
func (s *Server) newLineConn(w *pipeWriter, from sender) *lineConn {
	c := &lineConn{server: s, writer: w, sender: from, connSession: session.New("", from.principal, &mcp.Peer{}, &s.rules), opened: make(chan initializeOutcome, 1)}
	c.connSession.Initialized()
	c.id = s.pipes.Add(1)
	c.writer.add(c.connSession.Standalone(), nil)
	return c
}

// finishGrace is how long requests in flight may still finish when a pipe has reached its
// end, and how long Shutdown waits for a pipe.
const finishGrace = 2 * time.Second

// closeGrace is how long a read or write may take to end after its pipe was closed. Those
// of the standard streams of a process do not end by that.
const closeGrace = 100 * time.Millisecond

// awaitWriter waits for the writer. If it is stuck, its pipe is closed after a short
// time, and then it is left behind.
func awaitWriter(written <-chan struct{}, w io.Writer) {
	if endsWithin(written, finishGrace) {
		return
	}
	if closer, ok := w.(io.Closer); ok {
		_ = closer.Close()
		endsWithin(written, closeGrace)
	}
}

// abandonReader ends a read with a result that is no longer needed.
func abandonReader(r io.Reader, read <-chan struct{}) {
	if closer, ok := r.(io.Closer); ok {
		_ = closer.Close()
		endsWithin(read, closeGrace)
	}
}

// endsWithin reports whether done is closed within d.
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

// line is one line of a pipe, or the error that ended it.
type line struct {
	data     []byte
	identity *mcp.Identity // of the sender of this line, if that is known
	err      error
}

// readLines reads until the end, which it delivers as the last line, or until ctx ends.
func readLines(ctx context.Context, r io.Reader, limit int, lines chan<- line) {
	lr := frame.NewLineReader(r, limit)
	for {
		data, err := lr.Next()
		select {
		case lines <- line{data: data, err: err}:
			// A read from the standard input of a process blocks in the system, on the
			// processor on which the goroutines that serve the line would run: these run
			// first.
			runtime.Gosched()
		case <-ctx.Done():
			return
		}
		if _, tooLong := errors.AsType[*frame.TooLongError](err); err != nil && !tooLong {
			return
		}
	}
}

// eras is the number of sets of requests in flight on a pipe.
const eras = 2

// lineConn is one connection over pipes. Its fields belong to the goroutine that runs
// loop.
type lineConn struct {
	server       *Server
	writer       *pipeWriter
	sender                              // of the message that is handled
	connSession  *session.Session       // exchanges of the modern era, and messages outside of exchanges
	id           uint64                 // distinguishes the pipe from others, and from HTTP
	legacy       *session.Session       // nil before initialize is answered
	opened       chan initializeOutcome // receives the outcome of an initialize
	initializing *inflight              // the running or successful initialize, or nil
	queued       []func()               // calls that handle messages received before the session was open
	wg           sync.WaitGroup         // requests and the inner listen

	cancelListen context.CancelFunc // ends the inner listen; nil before it
	inputEnded   bool               // the client has closed its end
	gone         bool               // the client does not read any more either

	// Of a connection over HTTP with SSE, which serves only the legacy era; zero on a
	// pipe.
	sse    bool
	remote string
}

// loop handles lines until there are no more. Handlers run on other goroutines; loop
// blocks only while answers cannot be queued.
func (c *lineConn) loop(ctx context.Context, lines <-chan line) error {
	for {
		select {
		case l := <-lines:
			_, tooLong := errors.AsType[*frame.TooLongError](l.err)
			switch {
			case errors.Is(l.err, io.EOF):
				return nil // the client has closed its end (2025-11-25, basic/lifecycle, "Shutdown")
			case l.err != nil && !tooLong:
				return l.err
			}
			if l.identity != nil {
				c.identity = l.identity
			}
			c.handleLine(ctx, l)
		case o := <-c.opened:
			c.finishInitialize(ctx, o)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finish ends all that is left. If the client has closed its end, requests get a short
// time to finish, including those that wait for the session to open; if the server is
// ending, they have had it.
func (c *lineConn) finish(ctx context.Context) {
	c.writer.tearDown(errPipeClosed)
	c.stopListen()
	grace := finishGrace
	switch {
	case c.gone:
		grace = 0
	case c.inputEnded:
		grace = partingGrace
	}
	graceCtx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	c.awaitInitialize(ctx, graceCtx)
	c.writer.waitBusy(graceCtx, 0)
	if c.inputEnded {
		c.writer.dropRequests(time.Now()) // the client does not get the errors that end the rest
	}
	c.connSession.End(errSessionEnded())
	c.server.cancelParked(c.server.parked.Drop(func(o session.Owner) bool { return o.Place == c.id }), errPipeClosed) // no client can retry on the pipe
	if c.legacy != nil {
		if c.gone {
			c.legacy.Scope.Abandon()
		}
		c.legacy.End(errSessionEnded())
		c.server.endState(c.legacy)
	}
	c.wg.Wait()
}

// recentRequest is how long before the end of its input a client may have sent a request
// that is still answered: a script writes all its requests, and closes.
const recentRequest = 250 * time.Millisecond

// partingGrace is finishGrace at the end of the input: clients kill a server that runs
// for 2 s longer, and backends have to end after this.
const partingGrace = 1200 * time.Millisecond

// endInput is called at the end of the input. Nothing is written to a client that has
// left: some fail on a message that arrives while they close. Older requests are
// cancelled.
func (c *lineConn) endInput() {
	c.inputEnded = true
	if c.legacy != nil {
		c.writer.dropStream(c.legacy.Standalone())
	}
	for _, entry := range c.writer.dropRequests(time.Now().Add(-recentRequest)) {
		entry.stop(errPipeClosed)
	}
}

// stopListen ends the inner listen, or prevents it.
func (c *lineConn) stopListen() {
	if c.cancelListen != nil {
		c.cancelListen()
	}
	c.cancelListen = func() {}
}

// send sends a message that belongs to no exchange.
func (c *lineConn) send(ctx context.Context, m session.Message) {
	o := streamSender{server: c.server, stream: c.connSession.Standalone()}
	_ = o.send(ctx, m) // fails only at the end of the connection
}

// sendError answers with an error that belongs to no exchange. It blocks while the stream
// is full, so that invalid input is read no faster than the client reads the errors.
func (c *lineConn) sendError(ctx context.Context, id mcp.ID, err *mcp.Error) {
	c.refuse(ctx, refuseMessage(0, id, err))
}

// refuse answers with a refusal, like sendError.
func (c *lineConn) refuse(ctx context.Context, no *refusal) {
	c.server.noteRefusal(ctx, no, c.principal, c.remote)
	c.send(ctx, no.message())
}

// handleLine serves one line. An invalid line is answered with an error, and the next one
// is read: no other message of the pipe is affected (I44).
func (c *lineConn) handleLine(ctx context.Context, l line) {
	limits := &c.server.cfg.Limits
	if long, ok := errors.AsType[*frame.TooLongError](l.err); ok {
		m, _ := mcp.Parse(long.Head, limits.message()) // for the id, if it is at the beginning
		err := mcp.Errorf(mcp.CodeInvalidRequest, "line exceeds %s (limits.requestBody)", bytesText(limits.RequestBody))
		c.refuse(ctx, refuseMessage(0, m.ID, err).withEvent(Limited, "limits.requestBody"))
		return
	}
	if !jsonrpc.IsBatch(l.data) {
		c.handleMessage(ctx, l.data)
		return
	}
	if c.isInitializing() {
		c.enqueue(ctx, mcp.ID{}, func() { c.handleLine(ctx, l) })
		return
	}
	if c.legacy == nil || c.legacy.Client.Version != mcp.V20250326 {
		c.refuse(ctx, refuseBatch())
		return
	}
	parts, err := jsonrpc.SplitBatch(l.data, limits.Batch, limits.message())
	if err != nil {
		c.refuse(ctx, refuseParse(mcp.ID{}, err))
		return
	}
	for _, part := range parts {
		c.handleMessage(ctx, part)
	}
}

func (c *lineConn) handleMessage(ctx context.Context, data []byte) {
	m, err := mcp.Parse(data, c.server.cfg.Limits.message())
	switch {
	case isInvalidCancel(&m, err):
		c.reportIgnored(ctx, &m)
		return
	case err != nil:
		c.refuse(ctx, refuseParse(m.ID, err))
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

// isModernLine decides the era of a request on a pipe: a request with any part of the
// modern metadata is modern, and so are those with methods that legacy revisions do not
// have.
func isModernLine(m *mcp.Message) bool {
	return m.Params.Has(mcp.MetaVersion) || m.Params.Has(mcp.MetaClientCapabilities) ||
		m.Method == "server/discover" || m.Method == "subscriptions/listen"
}

// request serves a request. It blocks if the client sends requests and does not read the
// answers: with more streams than requests may run, some have ended and are not yet
// written.
func (c *lineConn) request(ctx context.Context, m *mcp.Message) {
	c.writer.waitBusy(ctx, eras*c.server.cfg.Limits.InFlightPerSession)
	// The era is checked before the session: a modern request needs none, and must not
	// wait for one that is being opened.
	switch {
	case c.inFlight(m.ID):
		c.refuse(ctx, c.server.refuseBegin(m.ID, session.ErrDuplicate))
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

// inFlight reports whether the id is in use in either era: on the one pipe, answers are
// distinguished by their ids only.
func (c *lineConn) inFlight(id mcp.ID) bool {
	return c.connSession.InFlight(id) || c.legacy != nil && c.legacy.InFlight(id)
}

// modernRequest serves a modern request. Its exchange belongs to the connection's own
// session, so that duplicate ids are detected and the end of the pipe ends it.
func (c *lineConn) modernRequest(ctx context.Context, m *mcp.Message) {
	ir := new(inflightRequest)
	if wireErr := ir.initModern(m, c.sender); wireErr != nil {
		c.sendError(ctx, m.ID, wireErr)
		return
	}
	c.server.trackMemory(ir)
	ir.startTimeline()
	opened, stateErr := c.server.readState(&ir.original)
	if stateErr != nil {
		c.refuse(ctx, c.server.refuseState(m.ID, stateErr))
		return
	}
	if opened.parkedID != "" {
		c.modernRetry(ctx, m, &opened)
		return
	}
	if no := c.server.checkPending(m.ID, c.principal); no != nil {
		c.refuse(ctx, no)
		return
	}
	ctx = ir.begin(ctx, opened.req, modernEncoder{})
	ir.connID, ir.restarts = c.id, opened.restarts
	x, err := c.connSession.Begin(m.ID, ir.stop)
	if err != nil {
		ir.stop(err)
		c.refuse(ctx, c.server.refuseBegin(m.ID, err))
		return
	}
	ir.x = x
	ir.caller = c.server.modernCaller(ir)
	c.start(ctx, ir)
}

// modernRetry serves a retry that resumes a parked request.
func (c *lineConn) modernRetry(ctx context.Context, m *mcp.Message, opened *openedRequest) {
	_, x, no := c.server.resumeParked(m, opened, c.id, func(ir *inflightRequest) (*session.Exchange, *refusal) {
		x, err := c.connSession.Begin(m.ID, ir.stop)
		if err != nil {
			return nil, c.server.refuseBegin(m.ID, err)
		}
		c.writer.add(x.Stream(), &ir.inflight)
		return x, nil
	})
	switch {
	case no == nil:
	case x == nil:
		c.refuse(ctx, no)
	default:
		c.server.noteRefusal(ctx, no, c.principal, c.remote)
		x.Finish(no.message())
	}
}

func (c *lineConn) legacyRequest(ctx context.Context, m *mcp.Message) {
	taskCtx, ir, no := c.server.beginLegacyRequest(ctx, c.legacy, m, c.identity)
	if no != nil {
		c.refuse(ctx, no.inSession(c.legacy))
		return
	}
	c.start(taskCtx, ir)
}

// start starts a request with an answer on the pipe.
func (c *lineConn) start(ctx context.Context, ir *inflightRequest) {
	c.writer.add(ir.x.Stream(), &ir.inflight)
	ir.wg = &c.wg
	if !c.server.start(ctx, ir) {
		ir.x.Finish(session.Message{Head: jsonrpc.AppendError(nil, ir.x.ID(), errShuttingDown())})
	}
}

// notified serves a notification. A cancel is looked up in both eras: it names a request
// by its id, and a pipe has one set of ids.
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
	c.server.legacyNotification(ctx, c.legacy, m, c.identity, c.remote)
	if m.Method == "notifications/initialized" && c.cancelListen == nil {
		c.listen(ctx)
	}
}

// reportIgnored reports a notification without a session. Only a cancel is significant
// without one, and this one matched no request.
func (c *lineConn) reportIgnored(ctx context.Context, m *mcp.Message) {
	if m.Method == "notifications/cancelled" {
		c.server.observeIdleCancel(ctx, Event{Principal: c.principal, Remote: c.remote}, m.Params.Raw(mcp.FieldRequestID))
	}
}

// isInvalidCancel reports whether a message that failed to parse is a cancel: "Invalid
// cancellation notifications SHOULD be ignored" (2026-07-28,
// basic/patterns/cancellation). It cancels nothing, and gets no answer except the status
// over HTTP.
func isInvalidCancel(m *mcp.Message, err error) bool {
	refused, ok := errors.AsType[*mcp.ParseError](err)
	return ok && refused.Code == mcp.CodeInvalidRequest && m.ID.IsZero() && m.Method == "notifications/cancelled"
}

// listen sends changes to the client for as long as the pipe lives. finish waits for it.
func (c *lineConn) listen(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	changes := c.server.startListen(ctx, c.legacy, c.identity, missedNothing, nil, &c.wg)
	c.cancelListen = func() {
		cancel()
		if changes != nil {
			changes.end()
		}
	}
}

// initializeOutcome is the outcome of an initialize.
type initializeOutcome struct {
	sess   *session.Session // nil if it failed
	answer session.Message
}

// initialize opens the session of the pipe. The Handler runs on another goroutine.
func (c *lineConn) initialize(ctx context.Context, m *mcp.Message) {
	ctx, cancel := context.WithCancelCause(ctx)
	entry := &inflight{stop: cancel}
	if c.server.quiet.Load() || !c.server.inflight.add(entry) {
		cancel(errDraining)
		c.sendError(ctx, m.ID, errShuttingDown())
		return
	}
	c.initializing = entry
	from := c.sender // later lines change it
	c.wg.Go(func() { // ends when the Handler answers; finish waits for it
		defer c.server.inflight.remove(entry)
		defer cancel(nil)
		sess, answer, err := c.server.initialize(ctx, m, from)
		if err != nil && ctx.Err() != nil {
			err = errSessionEnded() // whatever error the Handler returns at the end of its context
		}
		if err != nil {
			answer = legacyEncoder{}.failure(m.ID, nil, err)
		}
		c.opened <- initializeOutcome{sess, answer} // does not block: there is one initialize at a time
	})
}

func (c *lineConn) isInitializing() bool { return c.initializing != nil && c.legacy == nil }

// enqueue queues the handling of a message until the session is open: a client that
// writes all its messages at once, such as a script, does not wait for the answer to its
// initialize. The queue is as long as the limit of requests in flight; more are refused.
func (c *lineConn) enqueue(ctx context.Context, id mcp.ID, again func()) {
	if len(c.queued) >= c.server.cfg.Limits.InFlightPerSession {
		c.refuse(ctx, c.server.refuseBegin(id, session.ErrTooMany))
		return
	}
	identity := c.identity
	c.queued = append(c.queued, func() {
		c.identity = identity
		again()
	})
}

// finishInitialize records the outcome of an initialize, answers it, and then handles the
// queued messages in order.
func (c *lineConn) finishInitialize(ctx context.Context, o initializeOutcome) {
	if o.sess == nil {
		c.initializing = nil
	} else {
		c.legacy = o.sess
		if !c.inputEnded {
			c.writer.add(o.sess.Standalone(), nil)
		}
	}
	c.send(ctx, o.answer)
	held := c.queued
	c.queued = nil
	for _, again := range held {
		again()
	}
}

// awaitInitialize returns when no initialize is in progress. It cancels one that takes
// longer than graceCtx.
func (c *lineConn) awaitInitialize(ctx, graceCtx context.Context) {
	for c.isInitializing() {
		select {
		case o := <-c.opened:
			c.finishInitialize(ctx, o)
		case <-graceCtx.Done():
			c.initializing.stop(errPipeClosed)
			o := <-c.opened
			if c.inputEnded {
				c.initializing, c.queued, c.legacy = nil, nil, o.sess // it is not answered
				continue
			}
			c.finishInitialize(ctx, o)
		}
	}
}
