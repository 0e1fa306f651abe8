// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// Limits bound the work of reading a text. A zero field means its default.
type Limits struct {
	Depth     int // nested arrays and objects, including the envelope; at most MaxDepth
	Members   int // members of all objects together
	ListDepth int // Depth for the tools, prompts, resources and templates of a result; at least Depth
}

// MaxDepth is the largest depth that a limit may allow.
const MaxDepth = 1024

const (
	defaultDepth   = 128
	defaultMembers = 100_000

	// maxName bounds the JSON text of a member's name: later readers of the message
	// keep, hash and quote names as if they were short.
	maxName = 64 << 10
)

// A Scanner checks JSON text against RFC 8259 in one pass. Its methods take the offset at
// which they expect something and return the offset after it, or Failed with the reason
// in Err. They do not recurse with the depth of the text.
type Scanner struct {
	Data        []byte
	Depth       int    // limit
	AfterObject int    // offset after the object that Next iterated over
	Err         *Error // the first one

	members int    // that are still allowed
	inLists int    // limit of the depth inside the lists of a result
	body    Object // params or result of a scanned envelope
	beside  []byte // undefined members of the envelope: see Object.Beside

	// Of the name that Key read last.
	keyEnd     int  // after its closing quote
	keyEscaped bool // it must be decoded before it is compared

	// Of the string in which textFrom failed.
	cut  int    // the string is checked up to here
	high uint64 // all bytes before cut, or-ed

	partial bool // data may end inside a string without an error

	// One bit for each open container of Value: set for an object.
	open [MaxDepth / 64]uint64
}

// Failed is not an offset. Callers return it without looking at Err, so that a valid
// message costs one comparison at each step.
const Failed = -1

// NewScanner returns a scanner of the text, which it keeps.
func NewScanner(data []byte, lim Limits) Scanner {
	s := Scanner{Data: data, members: lim.Members, Depth: lim.Depth}
	if s.members <= 0 {
		s.members = defaultMembers
	}
	if s.Depth <= 0 {
		s.Depth = defaultDepth
	}
	s.Depth = min(s.Depth, MaxDepth)
	s.inLists = min(max(s.Depth, lim.ListDepth), MaxDepth)
	return s
}

// Malformed fails for text that is not JSON, or that readers would decode differently.
func (s *Scanner) Malformed(offset int, reason, cure string) int {
	return s.fail(&Error{Malformed: true, Offset: offset, Reason: reason, Cure: cure})
}

// Invalid fails for valid JSON that is not a valid message.
func (s *Scanner) Invalid(offset int, reason, cure string) int {
	return s.fail(&Error{Offset: offset, Reason: reason, Cure: cure})
}

// fail sets the error. The first one counts: later ones follow from it.
func (s *Scanner) fail(err *Error) int {
	if s.Err == nil {
		s.Err = err
	}
	return Failed
}

// exceed fails for text that exceeds a configured limit. Other readers might accept the
// message.
func (s *Scanner) exceed(limit Limit, offset int, reason, cure string) int {
	s.Invalid(offset, reason, cure)
	s.Err.Exceeded = limit
	return Failed
}

// Syntax fails at a byte that the grammar does not allow here.
func (s *Scanner) Syntax(i int, want string) int {
	if i >= len(s.Data) {
		return s.Malformed(len(s.Data), "the JSON text ends too early", "expected "+want)
	}
	return s.Malformed(i, "unexpected "+QuoteByte(s.Data[i]), "expected "+want)
}

// QuoteByte quotes one byte of a peer's text in ASCII, because errors end in logs and
// on terminals.
func QuoteByte(c byte) string {
	if c >= utf8.RuneSelf {
		return "byte 0x" + strconv.FormatUint(uint64(c), 16)
	}
	return strconv.QuoteRuneToASCII(rune(c))
}

// At returns the byte at an offset, and NUL after the end, which is never allowed.
func (s *Scanner) At(i int) byte {
	if i < len(s.Data) {
		return s.Data[i]
	}
	return 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// Space skips white space. It is small enough to be inlined for the case that there is
// none.
func (s *Scanner) Space(i int) int {
	if i < len(s.Data) && s.Data[i] <= ' ' {
		return s.spaces(i)
	}
	return i
}

func (s *Scanner) spaces(i int) int {
	for i < len(s.Data) && isSpace(s.Data[i]) {
		i++
	}
	return i
}

// Value checks the value that begins at i, inside depth containers.
func (s *Scanner) Value(i, depth int) int {
	base := depth
	for {
		switch c := s.At(i); c {
		case '"':
			i, _ = s.Text(i)
		case '{', '[':
			// Levels are counted here instead of on the stack, which no message can
			// exhaust then.
			next, empty := s.enter(i, &depth)
			if next >= 0 && !empty {
				i = next
				continue
			}
			i = next
		default:
			i = s.scalar(i, c)
		}
		if i < 0 || depth == base {
			return i
		}
		if i = s.leave(i, base, &depth); i < 0 || depth == base {
			return i
		}
	}
}

// enter opens the container at i. It returns the offset of its first value, or, if the
// container is empty, the offset after it.
func (s *Scanner) enter(i int, depth *int) (next int, empty bool) {
	if *depth >= s.Depth {
		return s.TooDeep(i), false
	}
	object := s.Data[i] == '{'
	i = s.Space(i + 1)
	if object {
		if s.At(i) == '}' {
			return i + 1, true
		}
		s.open[*depth>>6] |= 1 << (*depth & 63)
		*depth++
		return s.Key(i), false
	}
	if s.At(i) == ']' {
		return i + 1, true
	}
	s.open[*depth>>6] &^= 1 << (*depth & 63)
	*depth++
	return i, false
}

// TooDeep fails at a container that is nested deeper than the limit.
func (s *Scanner) TooDeep(i int) int {
	return s.exceed(LimitDepth, i, "nesting is deeper than "+strconv.Itoa(s.Depth), "send a flatter message")
}

// leave continues after a value inside a container: past closing brackets, to the next
// value, or until no more than base containers are open.
func (s *Scanner) leave(i, base int, depth *int) int {
	for *depth > base {
		i = s.Space(i)
		d := *depth - 1
		object := s.open[d>>6]>>(d&63)&1 != 0
		switch c := s.At(i); {
		case c == ',' && object:
			return s.Key(s.Space(i + 1))
		case c == ',':
			return s.Space(i + 1)
		case c == '}' && object, c == ']' && !object:
			i++
			*depth = d
		case object:
			return s.Syntax(i, "',' or '}' after a member")
		default:
			return s.Syntax(i, "',' or ']' after an element")
		}
	}
	return i
}

// Key checks a member's name and the colon, and returns the offset of the value.
func (s *Scanner) Key(i int) int {
	if s.At(i) != '"' {
		return s.Syntax(i, "a member's name in double quotes")
	}
	// Counted before the name is read, so that a message beyond the limit costs no more
	// than one at the limit.
	if s.members--; s.members < 0 {
		return s.exceed(LimitMembers, i, "the message has too many members", "send a smaller message")
	}
	start := i
	if i, s.keyEscaped = s.Text(i); i < 0 {
		return Failed
	}
	if i-start > maxName {
		return s.Invalid(start, "a member's name is longer than "+strconv.Itoa(maxName)+" bytes", "send a shorter name")
	}
	s.keyEnd = i
	if i = s.Space(i); s.At(i) != ':' {
		return s.Syntax(i, "':' after a member's name")
	}
	return s.Space(i + 1)
}

// scalar checks a number or a literal with first byte c.
func (s *Scanner) scalar(i int, c byte) int {
	switch {
	case c == '-' || '0' <= c && c <= '9':
		return s.number(i)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	default:
		return s.Syntax(i, "a value")
	}
}

// literal checks true, false or null.
func (s *Scanner) literal(i int, word string) int {
	end := i + len(word)
	if end > len(s.Data) || string(s.Data[i:end]) != word {
		return s.Malformed(i, "unknown literal", "expected true, false or null")
	}
	return end
}

// number checks the grammar and not the value: a number is forwarded as it is written
// and may exceed any Go type.
func (s *Scanner) number(i int) int {
	if s.At(i) == '-' {
		i++
	}
	if s.At(i) == '0' {
		i++
	} else if i = s.digits(i); i < 0 {
		return Failed
	}
	if s.At(i) == '.' {
		if i = s.digits(i + 1); i < 0 {
			return Failed
		}
	}
	if c := s.At(i); c == 'e' || c == 'E' {
		i++
		if c := s.At(i); c == '+' || c == '-' {
			i++
		}
		i = s.digits(i)
	}
	return i
}

// digits requires at least one digit.
func (s *Scanner) digits(i int) int {
	start := i
	// Bytes less than '0' wrap around and are greater than nine.
	for i < len(s.Data) && s.Data[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return s.Syntax(i, "a digit")
	}
	return i
}

// End checks that only white space follows, unless the text has already failed.
func (s *Scanner) End(i int) int {
	if i < 0 {
		return Failed
	}
	// Some readers would take a second value for the message, others would ignore it.
	if i = s.Space(i); i < len(s.Data) {
		return s.Malformed(i, "unexpected "+QuoteByte(s.Data[i])+" after the end of the JSON text", "send one value")
	}
	return i
}

// Begin skips to the first value and reports common wrong beginnings.
func (s *Scanner) Begin() int {
	i := s.Space(0)
	d := s.Data
	switch {
	// Positions are kept in 32 bits.
	case uint64(len(d)) > math.MaxUint32:
		return s.Invalid(0, "the JSON text is longer than 4 GiB", "send less at once")
	case i == len(d):
		return s.Malformed(i, "missing JSON text", "send one JSON object")
	case len(d) >= 3 && string(d[:3]) == "\uFEFF":
		return s.Malformed(0, "byte order mark", "send UTF-8 without it")
	case len(d) >= 2 && (d[0] == 0 || d[1] == 0 || d[0] >= 0xFE):
		return s.Malformed(0, "this looks like UTF-16 or UTF-32", "send UTF-8")
	default:
		return i
	}
}
