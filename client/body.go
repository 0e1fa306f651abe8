// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// backendLimits bound the shape of a message from a backend. Its members are
// bounded by its size rather than by their number: a large table is a fair
// result. An item of a list may be deeper than a client would take: it is left out of the
// list, and the others are not lost with it.
func backendLimits() mcp.Limits { return mcp.Limits{Depth: 128, ListDepth: 1024, Members: 4_000_000} }

// maxBatch bounds the messages of a batch, which 2025-03-26 has.
const maxBatch = 100

// cursor is how far one stream of events has been read: what a reconnect
// continues from. It belongs to that stream and to no other.
type cursor struct {
	lastID   string
	retry    time.Duration // negative until the server says
	messages int           // so far
	ids      int           // new ones so far
}

// messageFunc takes the messages of a body, in order. A message that could not be
// parsed comes with the reason, and with its id where that could be read. It
// returns false when it wants no more.
type messageFunc func(m *mcp.Message, bad error) (more bool)

// hasMessages reports whether the answer's body is one of the two kinds that
// carry messages.
func hasMessages(resp *http.Response) bool {
	if resp.StatusCode/100 != 2 {
		return false
	}
	t := mediaType(resp)
	return t == typeJSON || t == typeEvents
}

// read gives the messages of a body to take, until there are no more or take
// wants no more, or the rest was passed on. Its error is a failure of the body: nil is its
// orderly end.
func (e *endpoint) read(resp *http.Response, pos *cursor, bound frame.Bound, pass forwardFunc, take messageFunc) error {
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return e.lost(nil, "its answer is compressed (%s), which was not asked for", enc)
	}
	if mediaType(resp) == typeEvents {
		return e.readEvents(resp.Body, pos, bound, take)
	}
	return e.readJSON(resp, bound, pass, take)
}

// takeText takes what stands where a message does: one, or a batch, which 2025-03-26
// has in documents and events alike; each of its elements stands for itself. The error
// is that of a batch that is none.
func (e *endpoint) takeText(data []byte, take messageFunc) (more bool, err error) {
	if !mcp.IsBatch(data) {
		return e.parse(data, take), nil
	}
	parts, err := mcp.SplitBatch(data, maxBatch, backendLimits())
	if err != nil {
		return true, err
	}
	for _, part := range parts {
		if !e.parse(part, take) {
			return false, nil
		}
	}
	return true, nil
}

func (e *endpoint) tooLong(cause error) *mcp.Fault {
	return e.fault(mcp.CodeLimit, mcp.Unknown, cause, "it sent a message of more than %d bytes (limits.backendMessage)", e.MaxMessage)
}

func (e *endpoint) parse(data []byte, take messageFunc) (more bool) {
	m, err := mcp.Parse(data, backendLimits())
	return take(&m, err)
}

// readEvents takes messages as they arrive. An event of another name is no message,
// and one without data says only how far the stream is (2025-11-25, basic/transports,
// "Resumability and Redelivery"); a last event that is cut off is none.
func (e *endpoint) readEvents(body io.Reader, pos *cursor, bound frame.Bound, take messageFunc) error {
	events := frame.NewEventReader(body, e.MaxMessage)
	events.Bound(bound)
	return e.takeEvents(events, pos, take)
}

// takeEvents is readEvents where the stream has begun.
func (e *endpoint) takeEvents(events *frame.EventReader, pos *cursor, take messageFunc) error {
	for {
		ev, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			if _, ok := errors.AsType[*frame.TooLongError](err); ok {
				return e.tooLong(err)
			}
			if no, ok := errors.AsType[*frame.NoRoomError](err); ok {
				return no
			}
			return e.lost(err, "the connection broke during its answer")
		}
		// Noted also where there is no message in it: such an event is how a server
		// says from where a stream can be resumed before it has anything to say.
		pos.note(ev)
		if len(ev.Data) == 0 || ev.Name != "message" {
			continue
		}
		pos.messages++
		// A batch that is none is told to nobody, like any event that is no message.
		if more, _ := e.takeText(ev.Data, take); !more {
			return nil
		}
	}
}

// note remembers what an event says about the stream.
func (p *cursor) note(ev frame.Event) {
	if ev.Retry >= 0 {
		p.retry = ev.Retry
	}
	if id := resumableID(ev.ID); ev.HasID && id != p.lastID {
		p.lastID = id
		p.ids++
	}
}

// comeBackID returns the id as it can be sent in a header, and none where it cannot: a
// server that gives such an id has no way to be told of it, and an sseFallback id would
// bring again what was taken.
func resumableID(id string) string {
	for i := range len(id) {
		if id[i] < ' ' && id[i] != '\t' || id[i] == 0x7f {
			return ""
		}
	}
	return id
}

// The bounds of the time between two attempts to read on, which is the server's
// to say; and the one up to which it grows where they bring nothing.
const (
	minRetry     = 100 * time.Millisecond
	defaultRetry = time.Second
	maxRetry     = 5 * time.Minute
	maxBackoff   = 30 * time.Second
)

// wait returns how long to wait before the next attempt to read on, the n-th in
// a row that brought nothing. It is never less than what the server has said.
func (p *cursor) wait(n int) time.Duration {
	least := defaultRetry
	if p.retry >= 0 {
		least = min(max(p.retry, minRetry), maxRetry)
	}
	return max(least, min(least<<min(n, 9), maxBackoff)) // 9: from the least of all to the calm one
}
