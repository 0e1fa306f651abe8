// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"io"
	"math"
	"time"
)

// Event is one block of an event stream, up to the blank line that ends it. A
// block that sets no more than an id or a reconnection time is returned too,
// though a browser would dispatch nothing: Data is nil then.
type Event struct {
	// Name is the event's type, "message" where the stream does not say.
	Name string

	// ID is the event's own id, if HasID. An empty one that was given is not the
	// same as none: it takes the last id back.
	ID    string
	HasID bool

	// Retry is the reconnection time that the block sets, or negative.
	Retry time.Duration

	// Data is nil where the block has no data field, and empty where that field
	// is empty, as in the event that primes a stream for resumption.
	// It belongs to the caller.
	Data []byte
}

// EventReader reads a stream of server-sent events, by the grammar of the WHATWG
// (html.spec.whatwg.org, "Server-sent events", section 9.2.6), but for two
// things: bytes that are no UTF-8 are passed on as they are, for the parser of
// the data to refuse, and no event is longer than the limit.
type EventReader struct {
	b   buffer
	max int

	begun  bool // the byte order mark was looked for
	skipLF bool // the last line ended with a CR
	midway bool // the line at pos has no beginning: it was thrown away
	over   bool // the event is over the limit: the rest of it is skipped

	refused *NoRoomError // of the event that is skipped; or nil

	event  Event
	filled bool // some field of the event was given
	data   bool // its data field was
	lastID string
}

// The longest field before the value. A line may be longer than the limit by so
// much, because the limit is one of the data.
const prefix = len("data: ")

// NewEventReader returns a reader of events with data of up to maxEvent bytes.
func NewEventReader(r io.Reader, maxEvent int) *EventReader {
	return &EventReader{b: buffer{r: r}, max: maxEvent, event: Event{Retry: -1}}
}

// Bound has a reader of events ask b for room, and return a [*NoRoomError] at the end of an
// event for which there is none.
func (r *EventReader) Bound(b Bound) { r.b.bound = b }

// LastID returns the id of the last event that had one, among those that Next
// has returned: what a client sends as Last-Event-ID.
func (r *EventReader) LastID() string { return r.lastID }

// Next returns the next event. At the end of the stream it returns what the
// stream's reader returned, io.EOF as a rule; an event without the blank line
// that would end it is thrown away. A *TooLongError may be followed by further
// events; any other error is final.
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

// line returns the next line that counts, without its end.
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
				r.refused.follow(line)
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

// skip throws away a line, or as much of it as there is, of an event over the
// limit, up to the blank line that ends the event.
func (r *EventReader) skip(n int, whole bool) {
	blank := n == 0 && !r.midway
	switch {
	case !whole:
		r.b.pos += n
		r.midway = !blank
	case blank:
		r.over = false
	default:
		r.midway = false
	}
}

// begin takes away what may stand before a line: a byte order mark at the start
// of the stream, and an LF after the CR that ended the line before. It is looked
// at only now, because the line that a CR ends is not to wait for the next byte.
func (r *EventReader) begin() error {
	const mark = "\xef\xbb\xbf"
	for !r.begun {
		have := r.b.buf[r.b.pos:r.b.end]
		n := min(len(have), len(mark))
		if n < len(mark) && string(have) == mark[:n] {
			if err := r.b.fill(); err != nil {
				return err
			}
			continue
		}
		r.begun = true
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

// tooLong gives the event up.
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

// dispatch ends the event. There is none where no field was given that a caller
// could use.
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

// field takes one line that is not blank: a field of the event, or a comment.
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
		// A comment, whose name is empty, or a field that nobody knows.
	}
	return nil
}

// addData adds one data field to the event's data, with an LF between. The first
// one stays where it stands in the buffer; a further one is moved to its end,
// which is always behind: a line is longer than its value.
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
		end := r.b.pos - 1 // pos is behind the one byte that ends the line
		*k = span{end - len(value), end}
	}
	r.filled, r.data = true, true
	return nil
}

// eventName makes no string of the names that MCP uses.
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

// milliseconds reads a value of nothing but digits. More than a Duration holds
// counts as the most that it holds.
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
