// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
)

// pipeWriter writes all streams of a pipe to its one writer. The goroutine that reads
// adds streams; run belongs to the goroutine that writes.
type pipeWriter struct {
	out     io.Writer
	onError func(error) // called once, when a write has failed
	wake    chan struct{}

	// Used by run only.
	failed  bool   // nothing is written any more, and messages are discarded
	buf     []byte // reused, as are the others
	batch   []session.Message
	current []*pipeStream

	mu      sync.Mutex
	streams []*pipeStream
	closing bool
	changed chan struct{} // closed when a stream is removed and a goroutine waits
}

// pipeStream is one stream of a pipe.
type pipeStream struct {
	consumer *session.Consumer
	stream   *session.Stream
	since    time.Time
	request  *inflight // of the stream; nil if the stream lives as long as the pipe
}

// newPipeWriter returns the pipeWriter of a writer. It calls onError on the goroutine of
// run, at most once, when a write fails.
func newPipeWriter(w io.Writer, gone func(error)) *pipeWriter {
	return &pipeWriter{out: w, onError: gone, wake: make(chan struct{}, 1)}
}

// add adds a stream for the next round of run, and wakes it: the stream may have messages
// already. The request is nil if the stream lives as long as the pipe.
func (w *pipeWriter) add(s *session.Stream, request *inflight) {
	ps := &pipeStream{consumer: s.Attach(w.wake), stream: s, since: time.Now(), request: request}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams = append(w.streams, ps)
	w.signal()
}

// signal wakes run. The channel holds one signal, which is enough: run checks for each
// stream whether it was woken.
func (w *pipeWriter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
}

// close makes run return once all queued messages are written. Streams that have not
// ended by then are detached.
func (w *pipeWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	w.signal()
}

// run writes until close, and calls live at each tick of beat, if that is not nil. After
// a failed write it discards all further messages, so that no Handler blocks on a client
// that is gone.
func (w *pipeWriter) run(beat <-chan time.Time, live func() error) {
	for {
		if w.writeAll() {
			for _, ps := range w.snapshot() {
				ps.consumer.Detach()
			}
			return
		}
		select {
		case <-w.wake:
		case <-beat:
			w.recordError(live())
		}
	}
}

// writeAll writes the messages of all streams, and reports whether the writer is closing.
// It takes no lock of a stream without new messages: with many requests in flight, each
// message would otherwise cost a check of all of them.
func (w *pipeWriter) writeAll() (closing bool) {
	closing = w.collect()
	for _, ps := range w.current {
		if ps.consumer.Woken() {
			w.writeStream(ps)
		}
	}
	clear(w.current) // keep nothing of streams that have ended
	return closing
}

// collect copies the list of streams, because writing may take long and the reader must
// be able to add streams meanwhile (I29).
func (w *pipeWriter) collect() (closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = append(w.current[:0], w.streams...)
	return w.closing
}

func (w *pipeWriter) writeStream(ps *pipeStream) {
	// Until the queue is empty, because a consumer is woken once for all its messages.
	for {
		batch, state := ps.consumer.Take(w.batch[:0])
		for i := range batch {
			w.writeLine(&batch[i])
			if !w.failed {
				batch[i].Timeline.Delivered()
			}
		}
		empty := len(batch) == 0
		clear(batch)
		w.batch = batch
		if state != session.Open {
			w.endSubscription(ps)
			w.remove(ps)
			return
		}
		if empty {
			return
		}
	}
}

// endSubscription sends a cancel for a subscription that we have ended: on a pipe it has
// no stream of its own that could be closed (2026-07-28, basic/patterns/cancellation).
func (w *pipeWriter) endSubscription(ps *pipeStream) {
	if ps.request == nil || ps.request.kind != kindListen || !ps.request.tornDown.Load() {
		return
	}
	params := append([]byte(`{"requestId":`), ps.request.x.ID().String()...)
	w.writeLine(&session.Message{Head: jsonrpc.AppendNotification(nil, "notifications/cancelled", append(params, '}'))})
}

// writeLine writes a message as one line. A large message is written without a copy,
// unless it has line breaks, which JSON allows between its tokens and a line does not
// (2025-11-25, basic/transports, "stdio").
func (w *pipeWriter) writeLine(m *session.Message) {
	if m.Len() > maxJoined && isFlat(m) {
		w.write(m.Head)
		w.write(m.Body)
		w.write(frame.AppendLine(w.buf[:0], m.Tail))
		return
	}
	w.buf = frame.AppendLine(w.buf[:0], m.Head, m.Body, m.Tail)
	w.write(w.buf)
	if cap(w.buf) > maxJoined {
		w.buf = nil // a large buffer is not kept after one large message
	}
}

// write writes b, or does nothing after a failed write: the next line cannot repair one
// that was cut in the middle.
func (w *pipeWriter) write(b []byte) {
	if w.failed || len(b) == 0 {
		return
	}
	_, err := w.out.Write(b)
	w.recordError(err)
}

// recordError stops all further writes if err is not nil.
func (w *pipeWriter) recordError(err error) {
	if err != nil && !w.failed {
		w.failed = true
		w.onError(fmt.Errorf("the client no longer reads: %w", err))
	}
}

// remove removes a stream that has ended, and wakes the goroutines that wait for one to
// end.
func (w *pipeWriter) remove(ps *pipeStream) {
	ps.consumer.Detach()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams = slices.DeleteFunc(w.streams, func(other *pipeStream) bool { return other == ps })
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// dropRequests removes all listens, and the requests that began before the given time and
// are not yet answered. It returns what it removed.
func (w *pipeWriter) dropRequests(before time.Time) (dropped []*inflight) {
	for _, ps := range w.snapshot() {
		if ps.request != nil && (ps.since.Before(before) || ps.request.kind == kindListen) {
			w.remove(ps)
			dropped = append(dropped, ps.request)
		}
	}
	return dropped
}

func (w *pipeWriter) dropStream(s *session.Stream) {
	for _, ps := range w.snapshot() {
		if ps.stream == s {
			w.remove(ps)
		}
	}
}

// snapshot copies the list of streams, because no other code is called under the lock
// (I29).
func (w *pipeWriter) snapshot() []*pipeStream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.streams)
}

// waitBusy waits until at most the given number of requests have messages left to write,
// or ctx ends.
func (w *pipeWriter) waitBusy(ctx context.Context, most int) {
	for {
		busy, changed := w.busy()
		if busy <= most {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// busy counts the requests with answers still to be written, and returns a channel that
// is closed when the count may have changed.
func (w *pipeWriter) busy() (int, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	n := 0
	for _, ps := range w.streams {
		if ps.request != nil {
			n++
		}
	}
	return n, w.changed
}

// tearDown ends the subscriptions of the pipe.
func (w *pipeWriter) tearDown(why error) {
	for _, ps := range w.snapshot() {
		if ps.request != nil && ps.request.kind == kindListen {
			ps.request.tearDown(why)
		}
	}
}
