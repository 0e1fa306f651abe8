// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// message is what the envelope of a message says about it.
type message struct {
	id     mcp.ID // the zero ID for a notification
	method string // "" for a response, and until it is read
	answer bool   // it has a result or an error
	failed bool   // it has an error

	idStart, idEnd int // the id's place in the line
}

func (m *message) isRequest() bool { return m.method != "" && !m.id.IsZero() }

func (m *message) isResponse() bool { return m.answer && m.method == "" && !m.id.IsZero() }

// The envelope of a message is that of one object, or of each object of a batch.
const (
	depthOfOne   = 1
	depthOfBatch = 2
)

// maxToken bounds the names and values that are read. An id has at most 1 KiB.
const maxToken = 1 << 10

// maxMessages bounds the messages of a line that are read: more than are in a line that is
// one part.
const maxMessages = 1 << 15

// envelopes reads the envelopes of a line that arrives in parts. It does not check the
// text, which its receiver does: for text that is not JSON it finds nothing, or something
// that is of no consequence. The zero value is ready for the first part.
type envelopes struct {
	found   []message
	current message

	offset   int // of the next part in the line
	depth    int
	members  int // the depth of the envelope's members; 0 before the first brace
	isString bool
	escaped  bool
	isValue  bool // of a member of the envelope, and not its name
	isObject bool // an object of the envelope's depth is open
	name     []byte
	value    []byte
	start    int // of the value in the line
	end      int
}

// reset begins the next line.
func (e *envelopes) reset() {
	*e = envelopes{found: e.found[:0], name: e.name[:0], value: e.value[:0]}
}

// messages returns the messages so far, including one that has not ended. They are valid
// until reset.
func (e *envelopes) messages() []message {
	if e.isObject {
		return append(e.found, e.current)
	}
	return e.found
}

// read reads the next part of the line.
func (e *envelopes) read(part []byte) {
	for i := 0; i < len(part); i++ {
		if e.isString {
			if !e.escaped && !e.isRead() {
				next := bytes.IndexAny(part[i:], `"\`)
				if next < 0 {
					break
				}
				i += next
			}
			e.stringByte(part[i], e.offset+i)
			continue
		}
		e.byte(part[i], e.offset+i)
	}
	e.offset += len(part)
}

// isRead reports whether the text at this place is a name, or the value of a member that
// is read.
func (e *envelopes) isRead() bool {
	if !e.isObject || e.depth != e.members {
		return false
	}
	return !e.isValue || string(e.name) == `"id"` || string(e.name) == `"method"`
}

// keep appends a byte to the name or the value, if it is read.
func (e *envelopes) keep(c byte, at int) {
	if !e.isRead() {
		return
	}
	to := &e.name
	if e.isValue {
		to = &e.value
		if len(e.value) == 0 {
			e.start = at
		}
		e.end = at + 1
	}
	if len(*to) <= maxToken {
		*to = append(*to, c)
	}
}

func (e *envelopes) stringByte(c byte, at int) {
	e.keep(c, at)
	switch {
	case e.escaped:
		e.escaped = false
	case c == '\\':
		e.escaped = true
	case c == '"':
		e.isString = false
	}
}

func (e *envelopes) byte(c byte, at int) {
	switch c {
	case ' ', '\t', '\r', '\n':
	case '"':
		e.isString = true
		e.keep(c, at)
	case '{', '[':
		e.open(c)
	case '}', ']':
		e.close(c)
	case ':':
		if e.isObject && e.depth == e.members {
			e.isValue = true
			switch string(e.name) {
			case `"result"`:
				e.current.answer = true
			case `"error"`:
				e.current.answer, e.current.failed = true, true
			}
		}
	case ',':
		if e.isObject && e.depth == e.members {
			e.endMember()
		}
	default:
		e.keep(c, at)
	}
}

func (e *envelopes) open(c byte) {
	if e.depth == 0 && e.members == 0 {
		e.members = depthOfOne
		if c == '[' {
			e.members = depthOfBatch
		}
	}
	e.depth++
	if c == '{' && e.depth == e.members && !e.isObject {
		e.isObject = true
		e.current = message{}
		e.name, e.value = e.name[:0], e.value[:0]
		e.isValue = false
	}
}

func (e *envelopes) close(c byte) {
	if c == '}' && e.isObject && e.depth == e.members {
		e.endMember()
		if len(e.found) < maxMessages {
			e.found = append(e.found, e.current)
		}
		e.isObject = false
	}
	e.depth = max(0, e.depth-1)
}

func (e *envelopes) endMember() {
	switch string(e.name) {
	case `"id"`:
		if id, err := mcp.ParseID(e.value); err == nil {
			e.current.id, e.current.idStart, e.current.idEnd = id, e.start, e.end
		}
	case `"method"`:
		e.current.method, _ = jsonscan.DecodeText(e.value)
	}
	e.name, e.value = e.name[:0], e.value[:0]
	e.isValue = false
}
