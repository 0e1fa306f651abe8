// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Cursor is the position in one event stream, from which a reconnect resumes. It
// belongs to that stream only.
type Cursor struct {
	LastID   string
	Retry    time.Duration // negative until the server specifies it
	Messages int           // so far
	IDs      int           // event ids that differ from the one before
}

// MessageFunc receives the messages of a body, in order. For a message that cannot be
// parsed, bad is the reason, and m has the id if that could be read. It returns false
// to stop.
type MessageFunc func(m *mcp.Message, bad error) (more bool)

// HasMessages reports whether the response's media type is one that carries messages.
func HasMessages(resp *http.Response) bool {
	if resp.StatusCode/100 != 2 {
		return false
	}
	t := MediaType(resp)
	return t == typeJSON || t == TypeEvents
}

// Read calls take for each message of a body, until the body ends, take returns false,
// or the rest was forwarded. The error reports a broken body; nil means that it ended
// in order.
func (e *Endpoint) Read(resp *http.Response, pos *Cursor, bound frame.Bound, pass ForwardFunc, take MessageFunc) error {
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return e.Lost(nil, "its answer is compressed (%s), which was not requested", enc)
	}
	if MediaType(resp) == TypeEvents {
		return e.readEvents(resp.Body, pos, bound, take)
	}
	return e.readJSON(resp, bound, pass, take)
}

// takeText parses one message, or a batch, which 2025-03-26 allows in documents and in
// events. Each element of a batch is a message of its own. The error reports an invalid
// batch.
func (e *Endpoint) takeText(data []byte, take MessageFunc) (more bool, err error) {
	if !jsonrpc.IsBatch(data) {
		return e.parse(data, take), nil
	}
	parts, err := jsonrpc.SplitBatch(data, call.MaxBatch, call.BackendLimits())
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

func (e *Endpoint) parse(data []byte, take MessageFunc) (more bool) {
	m, err := mcp.Parse(data, call.BackendLimits())
	return take(&m, err)
}

// readEvents calls take for messages as they arrive. It ignores events of another name,
// events without data, which only mark a position (2025-11-25, basic/transports,
// "Resumability and Redelivery"), and an incomplete last event.
func (e *Endpoint) readEvents(body io.Reader, pos *Cursor, bound frame.Bound, take MessageFunc) error {
	events := frame.NewEventReader(body, e.MaxMessage)
	events.Bound(bound)
	return e.TakeEvents(events, pos, take)
}

// TakeEvents is readEvents for an open event stream.
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
		if more, _ := e.takeText(ev.Data, take); !more {
			return nil
		}
	}
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
