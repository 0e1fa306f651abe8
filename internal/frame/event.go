// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"io"
	"math"
	"time"
)

// An Event is one block of an event stream, up to the blank line that ends it. A block
// with only an id or a reconnection time is an Event too, with nil Data, although a
// browser would dispatch nothing.
type Event struct {
	// Name is the type of the event, "message" if the stream does not set one.
	Name string

	// ID is the event's own id, if HasID. An explicit empty id differs from none: it
	// clears the last id.
	ID    string
	HasID bool

	// Retry is the reconnection time that the block sets, or negative.
	Retry time.Duration

	// Data is nil if the block has no data field, and empty if that field is empty, as
	// in the event that primes a stream for resumption. It belongs to the caller.
	Data []byte
}

// An EventReader reads a stream of server-sent events, by the grammar of the WHATWG
// (html.spec.whatwg.org, "Server-sent events", section 9.2.6), with two exceptions:
// invalid UTF-8 is passed on unmodified, for the parser of the data to reject, and
// events have a maximal length.
type EventReader struct {
	b   buffer
	max int

	started bool // checked for a byte order mark
	skipLF  bool // the last line ended with a CR
	inLine  bool // the beginning of the line at pos was skipped
	over    bool // the event is over the limit: skip the rest of it

	refused *NoRoomError // error for the event that is skipped, or nil

	event  Event
	filled bool // the event has a field
	data   bool // the event has a data field
	lastID string
}

// The longest field name. A line may exceed the limit by this length, because the limit
// applies to the data.
const prefix = len("data: ")

// NewEventReader returns a reader of events with data of up to maxEvent bytes.
func NewEventReader(r io.Reader, maxEvent int) *EventReader {
	return &EventReader{b: buffer{r: r}, max: maxEvent, event: Event{Retry: -1}}
}

// Bound sets the Bound that must grant memory for large events. Next returns a
// [*NoRoomError] at the end of an event that b rejects.
func (r *EventReader) Bound(b Bound) { r.b.bound = b }

// LastID returns the id of the last event with an id that Next has returned, which a
// client sends as Last-Event-ID.
func (r *EventReader) LastID() string { return r.lastID }

// Next returns the next event. At the end of the stream it returns the error of the
// stream's reader, usually io.EOF; an event without its final blank line is dropped.
// More events may follow a *TooLongError or a *NoRoomError; any other error is final.
func (r *EventReader) Next() (Event, error) {
	for {
		line, err := r.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if e, ok := r.dispatch(); ok {
				return e, nil
			}
			continue
		}
		if err := r.field(line); err != nil {
			return Event{}, err
		}
	}
}

// line returns the next line of an event that is not skipped, without its end.
func (r *EventReader) line() ([]byte, error) {
	for {
		if err := r.begin(); err != nil {
			return nil, err
		}
		eol := r.b.findEOL()
		line := r.b.buf[r.b.pos:eol]
		whole := eol < r.b.end
		if whole {
			r.skipLF = r.b.buf[eol] == '\r'
			r.b.pos = eol + 1
		}
		switch {
		case r.over:
			if r.refused != nil && len(line) > 0 {
				r.refused.addTail(line)
			}
			r.skip(len(line), whole)
			if !r.over && r.refused != nil {
				no := r.refused
				r.refused = nil
				return nil, no
			}
		case len(line) > r.max+prefix:
			return nil, r.tooLong(line)
		case whole:
			return line, nil
		}
		if whole {
			continue
		}
		err := r.b.fill()
		if no, ok := err.(*NoRoomError); ok { //nolint:errorlint // the buffer's own
			r.reset()
			r.refused, r.over = no, true
			continue
		}
		if err != nil {
			return nil, err
		}
	}
}

// skip skips a line, or the available part of it, of an event over the limit, up to the
// blank line that ends the event.
func (r *EventReader) skip(n int, whole bool) {
	blank := n == 0 && !r.inLine
	switch {
	case !whole:
		r.b.pos += n
		r.inLine = !blank
	case blank:
		r.over = false
	default:
		r.inLine = false
	}
}

// begin skips the bytes that may precede a line: a byte order mark at the start of the
// stream, and the LF after the CR of the previous line. The LF is skipped only now,
// because a line that ends with a CR must not wait for the next byte.
func (r *EventReader) begin() error {
	const mark = "\xef\xbb\xbf"
	for !r.started {
		have := r.b.buf[r.b.pos:r.b.end]
		n := min(len(have), len(mark))
		if n < len(mark) && string(have) == mark[:n] {
			if err := r.b.fill(); err != nil {
				return err
			}
			continue
		}
		r.started = true
		if string(have[:n]) == mark {
			r.b.pos += n
		}
	}
	if r.skipLF && r.b.pos < r.b.end {
		r.skipLF = false
		if r.b.buf[r.b.pos] == '\n' {
			r.b.pos++
		}
	}
	return nil
}

// tooLong drops the event.
func (r *EventReader) tooLong(line []byte) error {
	head := bytes.TrimPrefix(bytes.TrimPrefix(line, []byte("data:")), []byte(" "))
	if r.data && r.b.kept.len() > 0 {
		head = r.b.buf[r.b.kept.start:r.b.kept.end]
	}
	err := newTooLong(r.max, headSize, head)
	r.reset()
	r.over = true
	return err
}

func (r *EventReader) reset() {
	r.event = Event{Retry: -1}
	r.filled, r.data = false, false
	r.b.kept = span{}
}

// dispatch ends the event. It reports false if the event has no useful field.
func (r *EventReader) dispatch() (Event, bool) {
	e, ok := r.event, r.filled
	if ok && r.data {
		e.Data = r.b.release()
	}
	r.reset()
	if !ok {
		return Event{}, false
	}
	if e.Name == "" {
		e.Name = "message"
	}
	if e.HasID {
		r.lastID = e.ID
	}
	return e, true
}

// field parses one line that is not blank: a field of the event, or a comment.
func (r *EventReader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		return r.addData(line, value)
	case "event":
		r.event.Name = eventName(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.event.ID, r.event.HasID = string(value), true
			r.filled = true
		}
	case "retry":
		if d, ok := milliseconds(value); ok {
			r.event.Retry = d
			r.filled = true
		}
	default:
		// A comment (with an empty name), or an unknown field.
	}
	return nil
}

// addData appends one data field to the event's data, after an LF. The first one is
// kept in place in the buffer; a further one is moved to its end, always backwards,
// because a line is longer than its value.
func (r *EventReader) addData(line, value []byte) error {
	k := &r.b.kept
	length := len(value)
	if r.data {
		length += k.len() + 1
	}
	if length > r.max {
		return r.tooLong(line)
	}
	if r.data {
		r.b.buf[k.end] = '\n'
		k.end += 1 + copy(r.b.buf[k.end+1:], value)
	} else {
		end := r.b.pos - 1 // pos is one byte after the end of the line
		*k = span{end - len(value), end}
	}
	r.filled, r.data = true, true
	return nil
}

// eventName avoids an allocation for the names that MCP uses.
func eventName(value []byte) string {
	switch string(value) {
	case "message", "":
		return ""
	case "endpoint":
		return "endpoint"
	default:
		return string(value)
	}
}

// milliseconds parses a value of digits only. Values beyond the maximal Duration are
// limited to it.
func milliseconds(value []byte) (time.Duration, bool) {
	const most = math.MaxInt64 / int64(time.Millisecond)
	var n int64
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(10*n+int64(c-'0'), most)
	}
	return time.Duration(n) * time.Millisecond, len(value) > 0
}
