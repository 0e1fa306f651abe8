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
type mux struct {
	w    io.Writer
	gone func(error) // called once, when writing has failed
	wake chan struct{}

	// Of run, which uses them again.
	buf   []byte
	batch []session.Message
	round []*tap

	mu      sync.Mutex
	taps    []*tap
	closing bool
	failed  bool          // nothing is written any more, and all is taken still
	changed chan struct{} // closed when a tap goes and somebody waits
}

// tap is one stream of a pipe.
type tap struct {
	carrier  *session.Consumer
	stream   *session.Stream
	since    time.Time
	standing bool    // lives as long as the pipe
	flight   *flight // of a request
	id       mcp.ID
}

// newMux returns the mux of a writer. gone is called on the goroutine of run, at
// most once, when the writer fails.
func newMux(w io.Writer, gone func(error)) *mux {
	return &mux{w: w, gone: gone, wake: make(chan struct{}, 1)}
}

// stand adds a stream that lives as long as the pipe.
func (x *mux) stand(s *session.Stream) {
	x.add(&tap{carrier: s.Attach(x.wake), stream: s, standing: true})
}

// follow adds the stream of a request.
func (x *mux) follow(r *session.Exchange, fl *flight) {
	x.add(&tap{carrier: r.Stream().Attach(x.wake), since: time.Now(), flight: fl, id: r.ID()})
}

// add has run serve the stream from its next round on, and wakes it: the stream
// may have something to say already.
func (x *mux) add(t *tap) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taps = append(x.taps, t)
	x.nudge()
}

// nudge wakes run. The channel holds one, which is enough: run asks each stream
// whether it was woken.
func (x *mux) nudge() {
	select {
	case x.wake <- struct{}{}:
	default: // it is awake
	}
}

// close has run return when all that waits is written. Streams that have not
// ended by then are let go.
func (x *mux) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closing = true
	x.nudge()
}

// run writes until close. When writing fails it goes on taking, so that nobody
// waits for a client that is gone.
func (x *mux) run() { x.runWith(nil, nil) }

// runWith is run with a sign of life at each beat.
func (x *mux) runWith(beat <-chan time.Time, live func() error) {
	for {
		if x.serveAll() {
			x.detach()
			return
		}
		select {
		case <-x.wake:
		case <-beat:
			x.note(live())
		}
	}
}

// serveAll writes what waits on all streams. Of those that have nothing new to say
// nothing is locked: with many requests in flight each message would otherwise cost a
// look at all of them. It reports whether that was all there will be.
func (x *mux) serveAll() (closing bool) {
	closing = x.look()
	for _, t := range x.round {
		if t.carrier.Woken() {
			x.serve(t)
		}
	}
	clear(x.round) // of what has ended nothing is kept
	return closing
}

// look copies what is to be served, because writing may take long and the reader must
// be able to add streams meanwhile (I29).
func (x *mux) look() (closing bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.round = append(x.round[:0], x.taps...)
	return x.closing
}

// serve writes what waits on one stream.
func (x *mux) serve(t *tap) {
	// Until it is empty, because a carrier is woken once for all that it has by then.
	for {
		batch, state := t.carrier.Take(x.batch[:0])
		for i := range batch {
			x.line(&batch[i])
		}
		empty := len(batch) == 0
		clear(batch)
		x.batch = batch
		if state != session.Open {
			x.farewell(t)
			x.remove(t)
			return
		}
		if empty {
			return
		}
	}
}

// farewell says that a subscription is over which we have ended: on a pipe there
// is no stream of its own to close (2026-07-28, basic/patterns/cancellation).
func (x *mux) farewell(t *tap) {
	if t.flight == nil || t.flight.kind != listen || !t.flight.tornDown.Load() {
		return
	}
	params := append([]byte(`{"requestId":`), t.id.String()...)
	x.line(&session.Message{Head: mcp.AppendNotification(nil, "notifications/cancelled", append(params, '}'))})
}

// line writes a message as one line. A large body goes out as it is, without a
// copy, unless it has line breaks, which JSON allows between its tokens and a
// line does not (2025-11-25, basic/transports, "stdio").
func (x *mux) line(m *session.Message) {
	if m.Len() > joinUpTo && frame.IsFlat(m.Body) {
		x.write(m.Head)
		x.write(m.Body)
		x.write(frame.AppendLine(x.buf[:0], m.Tail))
		return
	}
	x.buf = frame.AppendLine(x.buf[:0], m.Head, m.Body, m.Tail)
	x.write(x.buf)
	if cap(x.buf) > joinUpTo {
		x.buf = nil // one large message is no reason to keep as much
	}
}

// write writes, or does nothing once that has failed: what a broken pipe lost in
// the middle of a line can not be mended by the next one.
func (x *mux) write(b []byte) {
	if x.hasFailed() || len(b) == 0 {
		return
	}
	_, err := x.w.Write(b)
	x.note(err)
}

// note has nothing written any more once writing has failed.
func (x *mux) note(err error) {
	if err == nil || x.hasFailed() {
		return
	}
	x.fail()
	x.gone(fmt.Errorf("the client no longer reads: %w", err))
}

func (x *mux) hasFailed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failed
}

func (x *mux) fail() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed = true
}

// remove lets go of a stream that has ended, and tells those who wait for room.
func (x *mux) remove(t *tap) {
	t.carrier.Detach()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taps = slices.DeleteFunc(x.taps, func(o *tap) bool { return o == t })
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// part lets go of the requests that began before a time, whose answers are not written, and
// returns them.
func (x *mux) part(before time.Time) (flights []*flight) {
	for _, t := range x.snapshot() {
		if t.flight != nil && (t.since.Before(before) || t.flight.kind == listen) {
			x.remove(t)
			flights = append(flights, t.flight)
		}
	}
	return flights
}

// drop lets go of a stream that lives as long as the pipe.
func (x *mux) drop(s *session.Stream) {
	for _, t := range x.snapshot() {
		if t.stream == s {
			x.remove(t)
		}
	}
}

// detach lets go of all streams, because nothing is written any more.
func (x *mux) detach() {
	for _, t := range x.snapshot() {
		t.carrier.Detach()
	}
}

// snapshot copies the streams, because nothing foreign is called under a lock (I29).
func (x *mux) snapshot() []*tap {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.taps)
}

// settle waits until no more than most requests have something left to be
// written, or until ctx ends.
func (x *mux) settle(ctx context.Context, most int) {
	for {
		busy, changed := x.busy()
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
func (x *mux) busy() (int, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changed == nil {
		x.changed = make(chan struct{})
	}
	n := 0
	for _, t := range x.taps {
		if !t.standing {
			n++
		}
	}
	return n, x.changed
}

// tearDown ends the subscriptions of the pipe.
func (x *mux) tearDown(why error) {
	for _, t := range x.snapshot() {
		if t.flight != nil && t.flight.kind == listen {
			t.flight.tornDown.Store(true)
			t.flight.stop.End(why)
		}
	}
}
