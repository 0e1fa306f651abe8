// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"errors"
	"io"
	"math"
	"strconv"
	"sync"
)

// windowSize is the part of a message that an Arrival holds. A message that is no
// longer is read whole.
//
// A streamed result is written one window at a time, and each packet wakes its reader.
// A window fits into one packet: over loopback that is 64 KiB less the headers, and a
// larger window would cost a second packet for a few bytes.
const windowSize = 63 << 10

// An Arrival reads one response while it is still arriving, and checks it.
// Begin returns a short response whole. Of a longer one, Begin reads the head, after
// which either Gather or Flow must be called, once:
//
//	whole, err := a.Begin()
//	switch {
//	case err != nil || whole != nil: // the end
//	case a.Result() == nil:          // the head does not show a result
//		whole, err = a.Gather()
//	default:
//		isError, err = a.Flow(w, Passage{ID: id})
//	}
//
// An Arrival is for one goroutine. It does not close its reader and need not be closed.
type Arrival struct {
	r        io.Reader
	size     int64 // announced length; negative if unknown
	maxBytes int
	lim      Limits

	window *[]byte // backing memory of data, and the read buffer
	data   []byte  // text that was read and is still needed
	total  int     // number of bytes read
	end    error   // error of the reader

	id     []byte // in data
	result Object
}

// windowPool are lent to an Arrival from Begin until the message is whole or streamed.
//
//nolint:gochecknoglobals // a pool is shared by nature
var windowPool = sync.Pool{New: func() any { b := make([]byte, windowSize); return &b }}

// NewArrival returns an Arrival that reads one response from r up to the end of r. size
// is the announced length, or negative; it is a hint only. most is the maximal length
// of the response in bytes.
func NewArrival(r io.Reader, size int64, lim Limits, most int) Arrival {
	return Arrival{r: r, size: size, lim: lim, maxBytes: int(min(int64(most), math.MaxUint32))}
}

// Begin reads until the message ends and returns its text, or until a window of it (63
// KiB) has been read and returns nil. It fails with the unmodified error of the reader,
// or with a [*Error] if the message is too long.
//
// The text belongs to the caller and is not yet parsed.
func (a *Arrival) Begin() (whole []byte, err error) {
	if a.window == nil {
		a.window, _ = windowPool.Get().(*[]byte)
	}
	room := *a.window
	for len(a.data) < len(room) && a.end == nil {
		a.read(room, 1)
	}
	switch {
	case a.total > a.maxBytes:
		return nil, a.tooLong()
	case a.end == nil:
		a.scanHead()
		return nil, nil
	case !errors.Is(a.end, io.EOF):
		return nil, a.end
	}
	whole = make([]byte, len(a.data))
	copy(whole, a.data)
	a.release()
	return whole, nil
}

// ID returns the JSON text of the response's id, or nil if Begin has not read it: the id
// may follow the result. It is valid until Gather or Flow is called.
func (a *Arrival) ID() []byte { return a.id }

// Result returns the members of the result that are complete in the head that Begin has
// read. It returns nil if the head does not show that the message is a result, or if a
// member that JSON-RPC does not define precedes the result. Its Bytes are only the
// head. It is valid until Gather or Flow is called.
func (a *Arrival) Result() *Object {
	if a.result.IsZero() {
		return nil
	}
	return &a.result
}

// Has reports whether the member of the result has arrived at least in part. It is for
// the time in which Result is valid.
func (a *Arrival) Has(f Field) bool {
	if a.result.Has(f) {
		return true
	}
	s := NewScanner(a.result.raw, Limits{})
	s.partial = true
	var seen Names
	for i := s.First(s.Begin()); i >= 0; i = s.Next(i) {
		start := i
		if i = s.Key(i); i < 0 {
			return false
		}
		if s.name(start, LevelResult, &seen) == f && s.Err == nil {
			return true
		}
		if i = s.Value(i, 1); i < 0 {
			return false
		}
	}
	return false
}

// Longest returns an upper bound of the number of bytes that Flow would write, or a
// negative number if no length was announced. It is for the time in which Result is
// valid.
func (a *Arrival) Longest(p Passage) int64 {
	if a.size < 0 {
		return -1
	}
	begins := len(a.data) - len(a.result.raw)
	size := a.size - int64(begins+len("}")) // of the envelope, which ends after the result
	if n := len(p.Front); n > 0 {
		size += int64(n + len(","))
	}
	if p.Wrap != FieldNone {
		size += int64(len(wrapping) + len("}"))
	}
	return size
}

// Gather reads the rest and returns the whole text, as Begin would.
func (a *Arrival) Gather() ([]byte, error) {
	whole := make([]byte, len(a.data), a.bufferSize(len(a.data)))
	copy(whole, a.data)
	a.release()
	a.data = whole
	for a.end == nil && a.total <= a.maxBytes {
		if len(whole) == cap(whole) {
			grown := make([]byte, len(whole), a.bufferSize(len(whole)))
			copy(grown, whole)
			whole, a.data = grown, grown
		}
		a.read(whole[:cap(whole)], 1)
		whole = a.data
	}
	switch {
	case a.total > a.maxBytes:
		return nil, a.tooLong()
	case !errors.Is(a.end, io.EOF):
		return nil, a.end
	default:
		return whole, nil
	}
}

// bufferSize returns the size of a buffer after have bytes were read: the announced
// length, but never much more than the sender has sent.
func (a *Arrival) bufferSize(have int) int {
	// One more byte, in which the reader reports its end.
	announced := int(min(a.size, int64(a.maxBytes))) + 1
	if announced <= have {
		return 2*have + 512
	}
	return min(announced, 32*have)
}

// read appends at least least bytes to data, which is the front of room, unless room is
// full or the reader ends.
func (a *Arrival) read(room []byte, least int) {
	for got := 0; got < least && len(a.data) < len(room) && a.end == nil; {
		n, err := a.r.Read(room[len(a.data):])
		a.data, a.end = room[:len(a.data)+n], err
		a.total += n
		got += n
	}
}

// release returns the window, which must not be used afterwards.
func (a *Arrival) release() {
	windowPool.Put(a.window)
	a.window, a.data, a.id, a.result = nil, nil, nil, Object{}
}

func (a *Arrival) tooLong() error {
	return &Error{
		Offset: a.maxBytes, Exceeded: LimitBytes,
		Reason: "the message is longer than " + strconv.Itoa(a.maxBytes) + " bytes", Cure: "send a shorter one",
	}
}

// scanHead scans the head of the message. The text is checked only when it is streamed
// or parsed. An invalid head gives no result, so that the message is gathered and
// rejected as a whole.
func (a *Arrival) scanHead() {
	s := NewScanner(a.data, a.lim)
	s.partial = true
	var env, res Object
	env.raw = a.data
	at := s.scanEnvelopeHead(&env, &res)
	wrong := s.Err != nil && s.Err.Offset+longestEscape <= len(a.data)
	if wrong {
		return
	}
	// A number at the end of the head may continue after it.
	res.removeEndingAt(len(a.data) - at)
	env.removeEndingAt(len(a.data))
	if id, ok := env.find(FieldID); ok {
		a.id = s.ID(int(id.value), int(id.end))
	}
	if at < 0 || env.Present(FieldError) || env.Present(FieldMethod) || env.Present(FieldParams) {
		return
	}
	a.result = res
	a.result.raw = a.data[at:]
}

// scanEnvelopeHead scans the envelope as far as it has been read, and returns the
// offset of the result, or failed if it has no object as its result.
func (s *Scanner) scanEnvelopeHead(env, res *Object) (at int) {
	i := s.Begin()
	if i < 0 {
		return Failed
	}
	at = Failed
	var seen Names
	for i = s.First(i); i >= 0; i = s.Next(i) {
		start := i
		if i = s.Key(i); i < 0 {
			return at
		}
		f, value := s.name(start, LevelEnvelope, &seen), i
		if s.Err != nil {
			return at
		}
		if f == FieldNone && at < 0 {
			return Failed // it belongs after the result, which only the whole message allows
		}
		if f == FieldResult && s.At(i) == '{' {
			at = i
			i = s.object(i, 1, LevelResult, res, i)
		} else {
			i = s.Value(i, 1)
		}
		if i < 0 {
			return at
		}
		if f != FieldNone {
			env.add(f, start, value, i)
		}
	}
	return at
}
