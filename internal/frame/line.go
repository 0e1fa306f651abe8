// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"errors"
	"io"
)

// A LineReader reads messages of one line each, the format of MCP on the standard
// streams of a process (basic/transports/stdio).
type LineReader struct {
	b       buffer
	max     int
	headLen int  // bytes of a line over the limit to return
	over    bool // the line at pos is over the limit: skip the rest of it
	cutLen  int  // length of the last line over the limit that was not returned
	done    bool // the stream has ended

	refused *NoRoomError // error for the line at pos, which is skipped, or nil
}

// NewLineReader returns a reader of lines of up to maxLine bytes, not counting the line
// end.
func NewLineReader(r io.Reader, maxLine int) *LineReader {
	return &LineReader{b: buffer{r: r}, max: maxLine, headLen: headSize}
}

// Bound sets the Bound that must grant memory for large lines. Next returns a
// [*NoRoomError] at the end of a line that b rejects.
func (r *LineReader) Bound(b Bound) { r.b.bound = b }

// Next returns the next line that is not empty, without the LF or CRLF that ends it.
// The text after the last LF of the stream is a line too. The line belongs to the
// caller. More lines may follow a *TooLongError or a *NoRoomError. Any other error is
// final; it is io.EOF at the end of the stream.
func (r *LineReader) Next() ([]byte, error) {
	for {
		lf := r.b.findLF()
		if lf == r.b.end {
			if !r.over && lf-r.b.pos > r.max+1 { // the last byte may be the CR
				r.over = true
				return nil, newTooLong(r.max, r.headLen, r.b.buf[r.b.pos:lf])
			}
			r.skipTo(lf)
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

// skipTo skips the text read so far of a line that is not returned.
func (r *LineReader) skipTo(end int) {
	if !r.over {
		return
	}
	if r.refused != nil {
		r.refused.addTail(r.b.buf[r.b.pos:end])
	}
	r.b.pos = end
}

// IsAtEnd reports whether the stream has ended, so that the line that Next returned is
// the last one.
func (r *LineReader) IsAtEnd() bool { return r.done }

// NextCut is Next for text that is useful even if it is too long: it returns the first
// bytes of a line, up to the limit, and the number of bytes cut off. It returns when
// the line has ended. Use either Next or NextCut for a reader.
func (r *LineReader) NextCut() (line []byte, cut int, err error) {
	r.headLen = r.max
	line, err = r.Next()
	long, ok := errors.AsType[*TooLongError](err)
	if !ok {
		return line, 0, err
	}
	if r.over {
		r.cutLen = r.skip() - len(long.Head)
	}
	return long.Head, r.cutLen, nil
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

// take returns the line up to lf, or to the end of the stream. It returns nil for an
// empty line and for the rest of a line over the limit.
func (r *LineReader) take(lf int) ([]byte, error) {
	start, end := r.b.pos, lf
	r.b.pos = min(lf+1, r.b.end)
	if no := r.refused; no != nil {
		r.refused, r.over = nil, false
		no.addTail(r.b.buf[start:end])
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
		r.cutLen = n - min(r.max, r.headLen)
		return nil, newTooLong(r.max, r.headLen, r.b.buf[start:end])
	case n == 0:
		return nil, nil
	}
	r.b.kept = span{start, end}
	return r.b.release(), nil
}

// AppendLine appends a JSON text, possibly in parts, as one line. Line breaks in it can
// only be between tokens, and become spaces.
func AppendLine(dst []byte, parts ...[]byte) []byte {
	for _, part := range parts {
		dst = appendFlat(dst, part)
	}
	return append(dst, '\n')
}

// MakeLine makes a line of a JSON text in place, if there is capacity for one more
// byte. The caller must own the text.
func MakeLine(text []byte) []byte {
	Flatten(text)
	return append(text, '\n')
}

// IsFlat reports whether a text has no line breaks, so that it is one line.
func IsFlat(text []byte) bool {
	// Two searches run at the speed of memory; a search for either byte takes several
	// times as long.
	return bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0
}

// appendFlat appends text with its line breaks replaced by spaces.
func appendFlat[T []byte | string](dst []byte, text T) []byte {
	n := len(dst)
	dst = append(dst, text...)
	Flatten(dst[n:])
	return dst
}

// Flatten replaces the line breaks of a JSON text by spaces.
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
