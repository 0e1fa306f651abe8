// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseJSON reads JSON with comments and with a comma before a closing bracket, as
// editors write it in their own files.
func parseJSON(data []byte) (node, *syntaxError) {
	text := blankComments(data)
	blankLastCommas(text)
	// The decoder's tokens alone would take some texts that are not JSON, and
	// report others later than where they go wrong.
	var whole json.RawMessage
	if len(bytes.TrimSpace(text)) == 0 {
		return node{at: position{1, 1}}, nil // empty, as in YAML
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		return node{}, jsonError(data, text, err)
	}
	r := &jsonReader{source: data, text: text, dec: json.NewDecoder(bytes.NewReader(text)), at: position{1, 1}}
	r.dec.UseNumber() // as written: 1.0 is no whole number
	root, err := r.value(0)
	if err != nil {
		return node{}, &syntaxError{at: r.at, message: err.Error()}
	}
	return root, nil
}

func jsonError(source, text []byte, err error) *syntaxError {
	// Where the text just ends, the decoder gives no place, or that of the beginning.
	offset := len(text)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && int(syntax.Offset) > 0 {
		offset = int(syntax.Offset) - 1
	}
	at := &syntaxError{at: positionAt(source, offset), message: "not JSON: " + strings.TrimPrefix(err.Error(), "json: ")}
	// The decoder speaks of bytes, where somebody sees a character.
	if r, size := utf8.DecodeRune(text[min(offset, len(text)):]); size > 1 {
		at.message = fmt.Sprintf("not JSON: the character %q", r)
		if strings.ContainsRune("“”„‟‘’«»", r) {
			at.hint = `write " for quotes`
		}
		return at
	}
	if strings.Contains(at.message, "in string escape code") || strings.Contains(at.message, `in \u hexadecimal character escape`) {
		at.hint = `write \\ for a backslash`
	}
	if strings.HasSuffix(at.message, "exceeded max depth") {
		at.message = errTooDeep.Error()
		return at
	}
	// The decoder speaks of the bracket; the mistake is what stands before it.
	if before := bytes.TrimRight(text[:min(offset, len(text))], " \t\r\n"); bytes.HasSuffix(before, []byte(",")) {
		at.hint = "remove the comma before it"
	}
	return at
}

// blankComments replaces comments by spaces, so that every other byte keeps its
// place. A comment that has no end is left for the parser to refuse.
func blankComments(data []byte) []byte {
	text := bytes.Clone(data)
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case rest[0] == '"':
			i += stringLength(rest) - 1
		case bytes.HasPrefix(rest, []byte("//")):
			blank(rest, bytes.IndexByte(rest, '\n'))
		case bytes.HasPrefix(rest, []byte("/*")):
			if end := bytes.Index(rest[2:], []byte("*/")); end >= 0 {
				blank(rest, end+len("/**/"))
			}
		}
	}
	return text
}

// blankLastCommas replaces each comma that ends a list or mapping by a space. One that
// follows no value is left for the parser to refuse.
func blankLastCommas(text []byte) {
	before, comma := byte(0), -1 // the last byte that is no space, and the comma that it is
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			continue
		case (c == '}' || c == ']') && comma >= 0:
			text[comma] = ' '
		}
		comma = -1
		if c == ',' && strings.IndexByte("\x00{[,:", before) < 0 {
			comma = i
		}
		before = c
		if c == '"' {
			i += stringLength(text[i:]) - 1
		}
	}
}

// stringLength is the length of the string that begins a text, quotes included.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		// The next character belongs to this one, also where it is a quote.
		case '\\':
			i++
		case '"', '\n':
			return i + 1
		}
	}
	return len(text)
}

// blank overwrites the first n bytes, or all where n is negative, and keeps the
// lines.
func blank(text []byte, n int) {
	if n < 0 {
		n = len(text)
	}
	for i := range text[:n] {
		// Lines stay lines, so that places behind a comment are right.
		if text[i] != '\n' && text[i] != '\r' {
			text[i] = ' '
		}
	}
}

// jsonReader builds the tree of a text that is known to be JSON.
type jsonReader struct {
	source, text []byte // with comments, and without; they have one length
	dec          *json.Decoder

	offset int // of the token that was looked at last
	at     position
}

func (r *jsonReader) value(depth int) (node, error) {
	if depth > maxDepth {
		return node{}, errTooDeep
	}
	at := r.next()
	token, err := r.dec.Token()
	if err != nil {
		return node{}, err
	}
	n := node{at: at}
	switch token := token.(type) {
	case json.Delim:
		// Brackets that close are read by inside itself and never seen here.
		err = r.inside(&n, token, depth)
	case string:
		n.kind, n.text = kindText, token
	case bool:
		n.kind, n.text = kindBool, strconv.FormatBool(token)
	case json.Number:
		n.kind, n.text = numberKind(token.String()), token.String()
	}
	return n, err
}

// inside reads the elements of a list or the members of a mapping.
func (r *jsonReader) inside(n *node, open json.Delim, depth int) error {
	n.kind = kindList
	if open == '{' {
		n.kind = kindMapping
	}
	for r.dec.More() {
		var m member
		if n.kind == kindMapping {
			m.at = r.next()
			key, err := r.dec.Token()
			if err != nil {
				return err
			}
			m.key, _ = key.(string) // the grammar has nothing else here
		}
		var err error
		if m.value, err = r.value(depth + 1); err != nil {
			return err
		}
		n.add(m)
	}
	_, err := r.dec.Token()
	return err
}

// add appends an element to a list, or a member to a mapping.
func (n *node) add(m member) {
	if n.kind == kindMapping {
		n.members = append(n.members, m)
		return
	}
	n.items = append(n.items, m.value)
}

// next is the position of the token that is read next. Tokens come in the order
// of the text, so that each byte is looked at once.
func (r *jsonReader) next() position {
	start := int(r.dec.InputOffset())
	for start < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[start]) >= 0 {
		start++
	}
	// Counted with the comments: one character of theirs can be several blanks.
	passed := r.source[r.offset:start]
	if lines := bytes.Count(passed, []byte("\n")); lines > 0 {
		r.at = position{line: r.at.line + lines, column: 1}
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	r.at.column += utf8.RuneCount(passed)
	r.offset = start
	return r.at
}

// numberKind tells whole numbers from others by how they are written.
func numberKind(text string) kind {
	// 1e3 is a whole number to a reader of numbers, and to a person who counts sessions
	// most likely a slip.
	if strings.ContainsAny(text, ".eE") {
		return kindFloat
	}
	return kindInteger
}
