// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"io"
)

// LineReader reads messages that are one line each, as MCP writes them to the
// standard streams of a process (basic/transports/stdio).
type LineReader struct {
	b    buffer
	max  int
	over bool // the line at pos is over the limit: the rest of it is skipped
}

// NewLineReader returns a reader of lines of up to maxLine bytes, their end not
// counted.
func NewLineReader(r io.Reader, maxLine int) *LineReader {
	return &LineReader{b: buffer{r: r}, max: maxLine}
}

// Next returns the next line that is not empty, without the LF or CRLF that ends
// it. What stands behind the last LF of the stream is a line too. The line
// belongs to the caller. A *TooLongError may be followed by further lines; any
// other error is final, io.EOF at the end of the stream.
func (r *LineReader) Next() ([]byte, error) {
	for {
		lf := r.b.findLF()
		if lf == r.b.end {
			if r.over {
				r.b.pos = lf
			} else if lf-r.b.pos > r.max+1 { // the last of them may be the CR
				return nil, r.tooLong()
			}
			if err := r.b.fill(); err == nil {
				continue
			} else if r.b.pos == r.b.end {
				return nil, err
			}
		}
		line, err := r.take(lf)
		if err != nil || line != nil {
			return line, err
		}
	}
}

// take takes the line up to lf, or to the end of the stream. There is none where
// the line is empty or the rest of one over the limit.
func (r *LineReader) take(lf int) ([]byte, error) {
	start, end := r.b.pos, lf
	r.b.pos = min(lf+1, r.b.end)
	if r.over {
		r.over = false
		return nil, nil
	}
	if end > start && r.b.buf[end-1] == '\r' {
		end--
	}
	switch n := end - start; {
	case n > r.max:
		return nil, newTooLong(r.max, r.b.buf[start:end])
	case n == 0:
		return nil, nil
	}
	r.b.kept = span{start, end}
	return r.b.release(), nil
}

func (r *LineReader) tooLong() error {
	r.over = true
	return newTooLong(r.max, r.b.buf[r.b.pos:r.b.end])
}

// AppendLine appends a JSON text as one line. A line break in it can only stand
// between two tokens, where a space says the same.
func AppendLine(dst, msg []byte) []byte {
	return append(appendFlat(dst, msg), '\n')
}

// appendFlat appends text with spaces for its line breaks.
func appendFlat[T []byte | string](dst []byte, text T) []byte {
	n := len(dst)
	dst = append(dst, text...)
	for _, c := range []byte("\r\n") {
		for rest := dst[n:]; ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
	return dst
}
