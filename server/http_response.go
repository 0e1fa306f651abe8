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

	// joinUpTo is the size up to which the parts of a message are copied into
	// one write. Beyond, the copy costs more than the system call.
	maxJoined = 32 << 10

	// slowPiece is what a client on a slow line takes in the time of a write: by
	// default that is 1.6 KiB in a second.
	slowPiece = 16 << 10

	// largePiece is as much of a large answer as is written under one deadline, which
	// is so much later. Each costs a system call, and wakes the client if it waits; over
	// loopback it is four packets, and not a fifth for a few bytes. A client that has
	// stopped to read such an answer is noticed later for it, which is no loss to
	// anybody: it is the client's last.
	largePiece = 4 * 63 << 10

	// lastPiece is how much of a body is copied before what follows it, which would
	// otherwise be a piece of its own, and is a brace.
	lastPiece = 4 << 10

	// sameMoment is the part of the time of a piece in which another needs no
	// deadline of its own.
	deadlineSlack = 100

	// keptBuffer is the largest buffer that a response leaves to the next.
	maxReusedBuffer = 64 << 10
)

// response writes one HTTP response. It belongs to the goroutine that net/http
// gave it, but for hurry. After an error nothing more is written.
type response struct {
	w         http.ResponseWriter
	rc        http.ResponseController
	timeout   time.Duration
	deadline  time.Time // the deadline
	buf       []byte
	err       error
	aborted   bool  // the answer is not complete and never will be
	primed    bool  // the client has had something of the stream
	unwritten int64 // of the announced length of a body that is written piece by piece

	finalDeadline atomic.Pointer[time.Time] // when it is to be over; nil while nobody is in a hurry
	mu            sync.Mutex                // of over, which ends what hurry may do
	ended         bool                      // net/http has its writer back, or is about to

	http2 bool // a deadline breaks the stream when it comes, also where nothing is written

	header *headerFields // where those of the header are to stand, or nil

	// What carries the exchange of a request, made when it is needed first.
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

// reuse leaves what a response is made of to another. It is called where ServeHTTP
// returns: by then the carrier has detached, after which no stream wakes anybody, and
// the timer has stopped; and what was written has left the buffer. One that was cut,
// or hurried, is not left to anybody: whoever offers a result that arrives may know of
// it still, and has returned from that where the answer is whole.
func (s *Server) recycle(p *response) {
	if p.aborted || p.finalDeadline.Load() != nil {
		return
	}
	buf := p.buf[:0]
	if cap(buf) > maxReusedBuffer {
		buf = nil
	}
	if len(p.wake) > 0 {
		<-p.wake // from before it has detached
	}
	p.w, p.rc = nil, http.ResponseController{}
	p.deadline, p.buf, p.err, p.primed, p.unwritten, p.header = time.Time{}, buf, nil, false, 0, nil
	p.ended = false
	p.consumer, p.batch = session.Consumer{}, [1]session.Message{}
	s.responses.Put(p)
}

// fields are the values of the header of an answer that is one object, its type and its
// length, in one piece. They are left to nobody: whoever has the header may look at it
// when the response is another's already.
type headerFields struct{ kind, length [1]string }

// follow makes the response the carrier of the exchange that a task has begun.
func (p *response) attach(ir *inflightRequest) {
	p.header = &ir.header
	p.attachExchange(ir.x)
}

// carry makes the response the carrier of an exchange, for which it must detach. It
// does so before the Handler begins and before the form of the answer is known: what is
// appended wakes the response, what is in the queue is what decides, and a result that
// arrives finds who can take it, however early it is offered.
func (p *response) attachExchange(x *session.Exchange) {
	if p.wake == nil {
		p.wake = make(chan struct{}, 1)
	}
	x.Stream().AttachConsumer(&p.consumer, p.wake)
	p.consumer.AcceptResultStreams()
}

// graceFor returns the timer of the response, which goes off in d unless it is
// stopped.
func (p *response) graceFor(d time.Duration) *time.Timer {
	if p.grace == nil {
		p.grace = time.NewTimer(d)
	} else {
		p.grace.Reset(d)
	}
	return p.grace
}

// refuse writes the refusal.
func (p *response) writeRefusal(r *refusal) {
	if r.header[0] != "" {
		p.w.Header().Set(r.header[0], r.header[1])
	}
	m := r.message()
	p.writeJSON(&m)
}

// accepted answers what has no answer.
func (p *response) writeAccepted() {
	p.w.Header().Set("Content-Length", "0") // else net/http announces chunks
	p.w.WriteHeader(http.StatusAccepted)
}

// json writes the message as the whole body. Its length is announced, so that a
// client sees that an answer was cut even where the connection closes in order.
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

// announce says that the answer is JSON of that length.
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

// comment writes a sign of life, and the header with it where that was not
// written yet: there are proxies that hold a header back until something follows.
func (p *response) writeComment() {
	p.buf = frame.AppendComment(p.buf[:0], "")
	p.write(p.buf)
	p.flush()
}

// prime writes the event that a client can come back with before it has seen any
// message.
func (p *response) writePriming(id session.EventID) {
	if id.IsZero() {
		return
	}
	p.buf = frame.AppendPriming(p.buf[:0], id.String())
	p.write(p.buf)
	p.flush()
	p.primed = true
}

// event writes the message as one event, without flushing, with its id where it
// has one.
func (p *response) writeEvent(m *session.Message) {
	id := ""
	if e := m.Event(); !e.IsZero() {
		id = e.String()
	}
	p.writeEventAs(id, m)
}

// eventAs is event with another id.
func (p *response) writeEventAs(id string, m *session.Message) {
	if m.Len() <= maxJoined || !frame.IsFlat(m.Body) {
		p.buf = frame.AppendEvent(p.buf[:0], id, m.Head, m.Body, m.Tail)
		p.write(p.buf)
		return
	}
	// A large body is written as it is: it has no line breaks.
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

// write writes what belongs to a stream. Each piece has its own time: a response as a
// whole may take any.
func (p *response) write(b []byte) { p.writePieces(slowPiece, b) }

// pour writes what belongs to an answer that is one object.
func (p *response) writeBody(b []byte) { p.writePieces(largePiece, b) }

func (p *response) writePieces(size int, b []byte) {
	for len(b) > 0 && p.err == nil {
		n := min(len(b), size)
		p.extendDeadline(n)
		_, p.err = p.w.Write(b[:n]) //nolint:gosec // the body is JSON or an event stream, by its type and by its making
		b = b[n:]
	}
}

// flush sends what was written (I11). It has a deadline like a write, because
// that is where net/http meets the network.
func (p *response) flush() {
	if p.err == nil {
		p.extendDeadline(0)
		p.err = p.rc.Flush()
		p.clearDeadline()
	}
}

// rest is for when nothing is written until something happens. The deadline of a
// connection of its own waits as well; that of a stream of HTTP/2 is a timer, which
// breaks the stream when it goes off, and so it is taken back.
func (p *response) clearDeadline() {
	if !p.http2 {
		return
	}
	p.deadline = time.Time{}
	p.applyDeadline(p.deadline)
}

// extend gives the next write, of n bytes, its time. The deadline is one of the
// connection, and moves with each piece, so that a long stream is never late (M054);
// what follows at once has that of the piece before.
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

// move moves the deadline, to never where it is zero, unless somebody is in a hurry.
func (p *response) applyDeadline(until time.Time) {
	// A writer that knows no deadlines has no slow client either.
	_ = p.rc.SetWriteDeadline(until)
	if last := p.finalDeadline.Load(); last != nil { // looked at after the deadline was moved, which hurry may have set
		_ = p.rc.SetWriteDeadline(*last)
	}
}

// hurry has all that is still to be written be written by then, or not at all. Unlike
// all else of a response it may be called by another goroutine, and when all is over:
// it does nothing then.
func (p *response) setDeadline(by time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.finalDeadline.Store(&by)
	_ = p.rc.SetWriteDeadline(by)
}

// end sends what net/http still holds, while there is a deadline, and then takes
// that back, so that it does not hit the next response of the connection.
//
// An answer that was cut must not look like a whole one to a client that has
// merely said all it had to say, and still reads: the connection breaks.
func (p *response) end() {
	if !p.aborted {
		p.flush()
	}
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	if p.aborted {
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's own way to break a connection, which it does not log
	}
	_ = p.rc.SetWriteDeadline(time.Time{})
}

// stream writes what the carrier gets until the stream has ended, the carrier was
// revoked or is to pause, the client is gone, or it does not take it. It returns
// why: Ended where all was written that there ever will be, Paused where the
// client is to come back, and Open where it is gone. What it took and could not
// write goes back to the stream.
func (p *response) writeStream(c *session.Consumer, r streamOptions) session.State {
	quiet := time.NewTimer(r.keepAlive)
	defer quiet.Stop()
	life, stop := lifeTimer(r.maxLife)
	defer stop()
	batch, state := c.Take(p.batch[:0])
	if len(batch) == 0 && state == session.Open && !p.primed {
		p.writeComment() // takes the header with it
	}
	for ; ; batch, state = c.Take(batch[:0]) {
		if len(batch) > 0 {
			p.writeEvents(batch)
			quiet.Reset(r.keepAlive)
		}
		// The system takes the first write for a client that has just left.
		if p.err != nil || state == session.Open && isClosed(r.gone) {
			c.Requeue(batch)
			return session.Open
		}
		clear(batch) // what was written need not be kept
		if len(batch) > 0 && r.onWrite != nil {
			r.onWrite()
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
			quiet.Reset(r.keepAlive)
		case <-life:
			return session.Paused
		case <-r.gone:
			return session.Open
		}
	}
}

// events writes messages and sends them.
func (p *response) writeEvents(batch []session.Message) {
	for i := range batch {
		p.writeEvent(&batch[i])
	}
	p.flush()
}

// lifeTimer returns a channel that receives once in d, and never where d is zero.
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
