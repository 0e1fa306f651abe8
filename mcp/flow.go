// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"io"
	"strconv"
	"unicode/utf8"
)

// Passage says what becomes of a result that flows.
type Passage struct {
	// ID is the request's, which the response must have.
	ID ID
	// Front is members that the result is given at its front, as they stand between an
	// object's braces. It is the caller's to keep them from standing twice: by Drop,
	// or by Refuse.
	Front []byte
	// Drop is members of the result and of its _meta that are left out, wherever they
	// stand, with the white space around them.
	Drop []Field
	// Refuse is members of the same places that end the flow, unless Result has shown
	// them.
	Refuse []Field
	// Wrap is a member of the result that is to be an object: one that is none becomes
	// the member "result" of one.
	Wrap Field
	// Complete wants a resultType, wherever one stands, to be "complete".
	Complete bool
}

// Flow writes the result's JSON text to w, in pieces of at most a window, as it arrives;
// and then what stands behind the result in the message and JSON-RPC does not define,
// each member with a comma before it. Nothing reaches w that has not been checked, and what has been checked is
// written before more is waited for. Flow ends at the first error, which is that of
// the reader or of w as they gave it, or a [*ParseError]. What has been written then is
// not to be taken for a result: it may even be whole, in an envelope that is none.
//
// In one thing it is stricter than Parse: a number, a member's name, and the white
// space on both sides of a name must fit into a window.
//
// The Result that it returns stands for the one that went by. It has isError where
// that had it, and nothing else.
func (a *Arrival) Flow(w io.Writer, p Passage) (*Result, error) {
	f := flow{
		Arrival: a, w: w, front: p.Front, complete: p.Complete, wrap: p.Wrap, id: p.ID,
		drop: setOf(p.Drop), refuse: setOf(p.Refuse) &^ a.result.has,
		s: newScanner(a.data, a.lim), hold: none, digest: []byte("{}"),
	}
	f.message()
	a.release()
	switch {
	case f.err != nil:
		return nil, f.err
	case a.end != nil && !errors.Is(a.end, io.EOF):
		return nil, a.end
	case a.total > a.most:
		return nil, a.tooLong()
	case f.s.err != nil:
		f.s.err.Offset += f.passed
		return nil, f.s.err
	}
	return NewResult(f.digest)
}

func setOf(fields []Field) (set uint64) {
	for _, f := range fields {
		set |= 1 << f
	}
	return set &^ (1 << FieldNone)
}

// flow is one result on its way. Its methods take and return offsets like those of
// scanner, into the window. Wherever one may wait for more, the window moves: what lies
// before the offset that it was called with is written, or not wanted, and the offset
// that it returns counts from the new beginning. A method that fails says why in the
// scanner's err, unless that is the reader's, the writer's, or the length.
type flow struct {
	*Arrival

	w        io.Writer
	front    []byte
	drop     uint64
	refuse   uint64
	complete bool
	wrap     Field
	id       ID // that the response must have

	s      scanner // its data is that of the Arrival
	passed int     // bytes of the message before the window
	live   bool    // what is scanned is written
	from   int     // where that begins which was not written yet
	hold   int     // from here on all is kept in the window, unwritten; or none
	tried  bool    // of this window some was scanned in vain
	err    error   // of w
	seen   uint64  // members of the envelope
	digest []byte  // what is told of the result
}

// none is no offset to hold.
const none = -1

// longestEscape is how many bytes decide, at most, whether a token is none: what fails
// nearer to the end of the window is tried again when there is more.
const longestEscape = len(`\u0000`)

// more waits for more text behind what there is. The text may as well have ended,
// which the Arrival's end says.
func (f *flow) more(at int) int {
	keep := at
	if f.hold != none {
		keep = min(at, f.hold)
		f.hold -= keep
	}
	if f.write(keep); f.err != nil {
		return failed
	}
	rest := copy(*f.window, f.data[keep:])
	f.data = (*f.window)[:rest]
	f.passed += keep
	f.tried = false
	f.from -= keep
	if rest == len(*f.window) {
		return f.s.invalid(0, "a name or a number does not fit into "+strconv.Itoa(rest)+" bytes", "send a shorter one")
	}
	// Where much is kept, a little more would not help, and all would be looked at again
	// and again.
	f.read(*f.window, 1+rest/64)
	f.s.data = f.data
	if f.total > f.most || f.end != nil && !errors.Is(f.end, io.EOF) {
		return failed
	}
	return at - keep
}

// write writes what is before an offset.
func (f *flow) write(to int) {
	if to <= f.from {
		return
	}
	if f.live {
		f.put(f.data[f.from:to])
	}
	f.from = to
}

func (f *flow) put(text []byte) {
	if f.err == nil && len(text) > 0 {
		_, f.err = f.w.Write(text)
	}
}

// isDecided reports whether what was found of a token stands, whatever follows. A
// failure that does not stand is forgotten.
func (f *flow) isDecided(end int) bool {
	switch {
	case f.end != nil:
		return true
	case end >= 0:
		return end < len(f.data)
	case f.s.err.Offset+longestEscape <= len(f.data):
		return true
	default:
		f.s.err = nil
		return false
	}
}

// skip skips white space, up to something else or to the end of the text.
func (f *flow) skip(i int) int {
	for {
		if i = f.s.space(i); i < len(f.data) || f.end != nil {
			return i
		}
		if i = f.more(i); i < 0 {
			return failed
		}
	}
}

// token checks a string, a number or a word, all of which is then in the window. c is
// its first byte.
func (f *flow) token(i int, c byte) (start, end int) {
	for {
		if c == '"' {
			end, _ = f.s.text(i)
		} else {
			end = f.s.scalar(i, c)
		}
		if f.isDecided(end) {
			return i, end
		}
		if i = f.more(i); i < 0 {
			return failed, failed
		}
	}
}

// key checks a member's name and the colon, all of which is then in the window.
func (f *flow) key(i int) (start, value int) {
	for members := f.s.members; ; f.s.members = members {
		if value = f.s.key(i); f.isDecided(value) {
			return i, value
		}
		if i = f.more(i); i < 0 {
			return failed, failed
		}
	}
}

// text checks a string of any length.
func (f *flow) text(i int) int {
	i++
	for {
		f.s.partial = f.end == nil
		end := f.s.inside(i)
		f.s.partial = false
		if end >= 0 || f.s.err != nil && f.isDecided(end) {
			return end
		}
		whole := f.s.cut - cutRune(f.data[i:f.s.cut])
		if f.s.high&highs != 0 && !utf8.Valid(f.data[i:whole]) {
			return f.s.badUTF8(i, whole)
		}
		if i = f.more(whole); i < 0 {
			return failed
		}
	}
}

// cutRune returns the length of a character at the end of text that is not all there.
func cutRune(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// value checks the value that stands at i or behind white space there.
func (f *flow) value(i, depth int) int {
	base := depth
	for {
		if i = f.skip(i); i < 0 {
			return failed
		}
		switch c := f.s.at(i); c {
		case '"':
			i = f.text(i)
		case '{', '[':
			next, done := f.container(i, &depth)
			if next >= 0 && !done {
				i = next
				continue
			}
			i = next
		default:
			_, i = f.token(i, c)
		}
		if i < 0 || depth == base {
			return i
		}
		if i = f.leave(i, base, &depth); i < 0 || depth == base {
			return i
		}
	}
}

// container passes over the container at i where all of it is in the window, which is
// quicker, or else enters it. The outer ones, which the first window has, are longer;
// and of each other window one attempt at most is made in vain.
func (f *flow) container(i int, depth *int) (next int, done bool) {
	if f.passed > 0 && !f.tried {
		members := f.s.members
		if end := f.s.value(i, *depth); end >= 0 {
			return end, true
		}
		f.s.err, f.s.members, f.tried = nil, members, true
	}
	return f.enter(i, depth)
}

// enter opens the container at i, like that of scanner.
func (f *flow) enter(i int, depth *int) (next int, empty bool) {
	d := *depth
	if d >= f.s.depth {
		return f.s.tooDeep(i), false
	}
	object := f.data[i] == '{'
	if i = f.skip(i + 1); i < 0 {
		return failed, false
	}
	switch c := f.s.at(i); {
	case object && c == '}', !object && c == ']':
		return i + 1, true
	case object:
		f.s.open[d>>6] |= 1 << (d & 63)
		_, i = f.key(i)
	default:
		f.s.open[d>>6] &^= 1 << (d & 63)
	}
	*depth++
	return i, false
}

// leave goes on behind a value inside a container, like that of scanner.
func (f *flow) leave(i, base int, depth *int) int {
	for *depth > base {
		if i = f.skip(i); i < 0 {
			return failed
		}
		d := *depth - 1
		object := f.s.open[d>>6]>>(d&63)&1 != 0
		switch c := f.s.at(i); {
		case c == ',' && object:
			if i = f.skip(i + 1); i >= 0 {
				_, i = f.key(i)
			}
			return i
		case c == ',':
			return i + 1
		case c == '}' && object, c == ']' && !object:
			i++
			*depth = d
		case object:
			return f.s.syntax(i, "',' or '}' after a member")
		default:
			return f.s.syntax(i, "',' or ']' after an element")
		}
	}
	return i
}
