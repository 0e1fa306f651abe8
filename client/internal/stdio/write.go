// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Limits of the writer.
const (
	maxQueued  = 64 << 20 // bytes that wait to be written
	writeChunk = 64 << 10 // bytes that one write deadline covers
)

// writeState is what becomes of a call that begins.
type writeState uint8

const (
	open     writeState = iota // it is queued
	broken                     // nothing can be written any more, and the call waits for the reason
	refusing                   // it is refused at once
)

// reasonTime is how long a call that was not sent waits for the reason: a process that
// has ended has closed its input first.
const reasonTime = time.Second

// noInput is why a call is refused if nothing more is known.
const noInput = "it does not read its input"

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

// Begin sends a call's request. The call counts as dispatched once part of its batch is
// written.
func (p *Pipe) Begin(c *session.Call, msg jsonrpc.Pieces) {
	p.mu.Lock()
	why, reason := "", ""
	switch {
	case p.enqueueLocked(msg):
		p.queue.calls = append(p.queue.calls, c)
	case p.writing == broken && !p.ended:
		p.unsent = append(p.unsent, c)
	default:
		why, reason = cmp.Or(p.why, noInput), p.reason
	}
	p.mu.Unlock()
	if why != "" {
		p.refuse(c, why, reason)
	}
}

// Abandon notifies the server that a call is cancelled.
func (p *Pipe) Abandon(c *session.Call) { p.Enqueue(jsonrpc.Pieces{CancelNotice(c)}) }

// CancelNotice returns the notification that cancels a call.
func CancelNotice(c *session.Call) []byte {
	params := c.ID().AppendTo([]byte(`{"requestId":`))
	params = append(params, `,"reason":"the client gave the request up"}`...)
	return jsonrpc.AppendNotification(nil, call.MethodCancelled, params)
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

// enqueueLocked bounds the queue in bytes.
func (p *Pipe) enqueueLocked(msg jsonrpc.Pieces) bool {
	if p.ended || p.writing != open || p.queue.lines.size+msg.Len() > maxQueued {
		return false
	}
	p.queue.lines.add(msg)
	select {
	case p.wake <- struct{}{}:
	default: // already signalled
	}
	return true
}

// dequeue returns all that is queued, and takes an empty batch to reuse its memory. So
// the writer holds no lock while it writes.
func (p *Pipe) dequeue(empty batch) batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.queue
	p.queue = empty
	return b
}

// writeAll is the writer goroutine. When the pipe ends it still writes what is queued,
// which is often a cancellation.
func (p *Pipe) writeAll(ctx context.Context) {
	defer close(p.writerDone)
	stuck := time.AfterFunc(call.Never, func() { // runs only during a write
		p.fail(p.Lost(nil, "it did not read its input for %v", p.Write))
	})
	stuck.Stop()
	var b batch
	for {
		b = p.dequeue(b)
		for _, c := range b.calls {
			c.Timeline().Mark(mcp.StageSent) // before the write, which may be answered before it returns
		}
		if n, err := p.write(b.lines.parts, stuck); err != nil {
			// The reader finds out how the server ended, and reports it.
			if n > 0 {
				b.calls = nil
			}
			for _, c := range b.calls {
				c.Timeline().Unmark(mcp.StageSent)
			}
			p.stopWriting(b.calls)
			time.AfterFunc(reasonTime, func() { p.refuseUnsent(noInput, "") }) // no effect if the pipe has ended
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

// write writes parts in order and returns how many bytes were written. A server that
// reads nothing within the write deadline is stuck, and the pipe fails.
func (p *Pipe) write(parts [][]byte, stuck *time.Timer) (written int, err error) {
	for _, part := range parts {
		for chunk := range slices.Chunk(part, writeChunk) {
			// Each chunk has its own deadline, so that a long line to a slow server is
			// not a failure.
			stuck.Reset(p.Write)
			n, err := p.remote.Write(chunk)
			written += n
			stuck.Stop()
			if err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// stopWriting drops the queue and rejects further messages. The calls that were not
// sent, with those of unsent, wait for the reason.
func (p *Pipe) stopWriting(unsent []*session.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsent = slices.Concat(p.unsent, unsent, p.queue.calls)
	p.queue = batch{}
	p.writing = max(p.writing, broken)
}

// refuseUnsent ends the calls that wait for the reason. Calls that begin later do not
// wait.
func (p *Pipe) refuseUnsent(why, reason string) {
	p.mu.Lock()
	calls := p.unsent
	p.unsent, p.writing = nil, refusing
	p.mu.Unlock()
	for _, c := range calls {
		p.refuse(c, why, reason)
	}
}

// refuse ends a call that was not sent.
func (p *Pipe) refuse(c *session.Call, why, reason string) {
	c.Finish(session.Terminal{Err: call.Because(reason, p.Unavailable(nil, "%s", why))})
}
