// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canned

import (
	"bytes"
	"errors"
	"fmt"
)

// message has the parts of a message that select the response. The members are unmodified
// spans of the message, nil if absent.
type message struct {
	id, method, name, cursor, token []byte
}

var errScan = errors.New("unexpected request for this backend")

// scan reads a message in one pass. Only the parts that it enters are checked.
func scan(b []byte) (m message, err error) {
	s := scanner{b: b}
	err = s.object(func(key []byte) error {
		switch string(key) {
		case "id":
			return s.value(&m.id)
		case "method":
			return s.text(&m.method)
		case "params":
			return s.params(&m)
		}
		return s.value(nil)
	})
	if err == nil && m.method == nil {
		err = errScan
	}
	if err != nil {
		return m, fmt.Errorf("at byte %d: %w", s.at, err)
	}
	return m, nil
}

// scanner is a position in a message.
type scanner struct {
	b  []byte
	at int
}

func (s *scanner) params(m *message) error {
	return s.object(func(key []byte) error {
		switch string(key) {
		case "name":
			return s.text(&m.name)
		case "cursor":
			return s.text(&m.cursor)
		case "_meta":
			return s.object(func(key []byte) error {
				if string(key) == "progressToken" {
					return s.value(&m.token)
				}
				return s.value(nil)
			})
		}
		return s.value(nil)
	})
}

// space skips white space and returns the next byte, or 0 at the end.
func (s *scanner) space() byte {
	for ; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// object iterates over an object; member reads each value.
func (s *scanner) object(member func(key []byte) error) error {
	if s.space() != '{' {
		return errScan
	}
	s.at++
	if s.space() == '}' {
		s.at++
		return nil
	}
	for {
		var key []byte
		if err := s.text(&key); err != nil {
			return err
		}
		if s.space() != ':' {
			return errScan
		}
		s.at++
		if err := member(key); err != nil {
			return err
		}
		c := s.space()
		s.at++
		switch c {
		case '}':
			return nil
		case ',':
		default:
			return errScan
		}
	}
}

// text reads a string into dst, without its quotes. Strings with escapes are refused: no
// name here has any, and using one unescaped would be wrong.
func (s *scanner) text(dst *[]byte) error {
	if s.space() != '"' {
		return errScan
	}
	start := s.at + 1
	if err := s.skipString(); err != nil {
		return err
	}
	*dst = s.b[start : s.at-1]
	if bytes.IndexByte(*dst, '\\') >= 0 {
		return errScan
	}
	return nil
}

// value reads any value into dst, unmodified; nil skips it.
func (s *scanner) value(dst *[]byte) error {
	c := s.space()
	start := s.at
	var err error
	switch c {
	case '"':
		err = s.skipString()
	case '{', '[':
		err = s.skipNested()
	default:
		s.skipWord()
		if s.at == start {
			err = errScan
		}
	}
	if dst != nil {
		*dst = s.b[start:s.at]
	}
	return err
}

// skipString moves past a string.
func (s *scanner) skipString() error {
	for s.at++; ; {
		n := bytes.IndexAny(s.b[s.at:], `"\`)
		if n < 0 {
			return errScan
		}
		s.at += n + 1
		if s.b[s.at-1] == '"' {
			return nil
		}
		if s.at++; s.at > len(s.b) { // past the escaped byte
			return errScan
		}
	}
}

// skipNested moves past an object or array by counting brackets.
func (s *scanner) skipNested() error {
	for depth := 0; s.at < len(s.b); {
		switch s.b[s.at] {
		case '"':
			if err := s.skipString(); err != nil {
				return err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.at++
		if depth == 0 {
			return nil
		}
	}
	return errScan
}

// skipWord moves past a number, true, false or null.
func (s *scanner) skipWord() {
	for ; s.at < len(s.b); s.at++ {
		switch s.b[s.at] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return
		}
	}
}
