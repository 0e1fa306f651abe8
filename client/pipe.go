// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// transportConn is the far end of a pipe: a child process, or whatever a caller opened.
type transportConn interface {
	io.Reader
	io.Writer

	// end makes the far end go away, within a bound, and returns when it is gone.
	// Reads and writes that wait return. It is called once. why is for the log, "" where
	// nothing is wrong with the far end.
	end(why string)

	// fate says how the far end came to its end, for an error: an exit status,
	// the last lines that it wrote, if those who were served are none but the one who
	// gets the error. It may wait a moment to learn it.
	exitReason(served clientCount) string
}

// The bounds of a pipe.
const (
	maxJunk    = 100      // lines on a server's output that are no messages
	maxQueued  = 64 << 20 // bytes that wait to be written
	writeChunk = 64 << 10 // bytes to which one write deadline applies
)

// pipe is a connection of lines to one server (basic/transports/stdio): one
// reader, one writer, and the calls that share it. It ends once, for whatever
// reason, and takes all its calls with it.
type pipe struct {
	*setup
	remote     transportConn
	slot       *processSlot // of far
	calls      session.Calls
	served     clientsServed
	group      goroutines
	wake       chan struct{} // capacity 1: something is queued
	dead       chan struct{} // closed when the pipe has ended
	writerDone chan struct{} // closed when the writer has ended

	remoteCloser closeOnce // of far

	// discover is the probe that a silent server has not answered yet.
	discover *session.Call

	// Written by one goroutine and added to by many, under a bound in bytes: a
	// message is written whole, and nobody waits for a server that does not read.
	mu          sync.Mutex
	queue       writeQueue
	unsent      []*session.Call      // of requests in the queue
	route       func(m *mcp.Message) // nil until somebody speaks an era over the pipe
	onAnswer    func(id mcp.ID)      // nil where nobody wants to know
	onEOF       func()               // nil as well
	writeFailed bool                 // nothing can be written any more
	ended       bool
	why         string // the far end is to go, "" where nothing is wrong with it
}

// newPipe starts reading and writing.
func newPipe(s *setup, far transportConn, at *processSlot) *pipe {
	p := &pipe{setup: s, remote: far, slot: at, calls: session.Calls{Numbers: newNumbers()}, wake: make(chan struct{}, 1), dead: make(chan struct{}), writerDone: make(chan struct{})}
	s.otherOutput.Store(nil)
	p.group.start(p.readAll)  // ends with the conduit, which fail ends
	p.group.start(p.writeAll) // ends with its context, or with the conduit
	return p
}

// attach has messages that are no responses given to route from now on. It is
// called on the reader's goroutine and must not wait.
func (p *pipe) attach(route func(m *mcp.Message)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.route = route
}

// tell has f told of each answer that came, also to calls that were given up. It
// is called on the reader's goroutine and must not wait.
func (p *pipe) setOnAnswer(f func(id mcp.ID)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onAnswer = f
}

// onParting has f called when the far end has ended its output, before its last line
// is handed on. It must not wait.
func (p *pipe) setOnEOF(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onEOF = f
}

func (p *pipe) answerHandler() func(id mcp.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.onAnswer
}

func (p *pipe) router() func(m *mcp.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.route
}

// enqueue has a message written after those before it: the order of a cancellation
// and its request matters to the server. It does not wait, and
// reports false when the pipe has ended or the server has not read for too long. The
// message is the pipe's from then on, but for its second piece, if it reports true.
func (p *pipe) enqueue(msg mcp.Pieces) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enqueueLocked(msg)
}

func (p *pipe) enqueueLocked(msg mcp.Pieces) bool {
	if p.ended || p.writeFailed || p.queue.size+msg.Len() > maxQueued {
		return false
	}
	p.queue.add(msg)
	select {
	case p.wake <- struct{}{}:
	default: // the writer will look
	}
	return true
}

// batch is what the writer writes at once: lines, and the calls whose requests are
// among them.
type batch struct {
	lines writeQueue
	calls []*session.Call
}

// reuse empties a batch that has been written.
func (b *batch) reuse() {
	b.lines.reuse()
	clear(b.calls)
	b.calls = b.calls[:0]
}

// dequeue takes all at once, and gives an empty batch, whose room is for what comes
// next: the writer holds no lock while it writes.
func (p *pipe) dequeue(room batch) batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := batch{lines: p.queue, calls: p.unsent}
	p.queue, p.unsent = room.lines, room.calls
	return b
}

// begin sends a call's request. It counts as dispatched when the writer has written
// some of the batch that it is in.
func (p *pipe) begin(call *session.Call, msg mcp.Pieces) {
	if !p.queueCall(call, msg) {
		p.refuse([]*session.Call{call})
	}
}

func (p *pipe) queueCall(call *session.Call, msg mcp.Pieces) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.enqueueLocked(msg) {
		return false
	}
	p.unsent = append(p.unsent, call)
	return true
}

// refuse ends calls that have not left.
func (p *pipe) refuse(calls []*session.Call) {
	for _, c := range calls {
		c.Finish(session.Terminal{Err: p.unavailable(nil, "it does not read its input")})
	}
}

// abandon tells the server that a call is given up.
func (p *pipe) abandon(call *session.Call) {
	p.enqueue(mcp.Pieces{cancelNotice(call)})
}

// cancelNotice is the notification that takes a call back.
func cancelNotice(call *session.Call) []byte {
	params := call.ID().AppendTo([]byte(`{"requestId":`))
	params = append(params, `,"reason":"the client gave the request up"}`...)
	return mcp.AppendNotification(nil, methodCancelled, params)
}

// writeAll is the one writer. What was queued when the pipe ends is written
// still: a cancellation, often.
func (p *pipe) writeAll(ctx context.Context) {
	defer close(p.writerDone)
	stuck := time.AfterFunc(never, p.failStuck) // it counts while something is being written
	stuck.Stop()
	var b batch
	for {
		b = p.dequeue(b)
		if n, err := p.write(b.lines.parts, stuck); err != nil {
			// The reader finds out how the server ended, and says so.
			rest := p.stopWriting()
			if n == 0 {
				p.refuse(b.calls)
			}
			p.refuse(rest)
			return
		}
		b.reuse()
		select {
		case <-p.wake:
		case <-p.dead:
			_, _ = p.write(p.dequeue(batch{}).lines.parts, stuck) // there is nobody to tell
			return
		case <-ctx.Done():
			return
		}
	}
}

// stopWriting drops what is queued and refuses what comes, and returns the calls that
// have not left.
func (p *pipe) stopWriting() []*session.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.unsent
	p.queue, p.unsent, p.writeFailed = writeQueue{}, nil, true
	return calls
}

// write writes the parts of a backlog, one after the other, and returns how much of them
// has left. A server that reads nothing for the write deadline is stuck, and is ended.
func (p *pipe) write(parts [][]byte, stuck *time.Timer) (left int, err error) {
	for _, part := range parts {
		for chunk := range slices.Chunk(part, writeChunk) {
			// A deadline for each chunk: a long line to a slow server is not a stuck one.
			stuck.Reset(p.Write)
			n, err := p.remote.Write(chunk)
			left += n
			stuck.Stop()
			if err != nil {
				return left, err
			}
		}
	}
	return left, nil
}

func (p *pipe) failStuck() { p.fail(p.lost(nil, "it did not read its input for %v", p.Write)) }

// readAll is the one reader. It waits for the server, and for room for a large answer
// where its client is the only one.
func (p *pipe) readAll(ctx context.Context) {
	lines := frame.NewLineReader(p.remote, p.MaxMessage)
	lines.Bound(newSharedBound(ctx, &p.calls, &p.served))
	junk := 0
	for {
		line, err := lines.Next()
		if lines.IsAtEnd() {
			p.outputEnded()
		}
		if no, ok := errors.AsType[*frame.NoRoomError](err); ok {
			p.reportAnswer(p.drop(ctx, &p.calls, no))
			continue
		}
		if err != nil {
			p.fail(p.endReason(err))
			return
		}
		if p.handleLine(line) {
			continue
		}
		junk++
		p.noteJunk(ctx, junk, line)
		if junk >= maxJunk {
			p.fail(p.lost(nil, "it wrote %d lines that are no messages to its output", junk))
			return
		}
	}
}

// part has nothing more sent to a far end that has ended its output. It comes before the
// last line is handed on, because whoever gets that may call again at once; how the far
// end came to its end is known later, and ends the calls that wait.
func (p *pipe) outputEnded() {
	rest := p.stopWriting()
	if tell := p.eofHandler(); tell != nil {
		tell()
	}
	p.slot.markClosing() // before the calls: whoever looks for a place may wait for it from now on
	p.calls.Close(p.unavailable(nil, "it has ended its output"))
	p.refuse(rest)
}

func (p *pipe) eofHandler() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.onEOF
}

// noteJunk warns once, with the line: it is how a banner on the wrong stream is
// found. The others are counted.
func (p *pipe) noteJunk(ctx context.Context, n int, line []byte) {
	if n != 1 {
		return
	}
	shown := p.sanitize(line)
	p.otherOutput.Store(&shown)
	p.log.LogAttrs(ctx, slog.LevelWarn, "backend wrote a line that is no message to its output", slog.String("line", shown))
}

// endReason is the error of the calls that were under way when the reading
// ended.
func (p *pipe) endReason(err error) error {
	if long, ok := errors.AsType[*frame.TooLongError](err); ok {
		return p.fault(mcp.CodeLimit, mcp.Unknown, long, "it sent a message of more than %d bytes (limits.backendMessage)", long.Limit)
	}
	how := p.remote.exitReason(p.served.size())
	if how == "" {
		how = "it closed its output"
	}
	return p.lost(err, "%s", how)
}

// take gives one line to whom it belongs. It reports false when the line is no
// message.
func (p *pipe) handleLine(line []byte) bool {
	if mcp.IsBatch(line) {
		return p.handleBatch(line)
	}
	m, err := mcp.Parse(line, backendLimits())
	switch {
	// A broken answer ends its call; somebody's log line with an "id" in it does not.
	case err != nil && !m.ID.IsZero() && bytes.Contains(line, []byte("jsonrpc")):
		return p.calls.Respond(m.ID, session.Terminal{Err: p.malformed(err)})
	case err != nil:
		return false
	case m.Kind == mcp.KindResult || m.Kind == mcp.KindError:
		p.respond(&p.calls, m.ID, &m)
		p.reportAnswer(m.ID)
	default:
		if route := p.router(); route != nil {
			kept := m // what is routed is kept; a response, which is most of what comes, is not
			route(&kept)
		}
	}
	return true
}

// answered tells of an answer, whatever became of it.
func (p *pipe) reportAnswer(id mcp.ID) {
	if settled := p.answerHandler(); settled != nil {
		settled(id)
	}
}

// takeBatch takes a batch of 2025-03-26 apart. What in it is no message spoils nothing
// besides, and has the line count as one that is none.
func (p *pipe) handleBatch(line []byte) bool {
	parts, err := mcp.SplitBatch(line, maxBatch, backendLimits())
	if err != nil {
		return false
	}
	all := true
	for _, part := range parts {
		// Batches do not nest; one that does would be taken apart without a bound.
		if mcp.IsBatch(part) || !p.handleLine(part) {
			all = false
		}
	}
	return all
}

// fail ends the pipe: its calls at once, the far end in the background. The first
// reason stands.
func (p *pipe) fail(err error) {
	if !p.markEnded(faultText(err)) {
		return
	}
	// The place first: whoever looks for one may wait for it from now on.
	// Then the calls, so that each has the reason before it can find the pipe dead.
	p.slot.markClosing()
	p.calls.End(err)
	close(p.dead)
	p.group.start(func(context.Context) { p.closeRemote() }) // bounded by end itself
}

// endFar makes the far end go away, once; its place is free when it has.
func (p *pipe) closeRemote() {
	p.remoteCloser.once(func() {
		p.mu.Lock()
		why := p.why
		p.mu.Unlock()
		p.remote.end(why)
		p.slot.release()
	})
}

// markEnded reports true to the first. After it nothing is queued, so that what close
// waits for cannot grow.
func (p *pipe) markEnded(why string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.ended, p.why = true, why
	return true
}

// faultText says what is wrong with the far end, without what that means for calls.
func faultText(err error) string {
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		return f.Message
	}
	return err.Error()
}

// close ends the pipe and the far end, and returns when both are gone. What is
// queued gets a moment to be written.
func (p *pipe) close(err error) {
	if p.markEnded("") {
		p.slot.markClosing()
		p.calls.End(err)
		close(p.dead)
		within(p.writerDone, noticeTime)
	}
	p.closeRemote()
	p.group.close()
}
