// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"errors"
	"io"
)

// LineReader reads messages that are one line each, as MCP writes them to the
// standard streams of a process (basic/transports/stdio).
type LineReader struct {
	b    buffer
	max  int
	head int  // how much of a line over the limit is shown
	over bool // the line at pos is over the limit: the rest of it is skipped
	rest int  // how much of the last line that was over the limit is not shown
	done bool // the stream has ended

	refused *NoRoomError // of the line at pos, which is skipped; or nil
}

// NewLineReader returns a reader of lines of up to maxLine bytes, their end not
// counted.
func NewLineReader(r io.Reader, maxLine int) *LineReader {
	return &LineReader{b: buffer{r: r}, max: maxLine, head: headSize}
}

// Bound has a reader of lines ask b for room, and return a [*NoRoomError] at the end of a
// line for which there is none.
func (r *LineReader) Bound(b Bound) { r.b.bound = b }

// Next returns the next line that is not empty, without the LF or CRLF that ends
// it. What stands behind the last LF of the stream is a line too. The line
// belongs to the caller. A *TooLongError or *NoRoomError may be followed by further lines; any
// other error is final, io.EOF at the end of the stream.
func (r *LineReader) Next() ([]byte, error) {
	for {
		lf := r.b.findLF()
		if lf == r.b.end {
			if !r.over && lf-r.b.pos > r.max+1 { // the last of them may be the CR
				return nil, r.tooLong()
			}
			r.pass(lf)
			err := r.b.fill()
			if no, ok := err.(*NoRoomError); ok { //nolint:errorlint // the buffer's own
				r.refused, r.over = no, true
				continue
			}
			if err == nil {
				continue
			} else if r.done = true; r.b.pos == r.b.end {
				return nil, err
			}
		}
		line, err := r.take(lf)
		if err != nil || line != nil {
			return line, err
		}
	}
}

// pass goes past what was read of a line that is not returned.
func (r *LineReader) pass(end int) {
	if !r.over {
		return
	}
	if r.refused != nil {
		r.refused.follow(r.b.buf[r.b.pos:end])
	}
	r.b.pos = end
}

// IsAtEnd reports whether the stream has ended, so that the line that Next has returned
// is the last one.
func (r *LineReader) IsAtEnd() bool { return r.done }

// NextCut is Next for text that is worth reading also where it is too long: the
// first bytes of a line, up to the limit, and how many more it had. It returns when
// the line has ended. One reader is read with one of the two.
func (r *LineReader) NextCut() (line []byte, cut int, err error) {
	r.head = r.max
	line, err = r.Next()
	long, ok := errors.AsType[*TooLongError](err)
	if !ok {
		return line, 0, err
	}
	if r.over {
		r.rest = r.skip() - len(long.Head)
	}
	return long.Head, r.rest, nil
}

// skip skips the rest of a line over the limit, and returns its length.
func (r *LineReader) skip() (n int) {
	r.over = false
	for cr := false; ; {
		lf := r.b.findLF()
		if lf > r.b.pos {
			n += lf - r.b.pos
			cr = r.b.buf[lf-1] == '\r'
		}
		ended := lf < r.b.end
		r.b.pos = min(lf+1, r.b.end)
		if !ended && r.b.fill() == nil {
			continue
		}
		if cr {
			n--
		}
		return n
	}
}

// take takes the line up to lf, or to the end of the stream. There is none where
// the line is empty or the rest of one over the limit.
func (r *LineReader) take(lf int) ([]byte, error) {
	start, end := r.b.pos, lf
	r.b.pos = min(lf+1, r.b.end)
	if no := r.refused; no != nil {
		r.refused, r.over = nil, false
		no.follow(r.b.buf[start:end])
		return nil, no
	}
	if r.over {
		r.over = false
		return nil, nil
	}
	if end > start && r.b.buf[end-1] == '\r' {
		end--
	}
	switch n := end - start; {
	case n > r.max:
		r.rest = n - min(r.max, r.head)
		return nil, newTooLong(r.max, r.head, r.b.buf[start:end])
	case n == 0:
		return nil, nil
	}
	r.b.kept = span{start, end}
	return r.b.release(), nil
}

func (r *LineReader) tooLong() error {
	r.over = true
	return newTooLong(r.max, r.head, r.b.buf[r.b.pos:r.b.end])
}

// AppendLine appends a JSON text, which may come in parts, as one line. A line break in
// it can only stand between two tokens, where a space says the same.
func AppendLine(dst []byte, parts ...[]byte) []byte {
	for _, part := range parts {
		dst = appendFlat(dst, part)
	}
	return append(dst, '\n')
}

// MakeLine makes a line of a JSON text in the memory in which that is, if there is room
// for one byte more, and which is nobody else's any more.
func MakeLine(text []byte) []byte {
	Flatten(text)
	return append(text, '\n')
}

// IsFlat reports whether a text has no line breaks, so that it can be one line as it is.
func IsFlat(text []byte) bool {
	// One after the other, at the speed of memory: to look for any of two bytes takes
	// several times as long.
	return bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0
}

// appendFlat appends text with spaces for its line breaks.
func appendFlat[T []byte | string](dst []byte, text T) []byte {
	n := len(dst)
	dst = append(dst, text...)
	Flatten(dst[n:])
	return dst
}

// Flatten puts spaces for the line breaks of a JSON text.
func Flatten(text []byte) {
	for _, c := range []byte("\r\n") {
		for rest := text; ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}
