// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"fmt"
	"io"
)

const (
	// firstRead is the size of a new buffer: most messages fit, and an idle stream
	// holds no more memory.
	firstRead = 4 << 10

	// keptSize is the maximal size of an empty buffer that is reused. Larger messages
	// take their buffer with them.
	keptSize = 16 << 10

	// frameOverhead is roughly the size of a message's own framing and the beginning of
	// the next message.
	frameOverhead = 1 << 10

	// headSize is how much of a message over the limit is returned: enough for method
	// and id if they are first.
	headSize = 1 << 10

	// emptyReads is how often in a row a reader may return no bytes and no error.
	emptyReads = 100
)

// A TooLongError is returned for a message longer than the reader's limit. It is not
// the end of the stream: the next call of Next skips the rest of the message.
type TooLongError struct {
	// Limit is the reader's limit.
	Limit int
	// Head is the beginning of the message, up to one KiB, from which its request may
	// be identified. It belongs to the caller.
	Head []byte
}

// Error names the limit.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("message longer than the limit of %d bytes", e.Limit)
}

// newTooLong returns the error for a message that begins with start; its Head has up to
// head bytes.
func newTooLong(limit, head int, start []byte) *TooLongError {
	return &TooLongError{Limit: limit, Head: bytes.Clone(start[:min(len(start), limit, head)])}
}

// buffer holds the bytes that were read and not yet returned:
//
//	  kept           pos         end
//	..[====].........|-----------|.......
//
// kept is the part of a message that its owner has already assembled, the bytes from
// pos to end have not been parsed yet, and all others are unused.
type buffer struct {
	r   io.Reader
	err error // of r; final

	buf      []byte
	kept     span
	pos, end int

	// Positions of the next LF and CR, or the offset up to which the search found
	// nothing. Each byte is searched once, however the stream is split and whichever
	// line end it uses.
	lf, cr int

	bound Bound // asked before the buffer grows beyond boundFrom; nil means no bound

	// guess is the buffer size that the last large message needed: the next one often
	// has the same size. It is cleared when it was wrong.
	guess int
}

type span struct{ start, end int }

func (s span) len() int { return s.end - s.start }

// findLF returns the offset of the next LF, or end.
func (b *buffer) findLF() int {
	b.lf = b.find('\n', max(b.lf, b.pos), b.end)
	return b.lf
}

// findEOL returns the offset of the next CR or LF, or end.
func (b *buffer) findEOL() int {
	b.cr = b.find('\r', max(b.cr, b.pos), b.findLF())
	return b.cr
}

func (b *buffer) find(c byte, from, to int) int {
	if i := bytes.IndexByte(b.buf[from:to], c); i >= 0 {
		return from + i
	}
	return to
}

// fill reads more bytes, and returns nil if there were any. It may move the held bytes.
func (b *buffer) fill() error {
	if b.err != nil {
		return b.err
	}
	if err := b.ensureSpace(); err != nil {
		return err
	}
	for range emptyReads {
		n, err := b.r.Read(b.buf[b.end:])
		b.end += n
		b.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	b.err = io.ErrNoProgress
	return b.err
}

// ensureSpace makes space for reading. A message that fills half of the buffer gets one
// of twice the size; after it is gone, a small one.
func (b *buffer) ensureSpace() error {
	held := b.kept.len() + b.end - b.pos
	switch {
	case b.buf == nil, held == 0 && len(b.buf) > keptSize:
		b.moveTo(make([]byte, firstRead))
	case b.end < len(b.buf):
		// There is space.
	case held > len(b.buf)/2:
		size := b.grown()
		if b.bound != nil && size > boundFrom {
			if err := b.bound.Room(size, b.start()); err != nil {
				return &NoRoomError{Head: bytes.Clone(b.start()[:headSize]), Err: err}
			}
		}
		b.moveTo(make([]byte, size))
	default:
		b.moveTo(b.buf)
	}
	return nil
}

// A Bound bounds the messages that readers hold while they read.
type Bound interface {
	// Room is called before a message takes more than 64 KiB, with the total size that
	// it may take and its beginning. If it returns an error, the message is skipped.
	Room(size int, start []byte) error
}

// boundFrom is the size up to which no Bound is asked.
const boundFrom = 64 << 10

// start returns the beginning of the message that is being read, which fills at least
// half of the buffer.
func (b *buffer) start() []byte {
	if b.kept.len() > headSize {
		return b.buf[b.kept.start:b.kept.end]
	}
	text := b.buf[b.pos:b.end]
	return bytes.TrimPrefix(bytes.TrimPrefix(text, []byte("data:")), []byte(" "))
}

// A NoRoomError is returned for a message that a [Bound] rejects. The reader has
// skipped it and can read the next one.
type NoRoomError struct {
	// Head and Tail are the beginning and the end of the message, up to one KiB each.
	// They belong to the caller.
	Head, Tail []byte
	// Err is the error of Room.
	Err error
}

// Error returns the text of Err.
func (e *NoRoomError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NoRoomError) Unwrap() error { return e.Err }

// addTail appends text of the skipped message to the Tail.
func (e *NoRoomError) addTail(text []byte) {
	e.Tail = append(e.Tail, text[max(0, len(text)-headSize):]...)
	e.Tail = e.Tail[max(0, len(e.Tail)-headSize):]
}

func (b *buffer) grown() int {
	size := 2 * len(b.buf)
	if size > keptSize && (b.bound == nil || size > boundFrom) {
		size = max(size, b.guess)
	}
	return size
}

// moveTo moves the held bytes to the beginning of buf, which may be the current buffer.
func (b *buffer) moveTo(buf []byte) {
	k := copy(buf, b.buf[b.kept.start:b.kept.end])
	copy(buf[k:], b.buf[b.pos:b.end])
	shift := b.pos - k
	b.buf = buf
	b.kept = span{0, k}
	b.pos -= shift
	b.end -= shift
	b.lf -= shift // a value beyond pos stays beyond it
	b.cr -= shift
}

// release returns the kept bytes: as a copy, or, if they fill most of the buffer, with
// the buffer. The result is never nil and has no spare capacity.
func (b *buffer) release() []byte {
	start, n := b.kept.start, b.kept.len()
	data := b.buf[start : start+n : start+n]
	b.kept = span{}
	if n <= keptSize || n < len(b.buf)/2 {
		if len(b.buf) > keptSize {
			b.guess = 0
		}
		return append(make([]byte, 0, n), data...)
	}
	b.guess = n + n/16 + frameOverhead
	b.moveTo(make([]byte, max(firstRead, b.end-b.pos)))
	return data
}
