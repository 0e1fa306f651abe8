// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
)

// windowSize is how much of a message an Arrival holds. What is no longer than that is
// read whole.
const windowSize = 64 << 10

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
//		res, err = a.Flow(w, Passage{ID: a.ID()})
//	}
//
// An Arrival is for one goroutine. It does not close its reader.
type Arrival struct {
	r     io.Reader
	size  int64 // announced; negative is unknown
	most  int
	lim   Limits
	front []byte // what has been read so far, no more than a window

	id     ID
	result *Result
}

// Passage says what becomes of a result that flows.
type Passage struct {
	// ID is the request's, which the response must have. The zero ID takes any.
	ID ID
	// Front are members that the result is given at its front, as they stand between an
	// object's braces. They are the caller's to keep from standing twice: by Drop,
	// or by Refuse.
	Front []byte
	// Drop are members of the result, of its _meta or its ref that are left out,
	// wherever they stand.
	Drop []Field
	// Refuse are members of the same places that end the flow, unless Result has
	// shown them.
	Refuse []Field
	// Complete wants a resultType, wherever one stands, to be "complete".
	Complete bool
}

// NewArrival returns what reads the response that r has up to its end. size is the
// length that was announced, or negative; it is used and not relied upon. The response
// may be most bytes long.
func NewArrival(r io.Reader, size int64, lim Limits, most int) *Arrival {
	return &Arrival{r: r, size: size, most: int(min(int64(most), math.MaxUint32)), lim: lim}
}

// Begin reads until the message has ended, and returns its text, or until there is a
// window of it, and returns nil. It has read all or nothing where it fails: with
// the reader's error, or with a [*ParseError] where the message is too long.
//
// The text is the caller's, and not yet parsed.
func (a *Arrival) Begin() (whole []byte, err error) {
	a.front = make([]byte, 0, windowSize)
	for len(a.front) < windowSize && err == nil {
		var n int
		n, err = a.r.Read(a.front[len(a.front):windowSize])
		a.front = a.front[:len(a.front)+n]
	}
	switch {
	case len(a.front) > a.most:
		return nil, a.tooLong()
	case errors.Is(err, io.EOF):
		return a.front, nil
	default:
		return nil, err
	}
}

// ID returns the id of a response of which Begin has shown the front, or the zero ID
// where none stands in it: the id may come behind the result.
func (a *Arrival) ID() ID { return a.id }

// Result returns the members of a result of which Begin has shown the front, as far
// as they stand in it as a whole, or nil where it does not show that the message is a
// result. Its Bytes are the front. It is valid until Gather or Flow is called.
func (a *Arrival) Result() *Result { return a.result }

// Gather reads the rest and returns the whole text, as Begin would.
func (a *Arrival) Gather() ([]byte, error) {
	rest, err := io.ReadAll(io.LimitReader(a.r, int64(a.most-len(a.front))+1))
	if err != nil {
		return nil, err
	}
	whole := append(a.front, rest...)
	if len(whole) > a.most {
		return nil, a.tooLong()
	}
	return whole, nil
}

// Flow writes the result's JSON text to w, in pieces of at most a window, as it
// arrives. Nothing reaches w that has not been checked, and each piece is written
// before the next is waited for. It ends at the first error, which is that of the
// reader or of w as they gave it, or a [*ParseError]; what has been written then
// is no whole object, or one in an envelope that is none.
//
// The Result that it returns stands for the one that went by. It has isError where
// that had it, and nothing else.
func (a *Arrival) Flow(w io.Writer, p Passage) (*Result, error) {
	whole, err := a.Gather()
	if err != nil {
		return nil, err
	}
	m, err := Parse(whole, a.lim)
	if err != nil {
		return nil, err
	}
	text := m.Result.Bytes()
	if len(p.Front) > 0 {
		rest := bytes.TrimLeft(text[1:], " \t\r\n")
		text = append([]byte("{"), p.Front...)
		if rest[0] != '}' {
			text = append(text, ',')
		}
		text = append(text, rest...)
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	digest := "{}"
	if v, ok := m.Result.Bool(FieldIsError); ok {
		digest = `{"isError":` + strconv.FormatBool(v) + `}`
	}
	return NewResult([]byte(digest))
}

func (a *Arrival) tooLong() error {
	return &ParseError{
		Code: CodeInvalidRequest, Offset: a.most, Exceeded: LimitBytes,
		Reason: "the message is longer than " + strconv.Itoa(a.most) + " bytes", Cure: "send a shorter one",
	}
}
