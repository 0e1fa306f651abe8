// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// Limits bound the work of reading a message. A zero field means its default.
type Limits struct {
	Depth   int // nested arrays and objects, including the envelope; at most 1024
	Members int // members of all objects together

	// ListDepth is Depth for the tools, prompts, resources and resource templates of a
	// result: the code that merges lists can omit a single item that is too deep. The
	// default is Depth.
	ListDepth int
}

const (
	defaultDepth   = 128
	maxDepth       = 1024
	defaultMembers = 100_000

	// maxName bounds the JSON text of a member's name: later readers of the message
	// keep, hash and quote names as if they were short.
	maxName = 64 << 10
)

// scanner checks JSON text against RFC 8259 in one pass. Its methods take the offset at
// which they expect something and return the offset after it, or failed with the reason
// in err. They do not recurse with the depth of the text.
type scanner struct {
	data    []byte
	members int // that are still allowed
	depth   int // limit
	inLists int // limit inside the lists of a result
	err     *ParseError
	body    Object // params or result of a scanned envelope
	beside  []byte // undefined members of the envelope: see Object.Beside

	// Of the name that key read last.
	keyEnd     int  // after its closing quote
	keyEscaped bool // it must be decoded before it is compared

	afterObject int // offset after the object that next iterated over

	// Of the string in which textFrom failed.
	cut  int    // the string is checked up to here
	high uint64 // all bytes before cut, or-ed

	partial bool // data may end inside a string without an error

	// One bit for each open container of value: set for an object.
	open [maxDepth / 64]uint64
}

// failed is not an offset. Callers return it without looking at err, so that a valid
// message costs one comparison at each step.
const failed = -1

func newScanner(data []byte, lim Limits) scanner {
	s := scanner{data: data, members: lim.Members, depth: lim.Depth}
	if s.members <= 0 {
		s.members = defaultMembers
	}
	if s.depth <= 0 {
		s.depth = defaultDepth
	}
	s.depth = min(s.depth, maxDepth)
	s.inLists = min(max(s.depth, lim.ListDepth), maxDepth)
	return s
}

func (s *scanner) fail(code int64, offset int, reason, cure string) int {
	// The first error counts: later ones follow from it.
	if s.err == nil {
		s.err = &ParseError{Code: code, Offset: offset, Reason: reason, Cure: cure}
	}
	return failed
}

// invalid fails for valid JSON that is not a valid message.
func (s *scanner) invalid(offset int, reason, cure string) int {
	return s.fail(CodeInvalidRequest, offset, reason, cure)
}

// exceed fails for text that exceeds a configured limit. Other readers might accept the
// message.
func (s *scanner) exceed(limit Limit, offset int, reason, cure string) int {
	s.invalid(offset, reason, cure)
	s.err.Exceeded = limit
	return failed
}

// syntax fails at a byte that the grammar does not allow here.
func (s *scanner) syntax(i int, want string) int {
	if i >= len(s.data) {
		return s.fail(CodeParseError, len(s.data), "the JSON text ends too early", "expected "+want)
	}
	return s.fail(CodeParseError, i, "unexpected "+quoteByte(s.data[i]), "expected "+want)
}

// quoteByte quotes one byte of a peer's text in ASCII, because errors end in logs and
// on terminals.
func quoteByte(c byte) string {
	if c >= utf8.RuneSelf {
		return "byte 0x" + strconv.FormatUint(uint64(c), 16)
	}
	return strconv.QuoteRuneToASCII(rune(c))
}

// at returns the byte at an offset, and NUL after the end, which is never allowed.
func (s *scanner) at(i int) byte {
	if i < len(s.data) {
		return s.data[i]
	}
	return 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// space skips white space. It is small enough to be inlined for the case that there is
// none.
func (s *scanner) space(i int) int {
	if i < len(s.data) && s.data[i] <= ' ' {
		return s.spaces(i)
	}
	return i
}

func (s *scanner) spaces(i int) int {
	for i < len(s.data) && isSpace(s.data[i]) {
		i++
	}
	return i
}

// value checks the value that begins at i, inside depth containers.
func (s *scanner) value(i, depth int) int {
	base := depth
	for {
		switch c := s.at(i); c {
		case '"':
			i, _ = s.text(i)
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
func (s *scanner) enter(i int, depth *int) (next int, empty bool) {
	if *depth >= s.depth {
		return s.tooDeep(i), false
	}
	object := s.data[i] == '{'
	i = s.space(i + 1)
	if object {
		if s.at(i) == '}' {
			return i + 1, true
		}
		s.open[*depth>>6] |= 1 << (*depth & 63)
		*depth++
		return s.key(i), false
	}
	if s.at(i) == ']' {
		return i + 1, true
	}
	s.open[*depth>>6] &^= 1 << (*depth & 63)
	*depth++
	return i, false
}

func (s *scanner) tooDeep(i int) int {
	return s.exceed(LimitDepth, i, "nesting is deeper than "+strconv.Itoa(s.depth), "send a flatter message")
}

// leave continues after a value inside a container: past closing brackets, to the next
// value, or until no more than base containers are open.
func (s *scanner) leave(i, base int, depth *int) int {
	for *depth > base {
		i = s.space(i)
		d := *depth - 1
		object := s.open[d>>6]>>(d&63)&1 != 0
		switch c := s.at(i); {
		case c == ',' && object:
			return s.key(s.space(i + 1))
		case c == ',':
			return s.space(i + 1)
		case c == '}' && object, c == ']' && !object:
			i++
			*depth = d
		case object:
			return s.syntax(i, "',' or '}' after a member")
		default:
			return s.syntax(i, "',' or ']' after an element")
		}
	}
	return i
}

// key checks a member's name and the colon, and returns the offset of the value.
func (s *scanner) key(i int) int {
	if s.at(i) != '"' {
		return s.syntax(i, "a member's name in double quotes")
	}
	// Counted before the name is read, so that a message beyond the limit costs no more
	// than one at the limit.
	if s.members--; s.members < 0 {
		return s.exceed(LimitMembers, i, "the message has too many members", "send a smaller message")
	}
	start := i
	if i, s.keyEscaped = s.text(i); i < 0 {
		return failed
	}
	if i-start > maxName {
		return s.invalid(start, "a member's name is longer than "+strconv.Itoa(maxName)+" bytes", "send a shorter name")
	}
	s.keyEnd = i
	if i = s.space(i); s.at(i) != ':' {
		return s.syntax(i, "':' after a member's name")
	}
	return s.space(i + 1)
}

// scalar checks a number or a literal with first byte c.
func (s *scanner) scalar(i int, c byte) int {
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
		return s.syntax(i, "a value")
	}
}

// literal checks true, false or null.
func (s *scanner) literal(i int, word string) int {
	end := i + len(word)
	if end > len(s.data) || string(s.data[i:end]) != word {
		return s.fail(CodeParseError, i, "unknown literal", "expected true, false or null")
	}
	return end
}

// number checks the grammar and not the value: a number is forwarded as it is written
// and may exceed any Go type.
func (s *scanner) number(i int) int {
	if s.at(i) == '-' {
		i++
	}
	if s.at(i) == '0' {
		i++
	} else if i = s.digits(i); i < 0 {
		return failed
	}
	if s.at(i) == '.' {
		if i = s.digits(i + 1); i < 0 {
			return failed
		}
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		i++
		if c := s.at(i); c == '+' || c == '-' {
			i++
		}
		i = s.digits(i)
	}
	return i
}

// digits requires at least one digit.
func (s *scanner) digits(i int) int {
	start := i
	// Bytes less than '0' wrap around and are greater than nine.
	for i < len(s.data) && s.data[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return s.syntax(i, "a digit")
	}
	return i
}

// end checks that only white space follows, unless the text has already failed.
func (s *scanner) end(i int) int {
	if i < 0 {
		return failed
	}
	// Some readers would take a second value for the message, others would ignore it.
	if i = s.space(i); i < len(s.data) {
		return s.fail(CodeParseError, i, "unexpected "+quoteByte(s.data[i])+" after the end of the JSON text", "send one value")
	}
	return i
}

// begin skips to the first value and reports common wrong beginnings.
func (s *scanner) begin() int {
	i := s.space(0)
	d := s.data
	switch {
	// Positions are kept in 32 bits.
	case uint64(len(d)) > math.MaxUint32:
		return s.invalid(0, "the JSON text is longer than 4 GiB", "send less at once")
	case i == len(d):
		return s.fail(CodeParseError, i, "missing JSON text", "send one JSON object")
	case len(d) >= 3 && string(d[:3]) == "\uFEFF":
		return s.fail(CodeParseError, 0, "byte order mark", "send UTF-8 without it")
	case len(d) >= 2 && (d[0] == 0 || d[1] == 0 || d[0] >= 0xFE):
		return s.fail(CodeParseError, 0, "this looks like UTF-16 or UTF-32", "send UTF-8")
	default:
		return i
	}
}
