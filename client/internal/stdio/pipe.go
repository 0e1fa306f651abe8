// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stdio exchanges messages with one MCP server as lines on a pipe: a child
// process, or any stream (2026-07-28, basic/transports/stdio).
//
// A [Pipe] has one goroutine that reads and one that writes. [Slots] limit the pipes to
// one server.
package stdio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// NoticeTime is how long close waits for cancellations and responses to be sent.
const NoticeTime = time.Second

// Remote is the remote end of a pipe: a child process, or a stream that a caller
// opened.
type Remote interface {
	io.Reader
	io.Writer

	// End ends the remote end within a bounded time, and returns when it is gone.
	// Blocked reads and writes return. It is called once. why is logged; it is empty if
	// nothing is wrong.
	End(why string)

	// ExitReason describes how the remote end ended, for an error: an exit status, and
	// its last lines on stderr if only one client was served, which gets the error. It
	// may block briefly to find out.
	ExitReason(served call.ClientCount) string
}

// Limits of a pipe.
const (
	maxJunk    = 100      // lines on the server's output that are not messages
	maxQueued  = 64 << 20 // bytes that wait to be written
	writeChunk = 64 << 10 // bytes that one write deadline covers
)

// Pipe is a line-based connection to one server (basic/transports/stdio), with one
// reader, one writer, and the calls that share it. It ends once, for whatever reason,
// and then ends all its calls.
type Pipe struct {
	*call.Setup
	remote     Remote
	Slot       *Slot // of remote
	Calls      session.Calls
	Served     call.ClientsServed
	Group      call.Goroutines
	wake       chan struct{} // capacity 1: something is queued
	Dead       chan struct{} // closed when the pipe has ended
	writerDone chan struct{} // closed when the writer has ended

	remoteCloser call.CloseOnce // of remote

	// Discover is the probe, while a silent server has not responded to it.
	Discover *session.Call

	// mu guards the write queue, which many goroutines add to and one writes. The queue
	// is bounded in bytes, and adding to it does not block if the server does not read.
	mu          sync.Mutex
	queue       writeQueue
	unsent      []*session.Call      // of the requests in queue
	route       func(m *mcp.Message) // nil until a protocol uses the pipe
	onAnswer    func(id mcp.ID)      // may be nil
	onEOF       func()               // may be nil
	writeFailed bool                 // nothing can be written any more
	refused     []*session.Call      // that were not sent, until it is known why
	refusing    bool                 // no call waits for that any more
	ended       bool
	why         string // why the remote end must end; "" if nothing is wrong
}

// NewPipe returns a pipe that reads and writes.
func NewPipe(s *call.Setup, remote Remote, slot *Slot) *Pipe {
	p := &Pipe{Setup: s, remote: remote, Slot: slot, Calls: session.Calls{Numbers: call.NewNumbers()}, wake: make(chan struct{}, 1), Dead: make(chan struct{}), writerDone: make(chan struct{})}
	s.OtherOutput.Store(nil)
	p.Group.Start(p.readAll)  // ends with remote, which fail ends
	p.Group.Start(p.writeAll) // ends with its context, or with remote
	return p
}

// Attach makes the reader pass messages that are not responses to route. route is
// called on the reader's goroutine and must not block.
func (p *Pipe) Attach(route func(m *mcp.Message)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.route = route
}

// SetOnAnswer makes the reader call f for each response, also to cancelled calls. f is
// called on the reader's goroutine and must not block.
func (p *Pipe) SetOnAnswer(f func(id mcp.ID)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onAnswer = f
}

// SetOnEOF makes the reader call f when the remote end has closed its output, before
// the last line is handled. f must not block.
func (p *Pipe) SetOnEOF(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onEOF = f
}

func (p *Pipe) answerHandler() func(id mcp.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.onAnswer
}

func (p *Pipe) router() func(m *mcp.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.route
}

// Enqueue queues a message to be written after those before it: the server must see a
// request before its cancellation. It does not block. It reports false if the pipe has
// ended or too much is queued. If it reports true the pipe owns the message, except for
// its second piece.
func (p *Pipe) Enqueue(msg jsonrpc.Pieces) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enqueueLocked(msg)
}

func (p *Pipe) enqueueLocked(msg jsonrpc.Pieces) bool {
	if p.ended || p.writeFailed || p.queue.size+msg.Len() > maxQueued {
		return false
	}
	p.queue.add(msg)
	select {
	case p.wake <- struct{}{}:
	default: // already signalled
	}
	return true
}

// batch is what the writer writes at once: lines, and the calls that the lines begin.
type batch struct {
	lines writeQueue
	calls []*session.Call
}

// reuse empties a batch that was written.
func (b *batch) reuse() {
	b.lines.reuse()
	clear(b.calls)
	b.calls = b.calls[:0]
}

// dequeue returns all that is queued, and takes an empty batch to reuse its memory. So
// the writer holds no lock while it writes.
func (p *Pipe) dequeue(room batch) batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := batch{lines: p.queue, calls: p.unsent}
	p.queue, p.unsent = room.lines, room.calls
	return b
}

// Begin sends a call's request. The call counts as dispatched once part of its batch is
// written.
func (p *Pipe) Begin(call *session.Call, msg jsonrpc.Pieces) {
	if why := p.queueCall(call, msg); why != "" {
		p.refuse([]*session.Call{call}, why)
	}
}

// queueCall returns why the call must be refused, or "".
func (p *Pipe) queueCall(call *session.Call, msg jsonrpc.Pieces) (why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.enqueueLocked(msg):
		p.unsent = append(p.unsent, call)
	case p.writeFailed && !p.ended && !p.refusing:
		p.refused = append(p.refused, call)
	default:
		return cmp.Or(p.why, noInput)
	}
	return ""
}

// noInput is why a call is refused if nothing more is known.
const noInput = "it does not read its input"

// reasonTime is how long a call that was not sent waits for the reason: a process that
// has ended has closed its input first.
const reasonTime = time.Second

// refuse ends calls that were not sent.
func (p *Pipe) refuse(calls []*session.Call, why string) {
	for _, c := range calls {
		c.Finish(session.Terminal{Err: p.Unavailable(nil, "%s", why)})
	}
}

// refuseAll ends the calls that wait for the reason. Calls that begin later do not wait.
func (p *Pipe) refuseAll(why string) {
	p.mu.Lock()
	calls := p.refused
	p.refused, p.refusing = nil, true
	p.mu.Unlock()
	p.refuse(calls, why)
}

// Abandon notifies the server that a call is cancelled.
func (p *Pipe) Abandon(call *session.Call) {
	p.Enqueue(jsonrpc.Pieces{CancelNotice(call)})
}

// CancelNotice returns the notification that cancels a call.
func CancelNotice(pending *session.Call) []byte {
	params := pending.ID().AppendTo([]byte(`{"requestId":`))
	params = append(params, `,"reason":"the client gave the request up"}`...)
	return jsonrpc.AppendNotification(nil, call.MethodCancelled, params)
}

// writeAll is the writer goroutine. When the pipe ends it still writes what is queued,
// which is often a cancellation.
func (p *Pipe) writeAll(ctx context.Context) {
	defer close(p.writerDone)
	stuck := time.AfterFunc(call.Never, p.failStuck) // runs only during a write
	stuck.Stop()
	var b batch
	for {
		b = p.dequeue(b)
		if n, err := p.write(b.lines.parts, stuck); err != nil {
			// The reader finds out how the server ended, and reports it.
			if n > 0 {
				b.calls = nil
			}
			p.stopWriting(b.calls)
			time.AfterFunc(reasonTime, func() { p.refuseAll(noInput) }) // no effect if the pipe has ended
			return
		}
		b.reuse()
		select {
		case <-p.wake:
		case <-p.Dead:
			_, _ = p.write(p.dequeue(batch{}).lines.parts, stuck) // the pipe has ended; no caller waits
			return
		case <-ctx.Done():
			return
		}
	}
}

// stopWriting drops the queue and rejects further messages. The calls that were not sent,
// and unsent, wait for the reason.
func (p *Pipe) stopWriting(unsent []*session.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = slices.Concat(p.refused, unsent, p.unsent)
	p.queue, p.unsent, p.writeFailed = writeQueue{}, nil, true
}

// write writes parts in order and returns how many bytes were written. A server that
// reads nothing within the write deadline is stuck, and the pipe fails.
func (p *Pipe) write(parts [][]byte, stuck *time.Timer) (left int, err error) {
	for _, part := range parts {
		for chunk := range slices.Chunk(part, writeChunk) {
			// Each chunk has its own deadline, so that a long line to a slow server is
			// not a failure.
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

func (p *Pipe) failStuck() { p.fail(p.Lost(nil, "it did not read its input for %v", p.Write)) }

// readAll is the reader goroutine. For a large response it waits for memory if the pipe
// serves only one client.
func (p *Pipe) readAll(ctx context.Context) {
	lines := frame.NewLineReader(p.remote, p.MaxMessage)
	lines.Bound(call.NewSharedBound(ctx, &p.Calls, &p.Served))
	junk := 0
	for {
		line, err := lines.Next()
		if lines.IsAtEnd() {
			p.outputEnded()
		}
		if noRoom, ok := errors.AsType[*frame.NoRoomError](err); ok {
			p.reportAnswer(p.Drop(ctx, &p.Calls, noRoom))
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
			p.fail(p.Lost(nil, "it wrote %d lines to its output that are not messages", junk))
			return
		}
	}
}

// outputEnded stops writing to a remote end that has closed its output. It runs before
// the last line is handled, because the caller that receives that line may send the
// next request at once. Calls in progress end later, when the exit reason is known.
func (p *Pipe) outputEnded() {
	p.stopWriting(nil)
	if onEOF := p.eofHandler(); onEOF != nil {
		onEOF()
	}
	p.Slot.MarkClosing() // before the calls, because their callers may ask for a slot
	p.Calls.Close(p.Unavailable(nil, "it has closed its output"))
}

func (p *Pipe) eofHandler() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.onEOF
}

// noteJunk warns about the first invalid line and shows it: it is often a banner
// printed to the wrong stream. Later lines are only counted.
func (p *Pipe) noteJunk(ctx context.Context, n int, line []byte) {
	if n != 1 {
		return
	}
	shown := p.Sanitize(line)
	p.OtherOutput.Store(&shown)
	p.Log.LogAttrs(ctx, slog.LevelWarn, "backend wrote a line to its output that is not a message", slog.String("line", shown))
}

// endReason returns the error of the calls in progress when reading ended.
func (p *Pipe) endReason(err error) error {
	if long, ok := errors.AsType[*frame.TooLongError](err); ok {
		return p.Fault(mcp.CodeLimit, mcp.Unknown, long, "it sent a message of more than %d bytes (limits.backendMessage)", long.Limit)
	}
	how := p.remote.ExitReason(p.Served.Size())
	if how == "" {
		how = "it closed its output"
	}
	return p.Lost(err, "%s", how)
}

// handleLine processes one line. It reports false if the line is not a message.
func (p *Pipe) handleLine(line []byte) bool {
	if jsonrpc.IsBatch(line) {
		return p.handleBatch(line)
	}
	m, err := mcp.Parse(line, call.BackendLimits())
	switch {
	// An invalid response ends its call. A log line that contains an "id" does not.
	case err != nil && !m.ID.IsZero() && bytes.Contains(line, []byte("jsonrpc")):
		return p.Calls.Respond(m.ID, session.Terminal{Err: p.Malformed(err)})
	case err != nil:
		return false
	case m.Kind == mcp.KindResult || m.Kind == mcp.KindError:
		p.Respond(&p.Calls, m.ID, &m)
		p.reportAnswer(m.ID)
	default:
		if route := p.router(); route != nil {
			kept := m // copied because it escapes; most messages are responses, which do not
			route(&kept)
		}
	}
	return true
}

// reportAnswer reports a response to the handler, whatever became of its call.
func (p *Pipe) reportAnswer(id mcp.ID) {
	if settled := p.answerHandler(); settled != nil {
		settled(id)
	}
}

// handleBatch processes the elements of a batch (2025-03-26). Invalid elements do not
// affect the others, but the line then counts as invalid.
func (p *Pipe) handleBatch(line []byte) bool {
	parts, err := jsonrpc.SplitBatch(line, call.MaxBatch, call.BackendLimits())
	if err != nil {
		return false
	}
	all := true
	for _, part := range parts {
		// Batches do not nest. Nesting would also be recursion without a limit.
		if jsonrpc.IsBatch(part) || !p.handleLine(part) {
			all = false
		}
	}
	return all
}

// fail ends the pipe: its calls at once, the remote end in the background. Only the
// first error counts.
func (p *Pipe) fail(err error) {
	if !p.markEnded(faultText(err)) {
		return
	}
	// Mark the slot first, because callers may ask for one from now on. Then end the
	// calls, so that each has its error before it can see that the pipe is dead.
	p.Slot.MarkClosing()
	p.refuseAll(faultText(err))
	p.Calls.End(err)
	close(p.Dead)
	p.Group.Start(func(context.Context) { p.closeRemote() }) // bounded by remote.End
}

// closeRemote ends the remote end once, and then releases its slot.
func (p *Pipe) closeRemote() {
	p.remoteCloser.Once(func() {
		p.mu.Lock()
		why := p.why
		p.mu.Unlock()
		p.remote.End(why)
		p.Slot.Release()
	})
}

// markEnded reports true to its first caller. After it nothing is queued, so that close
// does not wait for a growing queue.
func (p *Pipe) markEnded(why string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.ended, p.why = true, why
	return true
}

// faultText describes what is wrong with the remote end, without the outcome for calls.
func faultText(err error) string {
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		return f.Message
	}
	return err.Error()
}

// Close ends the pipe and the remote end, and returns when both have ended. The writer
// gets a short time to write what is queued.
func (p *Pipe) Close(err error) {
	if p.markEnded("") {
		p.Slot.MarkClosing()
		p.refuseAll(faultText(err))
		p.Calls.End(err)
		close(p.Dead)
		call.Within(p.writerDone, NoticeTime)
	}
	p.closeRemote()
	p.Group.Close()
}
