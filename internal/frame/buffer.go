// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"fmt"
	"io"
)

const (
	// firstRead is the size of a fresh buffer: most messages fit, and an idle
	// stream holds no more than this.
	firstRead = 4 << 10

	// keptSize is how large a buffer may stay that nothing is left in. Messages of
	// a size that needs more are given away with their buffer.
	keptSize = 16 << 10

	// around is what stands around a message in its buffer, roughly: its own frame, and
	// the beginning of the next one.
	around = 1 << 10

	// headSize is how much of a message over the limit is shown: enough for
	// method and id, where they stand first.
	headSize = 1 << 10

	// emptyReads is how often in a row a reader may return nothing and no error.
	emptyReads = 100
)

// TooLongError says that one message was longer than the reader's limit. It is
// not the end of the stream: the next call of Next skips the rest of the message.
type TooLongError struct {
	// Limit is what the reader was made with.
	Limit int
	// Head is the beginning of the message, up to one KiB, so that the request
	// to which it belongs may be found. It belongs to the caller.
	Head []byte
}

// Error names the limit.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("message longer than the limit of %d bytes", e.Limit)
}

// newTooLong makes the error of a message that begins so, of which up to head bytes
// are shown.
func newTooLong(limit, head int, start []byte) *TooLongError {
	return &TooLongError{Limit: limit, Head: bytes.Clone(start[:min(len(start), limit, head)])}
}

// buffer holds what was read and not yet given to the caller:
//
//	  kept           pos         end
//	..[====].........|-----------|.......
//
// kept is what the owner has already made of a message, the bytes from pos to
// end are not yet looked at, and all others are of no use any more.
type buffer struct {
	r   io.Reader
	err error // of r; final

	buf      []byte
	kept     span
	pos, end int

	// Where the search for the next LF and CR stands: the place that was found,
	// or else the place up to which there is none. Each byte is searched once,
	// however the stream is cut and whichever of the two it uses.
	lf, cr int

	bound Bound // asked before the buffer becomes larger than boundFrom; nil is no bound

	// guess is the size of the buffer that the last large message would have needed: the
	// next one is often as large. It is forgotten when it was wrong.
	guess int
}

type span struct{ start, end int }

func (s span) len() int { return s.end - s.start }

// findLF returns the place of the next LF, or end.
func (b *buffer) findLF() int {
	b.lf = b.find('\n', max(b.lf, b.pos), b.end)
	return b.lf
}

// findEOL returns the place of the next CR or LF, or end.
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

// fill reads more, and returns nil if it has read anything. What is held may
// move.
func (b *buffer) fill() error {
	if b.err != nil {
		return b.err
	}
	if err := b.makeRoom(); err != nil {
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

// makeRoom makes sure that something can be read. A message that fills half of
// the buffer gets one of twice the size; one that is gone leaves a small one.
func (b *buffer) makeRoom() error {
	held := b.kept.len() + b.end - b.pos
	switch {
	case b.buf == nil, held == 0 && len(b.buf) > keptSize:
		b.moveTo(make([]byte, firstRead))
	case b.end < len(b.buf):
		// There is room.
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

// Bound bounds the messages that readers hold while they read.
type Bound interface {
	// Room is asked before a message takes more than 64 KiB, with the size that it may
	// take in all, and with its beginning. Where it returns an error the message is
	// skipped.
	Room(size int, start []byte) error
}

// boundFrom is the size up to which a buffer needs no room.
const boundFrom = 64 << 10

// start returns the beginning of the message that is being read, which is at least half of
// the buffer.
func (b *buffer) start() []byte {
	if b.kept.len() > headSize {
		return b.buf[b.kept.start:b.kept.end]
	}
	text := b.buf[b.pos:b.end]
	return bytes.TrimPrefix(bytes.TrimPrefix(text, []byte("data:")), []byte(" "))
}

// NoRoomError is the error for a message for which a [Bound] has no room. The reader has
// skipped it, and can be used for the next one.
type NoRoomError struct {
	// Head and Tail are the beginning and the end of the message, up to one KiB each.
	// They belong to the caller.
	Head, Tail []byte
	// Err is what Room has returned.
	Err error
}

// Error returns the text of Err.
func (e *NoRoomError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NoRoomError) Unwrap() error { return e.Err }

// follow notes more of a message that is skipped.
func (e *NoRoomError) follow(text []byte) {
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

// moveTo moves what is held to the beginning of buf, which may be the buffer
// itself.
func (b *buffer) moveTo(buf []byte) {
	k := copy(buf, b.buf[b.kept.start:b.kept.end])
	copy(buf[k:], b.buf[b.pos:b.end])
	shift := b.pos - k
	b.buf = buf
	b.kept = span{0, k}
	b.pos -= shift
	b.end -= shift
	b.lf -= shift // one that is behind pos stays behind it
	b.cr -= shift
}

// release gives away what is kept: a copy, or, if it fills most of the buffer,
// the buffer. It is never nil, and has no room that others could write to.
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
	b.guess = n + n/16 + around
	b.moveTo(make([]byte, max(firstRead, b.end-b.pos)))
	return data
}
