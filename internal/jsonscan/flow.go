// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"errors"
	"io"
	"strconv"
	"unicode/utf8"
)

// A Passage specifies how a result is checked and changed while it is streamed.
type Passage struct {
	// ID is the JSON text of the request's id, which the response must have. Empty
	// means any.
	ID []byte
	// Front is members to put at the front of the result, as they appear between the
	// braces of an object. The caller must prevent duplicates with Drop.
	Front []byte
	// Drop is members of the result and of its _meta to omit, with the white space
	// around them.
	Drop []Field
	// Wrap is a member of the result that must be an object: any other value is
	// replaced by an object with the value as its member "result".
	Wrap Field
	// Complete requires a resultType, if present, to be "complete".
	Complete bool
}

// Flow writes the JSON text of the result to w as it arrives, in pieces of at most a
// window; then the members after the result that JSON-RPC does not define, each after a
// comma. Only checked text reaches w, and checked text is written before Flow waits for
// more. Flow ends at the first error, which is the unmodified error of the reader or of
// w, or a [*Error]. Text written before an error must not be used as a result: it
// may even be complete, in an invalid envelope.
//
// Flow is stricter than Parse in one respect: a number, a member's name, and the white
// space on both sides of a name must fit into a window.
//
// The returned text is that of the result's isError if it is a boolean, and otherwise
// empty.
func (a *Arrival) Flow(w io.Writer, p Passage) (isError string, err error) {
	f := flow{
		Arrival: a, w: w, front: p.Front, complete: p.Complete, wrap: p.Wrap, id: p.ID,
		s: NewScanner(a.data, a.lim), holdFrom: none,
	}
	for _, field := range p.Drop {
		f.drop |= 1 << field
	}
	f.drop &^= 1 << FieldNone // which is each member without a meaning
	f.run()
	a.release()
	switch {
	case f.err != nil:
		return "", f.err
	case a.end != nil && !errors.Is(a.end, io.EOF):
		return "", a.end
	case a.total > a.maxBytes:
		return "", a.tooLong()
	case f.s.Err != nil:
		f.s.Err.Offset += f.consumed
		return "", f.s.Err
	}
	return f.isError, nil
}

// flow is the streaming of one result. Its methods take and return offsets into the
// window, like those of Scanner. A method that reads more text moves the window: text
// before the offset passed to it has been written or dropped, and the offset that it
// returns counts from the new beginning. A method that fails has set the scanner's err,
// unless the error is the reader's, the writer's, or about the length.
type flow struct {
	*Arrival

	w        io.Writer
	front    []byte
	drop     uint64
	complete bool
	wrap     Field
	id       []byte // required id of the response

	s               Scanner // its data is the Arrival's
	consumed        int     // bytes of the message before the window
	writing         bool    // scanned text is written
	from            int     // start of the text that is not written yet
	holdFrom        int     // text from here on is kept in the window, unwritten; or none
	containerFailed bool    // container has already failed once in this window
	err             error   // of w
	seen            uint64  // members of the envelope so far
	isError         string  // text of the result's isError, if it is a boolean
}

// none means that nothing is held.
const none = -1

// longestEscape is the number of bytes that can decide whether a token is invalid. A
// failure nearer to the end of the window is retried with more text.
const longestEscape = len(`\u0000`)

// more reads more text. If the text has ended instead, the Arrival's end is set.
func (f *flow) more(at int) int {
	keep := at
	if f.holdFrom != none {
		keep = min(at, f.holdFrom)
		f.holdFrom -= keep
	}
	if f.write(keep); f.err != nil {
		return Failed
	}
	rest := copy(*f.window, f.data[keep:])
	f.data = (*f.window)[:rest]
	f.consumed += keep
	f.containerFailed = false
	f.from -= keep
	if rest == len(*f.window) {
		return f.s.Invalid(0, "a name or a number does not fit into "+strconv.Itoa(rest)+" bytes", "send a shorter one")
	}
	// If much is kept, a little more text would not help, and all would be scanned
	// again and again.
	f.read(*f.window, 1+rest/64)
	f.s.Data = f.data
	if f.total > f.maxBytes || f.end != nil && !errors.Is(f.end, io.EOF) {
		return Failed
	}
	return at - keep
}

// write writes the text before an offset.
func (f *flow) write(to int) {
	if to <= f.from {
		return
	}
	if f.writing {
		f.put(f.data[f.from:to])
	}
	f.from = to
}

func (f *flow) put(text []byte) {
	if f.err == nil && len(text) > 0 {
		_, f.err = f.w.Write(text)
	}
}

// isDecided reports whether the result of scanning a token is final, whatever follows.
// A failure that is not final is cleared.
func (f *flow) isDecided(end int) bool {
	switch {
	case f.end != nil:
		return true
	case end >= 0:
		return end < len(f.data)
	case f.s.Err.Offset+longestEscape <= len(f.data):
		return true
	default:
		f.s.Err = nil
		return false
	}
}

// skip skips white space, up to another byte or the end of the text.
func (f *flow) skip(i int) int {
	for {
		if i = f.s.Space(i); i < len(f.data) || f.end != nil {
			return i
		}
		if i = f.more(i); i < 0 {
			return Failed
		}
	}
}

// token checks a string, a number or a literal with first byte c, which is then whole
// in the window.
func (f *flow) token(i int, c byte) (start, end int) {
	for {
		if c == '"' {
			end, _ = f.s.Text(i)
		} else {
			end = f.s.scalar(i, c)
		}
		if f.isDecided(end) {
			return i, end
		}
		if i = f.more(i); i < 0 {
			return Failed, Failed
		}
	}
}

// key checks a member's name and the colon, which are then whole in the window.
func (f *flow) key(i int) (start, value int) {
	for members := f.s.members; ; f.s.members = members {
		if value = f.s.Key(i); f.isDecided(value) {
			return i, value
		}
		if i = f.more(i); i < 0 {
			return Failed, Failed
		}
	}
}

// text checks a string of any length.
func (f *flow) text(i int) int {
	i++
	for {
		f.s.partial = f.end == nil
		end := f.s.textFrom(i)
		f.s.partial = false
		if end >= 0 || f.s.Err != nil && f.isDecided(end) {
			return end
		}
		whole := f.s.cut - cutRune(f.data[i:f.s.cut])
		if f.s.high&highs != 0 && !utf8.Valid(f.data[i:whole]) {
			return f.s.badUTF8(i, whole)
		}
		if i = f.more(whole); i < 0 {
			return Failed
		}
	}
}

// cutRune returns the length of an incomplete character at the end of text.
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

// value checks the value at i or after white space there.
func (f *flow) value(i, depth int) int {
	base := depth
	for {
		if i = f.skip(i); i < 0 {
			return Failed
		}
		switch c := f.s.At(i); c {
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

// container skips the container at i if it is whole in the window, which is faster, and
// otherwise enters it. It is not tried in the first window, which has the longer outer
// containers, and fails at most once in each other window.
func (f *flow) container(i int, depth *int) (next int, done bool) {
	if f.consumed > 0 && !f.containerFailed {
		members := f.s.members
		if end := f.s.Value(i, *depth); end >= 0 {
			return end, true
		}
		f.s.Err, f.s.members, f.containerFailed = nil, members, true
	}
	return f.enter(i, depth)
}

// enter opens the container at i, like Scanner.enter.
func (f *flow) enter(i int, depth *int) (next int, empty bool) {
	d := *depth
	if d >= f.s.Depth {
		return f.s.TooDeep(i), false
	}
	object := f.data[i] == '{'
	if i = f.skip(i + 1); i < 0 {
		return Failed, false
	}
	switch c := f.s.At(i); {
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

// leave continues after a value inside a container, like Scanner.leave.
func (f *flow) leave(i, base int, depth *int) int {
	for *depth > base {
		if i = f.skip(i); i < 0 {
			return Failed
		}
		d := *depth - 1
		object := f.s.open[d>>6]>>(d&63)&1 != 0
		switch c := f.s.At(i); {
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
			return f.s.Syntax(i, "',' or '}' after a member")
		default:
			return f.s.Syntax(i, "',' or ']' after an element")
		}
	}
	return i
}
