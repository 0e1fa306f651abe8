// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
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
)

// response writes one HTTP response. It belongs to the goroutine of net/http, except for
// setDeadline.
type response struct {
	deadlineWriter

	buf      []byte
	header   [2]string     // the values of the header of an object
	aborted  bool          // the response is incomplete and will stay so
	passed   bool          // Config.NotFound has written it, and net/http decides its form
	timeline *mcp.Timeline // of the request that it answers, once the answer is written, or nil
	denied   **mcp.Denied  // of the request; set if the status of its message is that of a denial
}

func (s *Server) newResponse(w http.ResponseWriter, r *http.Request) *response {
	return &response{deadlineWriter: deadlineWriter{
		w: w, rc: *http.NewResponseController(w), timeout: s.cfg.WriteTimeout, piece: largePiece, perStream: r.ProtoMajor >= 2,
	}}
}

// writeAccepted responds to a message that has no answer.
func (p *response) writeAccepted() {
	p.w.Header().Set("Content-Length", "0") // otherwise net/http announces chunks
	p.w.WriteHeader(http.StatusAccepted)
}

// writeJSON writes the message as the whole body. The length is announced, so that a
// client detects a truncated response even if the connection is closed in order.
func (p *response) writeJSON(m *session.Message) {
	p.beginObject(cmp.Or(m.Status, http.StatusOK), int64(m.Len()))
	if len(m.Body) == 0 && len(m.Tail) == 0 {
		p.write(m.Head)
		return
	}
	last := 0 // the body from here on is copied in front of the tail
	if m.Len() > maxJoined {
		last = max(0, len(m.Body)-lastPiece)
		p.write(m.Head)
		p.write(m.Body[:last])
	} else {
		p.buf = append(p.buf[:0], m.Head...)
	}
	p.buf = append(append(p.buf, m.Body[last:]...), m.Tail...)
	p.write(p.buf)
}

// beginObject writes the header of an object with a length in bytes, or of an unknown one
// if it is negative.
func (p *response) beginObject(status int, length int64) {
	h := p.w.Header()
	p.header[0] = jsonType
	h["Content-Type"] = p.header[:1:1]
	if length >= 0 {
		p.header[1] = strconv.FormatInt(length, 10)
		h["Content-Length"] = p.header[1:]
	}
	p.w.WriteHeader(status)
}

// beginStream writes the header of an event stream.
func (p *response) beginStream() {
	h := p.w.Header()
	h.Set("Content-Type", streamType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	p.piece = slowPiece // the stream as a whole may take any time
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
}

// writeEvent writes the message as one event, with its id if it has one, and does not
// flush.
func (p *response) writeEvent(m *session.Message) {
	id := ""
	if e := m.Event(); !e.IsZero() {
		id = e.String()
	}
	if m.Len() <= maxJoined || !isFlat(m) {
		p.buf = frame.AppendEvent(p.buf[:0], id, m.Head, m.Body, m.Tail)
		p.write(p.buf)
		return
	}
	// A large message without line breaks is written without a copy.
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

// isFlat reports whether a message has no line breaks.
func isFlat(m *session.Message) bool {
	return frame.IsFlat(m.Head) && frame.IsFlat(m.Body) && frame.IsFlat(m.Tail)
}

// end flushes what net/http still buffers and returns the writer to it.
//
// An aborted response must not look complete to a client that has closed only its sending
// side and still reads: the connection is broken.
func (p *response) end() {
	if !p.aborted && !p.passed {
		if p.flush(); p.err == nil {
			p.timeline.Delivered()
		}
	}
	p.release()
	if p.aborted {
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http breaks the connection for it and logs nothing
	}
}

// writeStream writes the messages of the consumer until the stream has ended, another
// consumer has attached, the time for this response is over, the client is gone, or a
// write fails. The result is Ended if everything was written, Paused if the client must
// reconnect for the rest, and Open if the client is gone. Messages that were taken and
// could not be written go back to the stream.
func (p *response) writeStream(c *session.Consumer, opts streamOptions) session.State {
	quiet := time.NewTimer(opts.keepAlive)
	defer quiet.Stop()
	var life <-chan time.Time
	if opts.maxLife > 0 {
		life = time.After(opts.maxLife)
	}
	state, gone := p.writeQueued(c, opts)
	if state == session.Open && !gone && !p.begun {
		p.writeComment() // writes the header, too
	}
	for state == session.Open && !gone && p.err == nil {
		select {
		case <-c.Wake():
			state, gone = p.writeQueued(c, opts)
			quiet.Reset(opts.keepAlive)
		case <-quiet.C:
			p.writeComment()
			quiet.Reset(opts.keepAlive)
		case <-life:
			return session.Paused
		case <-opts.gone:
			return session.Open
		}
	}
	return state
}

// writeQueued writes what the stream has queued, and returns the state of the stream.
// gone reports that the client is gone; what it may not have received goes back to the
// stream.
func (p *response) writeQueued(c *session.Consumer, opts streamOptions) (state session.State, gone bool) {
	var batch []session.Message
	for {
		batch, state = c.Take(batch[:0])
		for i := range batch {
			p.writeEvent(&batch[i])
		}
		if len(batch) > 0 {
			p.flush()
		}
		// The system accepts the first write to a client that has just disconnected.
		if p.err != nil || state == session.Open && isClosed(opts.gone) {
			c.Requeue(batch)
			return session.Open, true
		}
		for i := range batch {
			batch[i].Timeline.Delivered()
		}
		if len(batch) > 0 && opts.onWrite != nil {
			opts.onWrite()
		}
		if state != session.Open || len(batch) == 0 {
			return state, false
		}
	}
}

// deadlineWriter writes to an [http.ResponseWriter], each piece under its own deadline.
// After an error it writes nothing more.
type deadlineWriter struct {
	w         http.ResponseWriter
	rc        http.ResponseController
	timeout   time.Duration
	piece     int  // bytes written under one deadline
	begun     bool // a part of the body was written
	perStream bool // HTTP/2: a deadline breaks the stream when it passes, even if nothing is written
	deadline  time.Time
	err       error

	mu       sync.Mutex
	final    time.Time // set by setDeadline
	released bool      // w belongs to net/http again
}

// write writes b in pieces. The deadline moves with each piece, so that a long response is
// never late (M054).
func (d *deadlineWriter) write(b []byte) {
	d.begun = true
	for len(b) > 0 && d.err == nil {
		n := min(len(b), d.piece)
		d.extendDeadline(n)
		_, d.err = d.w.Write(b[:n]) //nolint:gosec // the body is JSON or an event stream, as its Content-Type declares
		b = b[n:]
	}
}

// flush sends what was written (I11). It has a deadline like a write, because net/http
// writes to the network here.
func (d *deadlineWriter) flush() {
	if d.err == nil {
		d.extendDeadline(0)
		d.err = d.rc.Flush()
		d.clearDeadline()
	}
}

// extendDeadline sets the deadline for the next write, of n bytes. A write that follows
// at once keeps the deadline of the piece before.
func (d *deadlineWriter) extendDeadline(n int) {
	slow := (n + slowPiece - 1) / slowPiece
	until := time.Now().Add(d.timeout * time.Duration(max(slow, 1)))
	if until.Sub(d.deadline) >= d.timeout/deadlineSlack {
		d.applyDeadline(until)
	}
}

// clearDeadline is called when the next write has to wait for an event. A deadline of a
// connection may stay; that of an HTTP/2 stream is a timer, which breaks the stream when
// it fires, and so it is removed.
func (d *deadlineWriter) clearDeadline() {
	if d.perStream {
		d.applyDeadline(time.Time{})
	}
}

// applyDeadline sets the write deadline, none if it is zero, unless there is a final one.
func (d *deadlineWriter) applyDeadline(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadline = until
	if d.final.IsZero() {
		_ = d.rc.SetWriteDeadline(until) // without deadlines, as in a test, writes do not block
	}
}

// setDeadline sets a final deadline for all that is still to be written. Unlike the other
// methods it may be called by any goroutine, and after release: it does nothing then.
func (d *deadlineWriter) setDeadline(by time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.released {
		d.final = by
		_ = d.rc.SetWriteDeadline(by)
	}
}

// release removes the deadline, so that it does not hit the next response on the
// connection, and returns the writer to net/http.
func (d *deadlineWriter) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released = true
	_ = d.rc.SetWriteDeadline(time.Time{})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
