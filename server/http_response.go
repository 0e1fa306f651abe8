// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/session"
)

const (
	jsonType   = "application/json"
	streamType = "text/event-stream"

	// maxJoined is the size up to which the parts of a message are copied into one write.
	// Beyond it, the copy costs more than a system call.
	maxJoined = 32 << 10

	// slowPiece is what a client on a slow line reads within the timeout of a write: 1.6
	// KiB per second by default.
	slowPiece = 16 << 10

	// largePiece is the part of a large response that is written under one deadline,
	// which is extended in proportion. Each write costs a system call, and wakes a
	// waiting client; over loopback it is four packets, without a fifth for a few bytes.
	// A client that has stopped reading is detected later, which is harmless for the last
	// response that it gets.
	largePiece = 4 * 63 << 10

	// lastPiece is the part of a body that is copied in front of the tail, a brace, which
	// would otherwise be a write of its own.
	lastPiece = 4 << 10

	// deadlineSlack is the fraction of the timeout within which a deadline is not moved
	// again.
	deadlineSlack = 100

	// maxReusedBuffer is the largest buffer that is kept for the next response.
	maxReusedBuffer = 64 << 10
)

// response writes one HTTP response. It belongs to the goroutine of net/http, except for
// setDeadline. After an error it writes nothing more.
type response struct {
	w         http.ResponseWriter
	rc        http.ResponseController
	timeout   time.Duration
	deadline  time.Time // the current write deadline
	buf       []byte
	err       error
	aborted   bool  // the response is incomplete and will stay so
	primed    bool  // the client has received a part of the stream
	unwritten int64 // remaining bytes of the announced length

	finalDeadline atomic.Pointer[time.Time] // set by setDeadline; nil before
	mu            sync.Mutex                // guards ended against setDeadline
	ended         bool                      // the writer belongs to net/http again, or is about to

	http2 bool // a deadline breaks the stream when it passes, even if nothing is written

	header *headerFields // storage for header values, or nil

	// The consumer of the request's exchange, allocated when first needed.
	consumer session.Consumer
	wake     chan struct{}
	grace    *time.Timer
	batch    [1]session.Message
}

func (s *Server) newResponse(w http.ResponseWriter, r *http.Request) *response {
	p, ok := s.responses.Get().(*response)
	if !ok {
		p = new(response)
	}
	p.w, p.rc, p.timeout = w, *http.NewResponseController(w), s.cfg.WriteTimeout
	p.http2 = r.ProtoMajor >= 2
	return p
}

// recycle makes the response available for reuse. It is called when ServeHTTP returns:
// the consumer is detached, so that no stream sends to wake any more, the timer has
// stopped, and the buffer is written. A response that was aborted, or got a final
// deadline, is not reused: a Handler that offers an arriving result may still refer to
// it. If the response is complete, that Handler has returned from the offer.
func (s *Server) recycle(p *response) {
	if p.aborted || p.finalDeadline.Load() != nil {
		return
	}
	buf := p.buf[:0]
	if cap(buf) > maxReusedBuffer {
		buf = nil
	}
	if len(p.wake) > 0 {
		<-p.wake // from before the consumer was detached
	}
	p.w, p.rc = nil, http.ResponseController{}
	p.deadline, p.buf, p.err, p.primed, p.unwritten, p.header = time.Time{}, buf, nil, false, 0, nil
	p.ended = false
	p.consumer, p.batch = session.Consumer{}, [1]session.Message{}
	s.responses.Put(p)
}

// headerFields are the values of two headers of a JSON response, in one allocation. They
// are not reused: a reader of the header may outlive the response.
type headerFields struct{ kind, length [1]string }

// attach attaches the response to the exchange that a request has begun.
func (p *response) attach(ir *inflightRequest) {
	p.header = &ir.header
	p.attachExchange(ir.x)
}

// attachExchange attaches the response to an exchange; the caller must detach it. This
// happens before the Handler starts and before the form of the response is known:
// appended messages wake the response, the queue determines the form, and an arriving
// result finds a consumer however early it is offered.
func (p *response) attachExchange(x *session.Exchange) {
	if p.wake == nil {
		p.wake = make(chan struct{}, 1)
	}
	x.Stream().AttachConsumer(&p.consumer, p.wake)
	p.consumer.AcceptResultStreams()
}

// graceFor returns the timer of the response, which fires in d unless it is stopped.
func (p *response) graceFor(d time.Duration) *time.Timer {
	if p.grace == nil {
		p.grace = time.NewTimer(d)
	} else {
		p.grace.Reset(d)
	}
	return p.grace
}

// writeRefusal writes the refusal.
func (p *response) writeRefusal(r *refusal) {
	if r.header[0] != "" {
		p.w.Header().Set(r.header[0], r.header[1])
	}
	m := r.message()
	p.writeJSON(&m)
}

// writeAccepted responds to a message that has no answer.
func (p *response) writeAccepted() {
	p.w.Header().Set("Content-Length", "0") // otherwise net/http announces chunks
	p.w.WriteHeader(http.StatusAccepted)
}

// writeJSON writes the message as the whole body. The length is announced, so that a
// client detects a truncated response even if the connection is closed in order.
func (p *response) writeJSON(m *session.Message) {
	p.setJSONHeader(m.Len())
	status := m.Status
	if status == 0 {
		status = http.StatusOK
	}
	p.w.WriteHeader(status)
	if m.Len() <= maxJoined && len(m.Body) > 0 {
		p.buf = append(append(append(p.buf[:0], m.Head...), m.Body...), m.Tail...)
		p.writeBody(p.buf)
		return
	}
	p.writeBody(m.Head)
	last := max(0, len(m.Body)-lastPiece)
	p.writeBody(m.Body[:last])
	p.buf = append(append(p.buf[:0], m.Body[last:]...), m.Tail...)
	p.writeBody(p.buf)
}

// setJSONHeader sets the type and length of a JSON response.
func (p *response) setJSONHeader(length int) {
	f := p.header
	if f == nil {
		f = new(headerFields)
	}
	f.kind[0], f.length[0] = jsonType, strconv.Itoa(length)
	h := p.w.Header()
	h["Content-Type"], h["Content-Length"] = f.kind[:], f.length[:]
}

// beginStream writes the header of an event stream.
func (p *response) beginStream() {
	h := p.w.Header()
	h.Set("Content-Type", streamType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	p.w.WriteHeader(http.StatusOK)
}

// writeComment writes a comment to keep the connection alive, and the header if that has
// not been written: some proxies hold a header back until data follows.
func (p *response) writeComment() {
	p.buf = frame.AppendComment(p.buf[:0], "")
	p.write(p.buf)
	p.flush()
}

// writePriming writes an event with an id and no data, with which the client can resume
// before it has received a message.
func (p *response) writePriming(id session.EventID) {
	if id.IsZero() {
		return
	}
	p.buf = frame.AppendPriming(p.buf[:0], id.String())
	p.write(p.buf)
	p.flush()
	p.primed = true
}

// writeEvent writes the message as one event, with its id if it has one, and does not
// flush.
func (p *response) writeEvent(m *session.Message) {
	id := ""
	if e := m.Event(); !e.IsZero() {
		id = e.String()
	}
	p.writeEventAs(id, m)
}

// writeEventAs is writeEvent with the given id.
func (p *response) writeEventAs(id string, m *session.Message) {
	if m.Len() <= maxJoined || !frame.IsFlat(m.Body) {
		p.buf = frame.AppendEvent(p.buf[:0], id, m.Head, m.Body, m.Tail)
		p.write(p.buf)
		return
	}
	// A large body without line breaks is written without a copy.
	p.buf = append(p.buf[:0], "event: message\n"...)
	if id != "" {
		p.buf = append(append(append(p.buf, "id: "...), id...), '\n')
	}
	p.write(append(p.buf, "data: "...))
	p.write(m.Head)
	p.write(m.Body)
	p.write(m.Tail)
	p.write([]byte("\n\n"))
}

// write writes a part of a stream. Each piece has its own deadline: the response as a
// whole may take any time.
func (p *response) write(b []byte) { p.writePieces(slowPiece, b) }

// writeBody writes a part of a response that is one object.
func (p *response) writeBody(b []byte) { p.writePieces(largePiece, b) }

func (p *response) writePieces(size int, b []byte) {
	for len(b) > 0 && p.err == nil {
		n := min(len(b), size)
		p.extendDeadline(n)
		_, p.err = p.w.Write(b[:n]) //nolint:gosec // the body is JSON or an event stream, as its Content-Type declares
		b = b[n:]
	}
}

// flush sends what was written (I11). It has a deadline like a write, because net/http
// writes to the network here.
func (p *response) flush() {
	if p.err == nil {
		p.extendDeadline(0)
		p.err = p.rc.Flush()
		p.clearDeadline()
	}
}

// clearDeadline is called when the next write has to wait for an event. A deadline of a
// connection may stay; that of an HTTP/2 stream is a timer, which breaks the stream when
// it fires, and so it is removed.
func (p *response) clearDeadline() {
	if !p.http2 {
		return
	}
	p.deadline = time.Time{}
	p.applyDeadline(p.deadline)
}

// extendDeadline sets the deadline for the next write, of n bytes. The deadline moves
// with each piece, so that a long stream is never late (M054). A write that follows at
// once keeps the deadline of the piece before.
func (p *response) extendDeadline(n int) {
	now := time.Now()
	slow := (n + slowPiece - 1) / slowPiece
	until := now.Add(p.timeout * time.Duration(max(slow, 1)))
	if until.Sub(p.deadline) < p.timeout/deadlineSlack {
		return
	}
	p.deadline = until
	p.applyDeadline(until)
}

// applyDeadline sets the write deadline, none if it is zero, unless there is a final one.
func (p *response) applyDeadline(until time.Time) {
	// A writer without deadlines has no slow client either.
	_ = p.rc.SetWriteDeadline(until)
	if last := p.finalDeadline.Load(); last != nil { // checked after the deadline was moved, which setDeadline may have set
		_ = p.rc.SetWriteDeadline(*last)
	}
}

// setDeadline sets a final deadline for all that is still to be written. Unlike the other
// methods it may be called by any goroutine, and after the response has ended: it does
// nothing then.
func (p *response) setDeadline(by time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.finalDeadline.Store(&by)
	_ = p.rc.SetWriteDeadline(by)
}

// end flushes what net/http still buffers, while there is a deadline, and then removes
// the deadline, so that it does not hit the next response on the connection.
//
// An aborted response must not look complete to a client that has closed only its sending
// side and still reads: the connection is broken.
func (p *response) end() {
	if !p.aborted {
		p.flush()
	}
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	if p.aborted {
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http breaks the connection for it and logs nothing
	}
	_ = p.rc.SetWriteDeadline(time.Time{})
}

// writeStream writes the messages of the consumer until the stream has ended, another
// consumer has attached, the time for this response is over, the client is gone, or a
// write fails. The result is Ended if everything was written, Paused if the client must
// reconnect for the rest, and Open if the client is gone. Messages that were taken and
// could not be written go back to the stream.
func (p *response) writeStream(c *session.Consumer, opts streamOptions) session.State {
	quiet := time.NewTimer(opts.keepAlive)
	defer quiet.Stop()
	life, stop := lifeTimer(opts.maxLife)
	defer stop()
	batch, state := c.Take(p.batch[:0])
	if len(batch) == 0 && state == session.Open && !p.primed {
		p.writeComment() // writes the header, too
	}
	for ; ; batch, state = c.Take(batch[:0]) {
		if len(batch) > 0 {
			p.writeEvents(batch)
			quiet.Reset(opts.keepAlive)
		}
		// The system accepts the first write to a client that has just disconnected.
		if p.err != nil || state == session.Open && isClosed(opts.gone) {
			c.Requeue(batch)
			return session.Open
		}
		clear(batch) // keep nothing that was written
		if len(batch) > 0 && opts.onWrite != nil {
			opts.onWrite()
		}
		switch {
		case state != session.Open:
			return state
		case len(batch) > 0:
			continue
		}
		select {
		case <-c.Wake():
		case <-quiet.C:
			p.writeComment()
			quiet.Reset(opts.keepAlive)
		case <-life:
			return session.Paused
		case <-opts.gone:
			return session.Open
		}
	}
}

// writeEvents writes messages and flushes.
func (p *response) writeEvents(batch []session.Message) {
	for i := range batch {
		p.writeEvent(&batch[i])
	}
	p.flush()
}

// lifeTimer returns a channel that receives once in d, and never if d is zero, and a
// function to stop it.
func lifeTimer(d time.Duration) (<-chan time.Time, func()) {
	if d <= 0 {
		return nil, func() {}
	}
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
