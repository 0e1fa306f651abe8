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
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// mux carries all streams of a pipe on its one writer. Streams are added by the
// goroutine that reads; run belongs to the goroutine that writes.
type pipeWriter struct {
	out     io.Writer
	onError func(error) // called once, when writing has failed
	wake    chan struct{}

	// Of run, which uses them again.
	buf     []byte
	batch   []session.Message
	current []*pipeStream

	mu      sync.Mutex
	streams []*pipeStream
	closing bool
	failed  bool          // nothing is written any more, and all is taken still
	changed chan struct{} // closed when a tap goes and somebody waits
}

// tap is one stream of a pipe.
type pipeStream struct {
	consumer  *session.Consumer
	stream    *session.Stream
	since     time.Time
	permanent bool      // lives as long as the pipe
	request   *inflight // of a request
	id        mcp.ID
}

// newMux returns the mux of a writer. gone is called on the goroutine of run, at
// most once, when the writer fails.
func newPipeWriter(w io.Writer, gone func(error)) *pipeWriter {
	return &pipeWriter{out: w, onError: gone, wake: make(chan struct{}, 1)}
}

// stand adds a stream that lives as long as the pipe.
func (w *pipeWriter) addPermanent(s *session.Stream) {
	w.add(&pipeStream{consumer: s.Attach(w.wake), stream: s, permanent: true})
}

// follow adds the stream of a request.
func (w *pipeWriter) addRequest(r *session.Exchange, entry *inflight) {
	w.add(&pipeStream{consumer: r.Stream().Attach(w.wake), since: time.Now(), request: entry, id: r.ID()})
}

// add has run serve the stream from its next round on, and wakes it: the stream
// may have something to say already.
func (w *pipeWriter) add(ps *pipeStream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams = append(w.streams, ps)
	w.signal()
}

// nudge wakes run. The channel holds one, which is enough: run asks each stream
// whether it was woken.
func (w *pipeWriter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
}

// close has run return when all that waits is written. Streams that have not
// ended by then are let go.
func (w *pipeWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	w.signal()
}

// run writes until close. When writing fails it goes on taking, so that nobody
// waits for a client that is gone.
func (w *pipeWriter) run() { w.runWith(nil, nil) }

// runWith is run with a sign of life at each beat.
func (w *pipeWriter) runWith(beat <-chan time.Time, live func() error) {
	for {
		if w.writeAll() {
			w.detach()
			return
		}
		select {
		case <-w.wake:
		case <-beat:
			w.recordError(live())
		}
	}
}

// serveAll writes what waits on all streams. Of those that have nothing new to say
// nothing is locked: with many requests in flight each message would otherwise cost a
// look at all of them. It reports whether that was all there will be.
func (w *pipeWriter) writeAll() (closing bool) {
	closing = w.collect()
	for _, ps := range w.current {
		if ps.consumer.Woken() {
			w.writeStream(ps)
		}
	}
	clear(w.current) // of what has ended nothing is kept
	return closing
}

// look copies what is to be served, because writing may take long and the reader must
// be able to add streams meanwhile (I29).
func (w *pipeWriter) collect() (closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = append(w.current[:0], w.streams...)
	return w.closing
}

// serve writes what waits on one stream.
func (w *pipeWriter) writeStream(ps *pipeStream) {
	// Until it is empty, because a carrier is woken once for all that it has by then.
	for {
		batch, state := ps.consumer.Take(w.batch[:0])
		for i := range batch {
			w.writeLine(&batch[i])
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

// farewell says that a subscription is over which we have ended: on a pipe there
// is no stream of its own to close (2026-07-28, basic/patterns/cancellation).
func (w *pipeWriter) endSubscription(ps *pipeStream) {
	if ps.request == nil || ps.request.kind != kindListen || !ps.request.tornDown.Load() {
		return
	}
	params := append([]byte(`{"requestId":`), ps.id.String()...)
	w.writeLine(&session.Message{Head: mcp.AppendNotification(nil, "notifications/cancelled", append(params, '}'))})
}

// line writes a message as one line. A large body goes out as it is, without a
// copy, unless it has line breaks, which JSON allows between its tokens and a
// line does not (2025-11-25, basic/transports, "stdio").
func (w *pipeWriter) writeLine(m *session.Message) {
	if m.Len() > maxJoined && frame.IsFlat(m.Body) {
		w.write(m.Head)
		w.write(m.Body)
		w.write(frame.AppendLine(w.buf[:0], m.Tail))
		return
	}
	w.buf = frame.AppendLine(w.buf[:0], m.Head, m.Body, m.Tail)
	w.write(w.buf)
	if cap(w.buf) > maxJoined {
		w.buf = nil // one large message is no reason to keep as much
	}
}

// write writes, or does nothing once that has failed: what a broken pipe lost in
// the middle of a line can not be mended by the next one.
func (w *pipeWriter) write(b []byte) {
	if w.hasFailed() || len(b) == 0 {
		return
	}
	_, err := w.out.Write(b)
	w.recordError(err)
}

// note has nothing written any more once writing has failed.
func (w *pipeWriter) recordError(err error) {
	if err == nil || w.hasFailed() {
		return
	}
	w.fail()
	w.onError(fmt.Errorf("the client no longer reads: %w", err))
}

func (w *pipeWriter) hasFailed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *pipeWriter) fail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = true
}

// remove lets go of a stream that has ended, and tells those who wait for room.
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

// part lets go of the requests that began before a time, whose answers are not written, and
// returns them.
func (w *pipeWriter) dropRequests(before time.Time) (flights []*inflight) {
	for _, ps := range w.snapshot() {
		if ps.request != nil && (ps.since.Before(before) || ps.request.kind == kindListen) {
			w.remove(ps)
			flights = append(flights, ps.request)
		}
	}
	return flights
}

// drop lets go of a stream that lives as long as the pipe.
func (w *pipeWriter) dropStream(s *session.Stream) {
	for _, ps := range w.snapshot() {
		if ps.stream == s {
			w.remove(ps)
		}
	}
}

// detach lets go of all streams, because nothing is written any more.
func (w *pipeWriter) detach() {
	for _, ps := range w.snapshot() {
		ps.consumer.Detach()
	}
}

// snapshot copies the streams, because nothing foreign is called under a lock (I29).
func (w *pipeWriter) snapshot() []*pipeStream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.streams)
}

// settle waits until no more than most requests have something left to be
// written, or until ctx ends.
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

// busy counts the requests whose answers are not written, and returns a channel
// that is closed when that is worth another look.
func (w *pipeWriter) busy() (int, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	n := 0
	for _, ps := range w.streams {
		if !ps.permanent {
			n++
		}
	}
	return n, w.changed
}

// tearDown ends the subscriptions of the pipe.
func (w *pipeWriter) tearDown(why error) {
	for _, ps := range w.snapshot() {
		if ps.request != nil && ps.request.kind == kindListen {
			ps.request.tornDown.Store(true)
			ps.request.stop.End(why)
		}
	}
}
