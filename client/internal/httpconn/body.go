// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// MessageFunc receives the messages of a body, in order. For a message that cannot be
// parsed, bad is the reason, and m has the id if that could be read. It returns false
// to stop.
type MessageFunc func(m *mcp.Message, bad error) (more bool)

// ForwardFunc forwards the rest of a response to the caller while it arrives. It
// reports false if the response must be read as a whole.
type ForwardFunc func(a *jsonrpc.Arrival) bool

// NeverForward is the ForwardFunc for responses of requests that no caller made.
func NeverForward(*jsonrpc.Arrival) bool { return false }

// Read calls take for each message of a body, until the body ends, take returns false,
// or the rest was forwarded. The error reports a broken body; nil means that it ended
// in order.
func (e *Endpoint) Read(resp *http.Response, pos *Cursor, bound frame.Bound, pass ForwardFunc, take MessageFunc) error {
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return e.Lost(nil, "its answer is compressed (%s), which was not requested", enc)
	}
	if MediaType(resp) == TypeEvents {
		events := frame.NewEventReader(resp.Body, e.MaxMessage)
		events.Bound(bound)
		return e.TakeEvents(events, pos, take)
	}
	return e.readJSON(resp, bound, pass, take)
}

// bufferUpTo is the message limit up to which responses are buffered instead of
// forwarded. So much memory is acceptable, and a response that is too long then fails
// with an error instead of being cut.
const bufferUpTo = 1 << 20

// readJSON reads a whole document within the limits before it parses any of it, unless
// the document is forwarded. It does not trust the declared length.
func (e *Endpoint) readJSON(resp *http.Response, bound frame.Bound, pass ForwardFunc, take MessageFunc) error {
	data, passed, err := e.readOrForward(resp, bound, pass)
	switch {
	case passed:
		return nil
	case call.IsTooLong(err):
		return e.TooLong(nil)
	case err != nil:
		return e.Lost(err, "the connection broke during its answer")
	case len(bytes.TrimSpace(data)) == 0:
		return nil
	}
	if _, err = takeText(data, take); err != nil {
		return e.Lost(err, "its answer is not JSON")
	}
	return nil
}

// readOrForward returns the whole document, or reports that it was forwarded. A
// document that declares a small length is read directly.
func (e *Endpoint) readOrForward(resp *http.Response, bound frame.Bound, pass ForwardFunc) (data []byte, passed bool, err error) {
	if n := resp.ContentLength; n > 0 && n <= min(smallDocument, int64(e.MaxMessage)) {
		data = make([]byte, n+1) // one byte more, to read the end, so that the connection is free
		k, err := io.ReadFull(resp.Body, data)
		if errors.Is(err, io.ErrUnexpectedEOF) && int64(k) == n {
			err = nil
		}
		return data[:k], false, err
	}
	body := &meteredReader{Reader: resp.Body}
	body.arrival = jsonrpc.NewArrival(body, resp.ContentLength, call.BackendLimits(), e.MaxMessage)
	a := &body.arrival
	data, err = a.Begin()
	if err != nil || data != nil {
		return data, false, err
	}
	if e.MaxMessage > bufferUpTo && resp.ContentLength <= int64(e.MaxMessage) && pass(a) {
		return nil, true, nil
	}
	if n := int(min(resp.ContentLength, int64(e.MaxMessage))); n > 0 && bound != nil {
		if err := bound.Room(n, nil); err != nil {
			return nil, false, err
		}
		body.most = n // a longer one fails before more is held
	}
	body.bound = bound
	data, err = a.Gather()
	return data, false, err
}

// smallDocument is at most the window of a forwarded result.
const smallDocument = 63 << 10

// meteredReader reserves memory for a document as it is read.
type meteredReader struct {
	io.Reader
	bound frame.Bound // nil until it is known that the document will be buffered
	have  int
	most  int // bytes that memory is reserved for

	arrival jsonrpc.Arrival // of the document
}

// Read implements io.Reader.
func (r *meteredReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.have += n
	if r.bound == nil || r.have <= r.most {
		return n, err
	}
	r.most = 2 * r.have
	if no := r.bound.Room(r.most, nil); no != nil {
		return n, no
	}
	return n, err
}

// TakeEvents calls take for messages as they arrive, as Read does. It ignores events of
// another name, events without data, which only mark a position (2025-11-25,
// basic/transports, "Resumability and Redelivery"), and an incomplete last event.
func (e *Endpoint) TakeEvents(events *frame.EventReader, pos *Cursor, take MessageFunc) error {
	for {
		ev, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			if _, ok := errors.AsType[*frame.TooLongError](err); ok {
				return e.TooLong(err)
			}
			if noRoom, ok := errors.AsType[*frame.NoRoomError](err); ok {
				return noRoom
			}
			return e.Lost(err, "the connection broke during its answer")
		}
		// Events without a message count too: a server sends one so that a stream can
		// be resumed before its first message.
		pos.note(ev)
		if len(ev.Data) == 0 || ev.Name != "message" {
			continue
		}
		pos.Messages++
		// An invalid batch is skipped, like any event that is not a message.
		if more, _ := takeText(ev.Data, take); !more {
			return nil
		}
	}
}

// takeText parses one message, or a batch, which 2025-03-26 allows in documents and in
// events. Each element of a batch is a message of its own. The error reports an invalid
// batch.
func takeText(data []byte, take MessageFunc) (more bool, err error) {
	if !jsonrpc.IsBatch(data) {
		return parse(data, take), nil
	}
	parts, err := jsonrpc.SplitBatch(data, call.MaxBatch, call.BackendLimits())
	if err != nil {
		return true, err
	}
	for _, part := range parts {
		if !parse(part, take) {
			return false, nil
		}
	}
	return true, nil
}

func parse(data []byte, take MessageFunc) (more bool) {
	m, err := mcp.Parse(data, call.BackendLimits())
	return take(&m, err)
}

// Cursor is the position in one event stream, from which a reconnect resumes. It
// belongs to that stream only.
type Cursor struct {
	LastID   string
	Retry    time.Duration // negative until the server specifies it
	Messages int           // so far
	IDs      int           // event ids that differ from the one before
}

// Limits of the wait before an attempt to resume. The server sets it; maxBackoff limits
// its growth while attempts bring nothing.
const (
	minRetry     = 100 * time.Millisecond
	defaultRetry = time.Second
	maxRetry     = 5 * time.Minute
	maxBackoff   = 30 * time.Second
)

// Wait returns how long to wait before resuming, after n attempts in a row that brought
// nothing. It is at least the retry time that the server has set.
func (p *Cursor) Wait(n int) time.Duration {
	least := defaultRetry
	if p.Retry >= 0 {
		least = min(max(p.Retry, minRetry), maxRetry)
	}
	return max(least, min(least<<min(n, 9), maxBackoff)) // 9: enough to grow from minRetry to maxBackoff
}

// note records the position and the retry time of an event.
func (p *Cursor) note(ev frame.Event) {
	if ev.Retry >= 0 {
		p.Retry = ev.Retry
	}
	if id := resumableID(ev.ID); ev.HasID && id != p.LastID {
		p.LastID = id
		p.IDs++
	}
}

// resumableID returns id, or "" if it cannot be sent in a header. The server then
// cannot receive its id back, and an older id would resume before messages already
// received.
func resumableID(id string) string {
	for i := range len(id) {
		if id[i] < ' ' && id[i] != '\t' || id[i] == 0x7f {
			return ""
		}
	}
	return id
}
