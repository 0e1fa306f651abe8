// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"io"
	"math"
	"strconv"
	"sync"
)

// windowSize is how much of a message an Arrival holds. What is no longer is read
// whole.
//
// What flows is written a window at a time, and each packet wakes who waits for it. A
// window is as much as goes into one: over loopback that is 64 KiB less the headers, and
// so much more would be a second packet for a few bytes.
const windowSize = 63 << 10

// Arrival reads one response while it is still arriving, as strictly as [Parse]. A
// short one is had whole from Begin. Of a longer one, Begin shows the front, after
// which either Gather or Flow is called, once:
//
//	whole, err := a.Begin()
//	switch {
//	case err != nil || whole != nil: // the end
//	case a.Result() == nil:          // nobody can tell yet what this is
//		whole, err = a.Gather()
//	default:
//		res, err = a.Flow(w, Passage{ID: id})
//	}
//
// An Arrival is for one goroutine. It does not close its reader, and needs no end:
// one that is dropped is garbage.
type Arrival struct {
	r    io.Reader
	size int64 // announced; negative is unknown
	most int
	lim  Limits

	window *[]byte // what data is part of, and what is read into
	data   []byte  // what has been read and is still needed
	total  int     // what has been read in all
	end    error   // what the reader ended with

	id     ID
	result Result
}

// windows are lent to one Arrival from Begin on until the message is whole or has
// flowed by.
//
//nolint:gochecknoglobals // a pool is shared by nature
var windows = sync.Pool{New: func() any { b := make([]byte, windowSize); return &b }}

// NewArrival returns what reads the response that r has up to its end. size is the
// length that was announced, or negative; it is used and not relied upon. The response
// may be most bytes long.
func NewArrival(r io.Reader, size int64, lim Limits, most int) *Arrival {
	return &Arrival{r: r, size: size, lim: lim, most: int(min(int64(most), math.MaxUint32))}
}

// Begin reads until the message has ended, and returns its text, or until there is a
// window of it (63 KiB), and returns nil. It fails with the reader's error as that
// is, or with a [*ParseError] where the message is longer than it may be.
//
// The text is the caller's, and not yet parsed.
func (a *Arrival) Begin() (whole []byte, err error) {
	if a.window == nil {
		a.window, _ = windows.Get().(*[]byte)
	}
	room := *a.window
	for len(a.data) < len(room) && a.end == nil {
		a.read(room, 1)
	}
	switch {
	case a.total > a.most:
		return nil, a.tooLong()
	case a.end == nil:
		a.look()
		return nil, nil
	case !errors.Is(a.end, io.EOF):
		return nil, a.end
	}
	whole = make([]byte, len(a.data))
	copy(whole, a.data)
	a.release()
	return whole, nil
}

// ID returns the id of a response of which Begin has shown the front, or the zero ID
// where none stands in it: the id may come behind the result.
func (a *Arrival) ID() ID { return a.id }

// Result returns the members of a result of which Begin has shown the front, as far
// as they stand in it whole, or nil where it does not show that the message is a
// result, or where a member stands before the result that JSON-RPC does not define. Its Bytes are no more than the front. It is valid until Gather or Flow is
// called.
func (a *Arrival) Result() *Result {
	if a.result.IsZero() {
		return nil
	}
	return &a.result
}

// Gather reads the rest and returns the whole text, as Begin would.
func (a *Arrival) Gather() ([]byte, error) {
	whole := make([]byte, len(a.data), a.room(len(a.data)))
	copy(whole, a.data)
	a.release()
	a.data = whole
	for a.end == nil && a.total <= a.most {
		if len(whole) == cap(whole) {
			grown := make([]byte, len(whole), a.room(len(whole)))
			copy(grown, whole)
			whole, a.data = grown, grown
		}
		a.read(whole[:cap(whole)], 1)
		whole = a.data
	}
	switch {
	case a.total > a.most:
		return nil, a.tooLong()
	case !errors.Is(a.end, io.EOF):
		return nil, a.end
	default:
		return whole, nil
	}
}

// room is how large a buffer is made where so much has come: what was announced, but
// no sender is lent memory for much more than it has sent.
func (a *Arrival) room(have int) int {
	// A byte more than needed is where a reader says that it is at its end.
	announced := int(min(a.size, int64(a.most))) + 1
	if announced <= have {
		return 2*have + 512
	}
	return min(announced, 32*have)
}

// read reads at least least bytes behind data, which is the front of room, unless
// that is full or the reader ends.
func (a *Arrival) read(room []byte, least int) {
	for got := 0; got < least && len(a.data) < len(room) && a.end == nil; {
		n, err := a.r.Read(room[len(a.data):])
		a.data, a.end = room[:len(a.data)+n], err
		a.total += n
		got += n
	}
}

// release gives the window back, of which nothing may be used any longer.
func (a *Arrival) release() {
	windows.Put(a.window)
	a.window, a.data, a.result = nil, nil, Result{}
}

func (a *Arrival) tooLong() error {
	return &ParseError{
		Code: CodeInvalidRequest, Offset: a.most, Exceeded: LimitBytes,
		Reason: "the message is longer than " + strconv.Itoa(a.most) + " bytes", Cure: "send a shorter one",
	}
}

// look finds what the front tells of the message. It is no more than a look: what
// flows is checked when it does. A front that is wrong tells nothing, so that the
// message is gathered and refused as a whole.
func (a *Arrival) look() {
	s := newScanner(a.data, a.lim)
	var env, res Object
	env.raw = a.data
	at := s.lookEnvelope(&env, &res)
	wrong := s.err != nil && s.err.Offset+longestEscape <= len(a.data)
	if wrong {
		return
	}
	// A number that ends with the front may go on behind it.
	res.forget(len(a.data) - at)
	env.forget(len(a.data))
	if id, ok := env.find(fieldID); ok {
		a.id = s.id(int(id.value), int(id.end))
	}
	if at < 0 || env.present(fieldError) || env.present(fieldMethod) || env.present(fieldParams) {
		return
	}
	a.result.Object = res
	a.result.raw = a.data[at:]
}

// lookEnvelope scans the envelope as far as it goes, and returns where the result
// begins, or failed where there is none that is an object.
func (s *scanner) lookEnvelope(env, res *Object) (at int) {
	i := s.begin()
	if i < 0 {
		return failed
	}
	at = failed
	var seen names
	for i = s.first(i); i >= 0; i = s.next(i) {
		start := i
		if i = s.key(i); i < 0 {
			return at
		}
		f, value := s.name(start, levelEnvelope, &seen), i
		if s.err != nil {
			return at
		}
		if f == FieldNone && at < 0 {
			return failed // it is to stand behind the result, which only the whole allows
		}
		if f == fieldResult && s.at(i) == '{' {
			at = i
			i = s.object(i, 1, levelResult, res, i)
		} else {
			i = s.value(i, 1)
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
