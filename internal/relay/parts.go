// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"io"
)

const (
	// firstBuffer is the size of a reader's buffer until a line needs more.
	firstBuffer = 4 << 10

	// wholeLine is the length up to which a line is one part. It bounds the memory for a
	// line, and is longer than a message that the Relay must understand.
	wholeLine = 256 << 10
)

// part is a part of a line.
type part struct {
	data        []byte // with the line end if the part is the last one; valid until the next one is read
	first, last bool

	// The messages of the line so far: all if the part is the last one.
	messages []message
}

// isWhole reports whether the part is a whole line.
func (p *part) isWhole() bool { return p.first && p.last }

// parts reads lines in parts. It belongs to one goroutine.
type parts struct {
	r    io.Reader
	buf  []byte
	pos  int // the beginning of what was not returned
	end  int
	seen int // up to here there is no line end
	rest bool
	head envelopes
}

func newParts(r io.Reader) *parts { return &parts{r: r} }

// next returns the next part. With an error the part is the rest of a line that has not
// ended, or empty.
func (p *parts) next() (part, error) {
	if !p.rest {
		p.head.reset()
	}
	for {
		if lf := bytes.IndexByte(p.buf[p.seen:p.end], '\n'); lf >= 0 {
			return p.take(p.seen+lf+1, true), nil
		}
		p.seen = p.end
		if p.end-p.pos >= wholeLine {
			return p.take(p.end, false), nil
		}
		if err := p.fill(); err != nil {
			return p.take(p.end, false), err
		}
	}
}

// take returns the text up to an offset.
func (p *parts) take(to int, last bool) part {
	out := part{data: p.buf[p.pos:to], first: !p.rest, last: last}
	p.head.read(out.data)
	out.messages = p.head.messages()
	p.pos, p.seen, p.rest = to, to, !last
	return out
}

// fill reads more text, in a larger buffer if the buffer is full.
func (p *parts) fill() error {
	switch {
	case p.pos == p.end:
		p.pos, p.end, p.seen = 0, 0, 0
		if len(p.buf) > firstBuffer && !p.rest {
			p.buf = nil // one long line must not hold memory for good
		}
	case p.end == len(p.buf) && p.pos > 0:
		n := copy(p.buf, p.buf[p.pos:p.end])
		p.pos, p.end, p.seen = 0, n, n
	}
	if p.end == len(p.buf) {
		larger := make([]byte, min(max(firstBuffer, 2*len(p.buf)), wholeLine))
		copy(larger, p.buf[:p.end])
		p.buf = larger
	}
	n, err := p.r.Read(p.buf[p.end:])
	p.end += n
	if n > 0 {
		return nil // the error comes again
	}
	return err
}
