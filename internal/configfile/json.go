// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseJSON parses JSON with comments and with trailing commas, as editors write it in
// their own files.
func parseJSON(data []byte) (Node, *SyntaxError) {
	text := blankComments(data)
	blankLastCommas(text)
	// Checked as a whole first: the decoder's tokens would accept some invalid texts, and
	// report other errors too late.
	var whole json.RawMessage
	if len(bytes.TrimSpace(text)) == 0 {
		return Node{At: Position{1, 1}}, nil // an empty file, as in YAML
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		return Node{}, jsonError(data, text, err)
	}
	r := &jsonReader{source: data, text: text, dec: json.NewDecoder(bytes.NewReader(text)), at: Position{1, 1}}
	r.dec.UseNumber() // keep the source text: 1.0 is not a whole number
	root, err := r.value(0)
	if err != nil {
		return Node{}, &SyntaxError{At: r.at, Message: err.Error()}
	}
	return root, nil
}

func jsonError(source, text []byte, err error) *SyntaxError {
	// For a truncated text the decoder returns no offset, or that of the beginning.
	offset := len(text)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && int(syntax.Offset) > 0 {
		offset = int(syntax.Offset) - 1
	}
	at := &SyntaxError{At: positionAt(source, offset), Message: "not JSON: " + strings.TrimPrefix(err.Error(), "json: ")}
	// The decoder's message has a byte; show the character.
	if r, size := utf8.DecodeRune(text[min(offset, len(text)):]); size > 1 {
		at.Message = fmt.Sprintf("not JSON: the character %q", r)
		if strings.ContainsRune("“”„‟‘’«»", r) {
			at.Hint = `write " for quotes`
		}
		return at
	}
	if strings.Contains(at.Message, "in string escape code") || strings.Contains(at.Message, `in \u hexadecimal character escape`) {
		at.Hint = `write \\ for a backslash`
	}
	if strings.HasSuffix(at.Message, "exceeded max depth") {
		at.Message = errTooDeep.Error()
		return at
	}
	// The decoder reports the bracket; the mistake is the comma before it.
	if before := bytes.TrimRight(text[:min(offset, len(text))], " \t\r\n"); bytes.HasSuffix(before, []byte(",")) {
		at.Hint = "remove the comma before it"
	}
	return at
}

// blankComments replaces comments by spaces, so that all other bytes keep their offsets. A
// comment without an end is left for the parser to reject.
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

// blankLastCommas replaces each trailing comma in a list or mapping by a space. A comma
// without a value before it is left for the parser to reject.
func blankLastCommas(text []byte) {
	before, comma := byte(0), -1 // the last byte that is not white space; the offset of a comma that ends a value, or -1
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

// stringLength returns the length of the string at the beginning of text, with its quotes.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		// An escaped character does not end the string, even if it is a quote.
		case '\\':
			i++
		case '"', '\n':
			return i + 1
		}
	}
	return len(text)
}

// blank overwrites the first n bytes by spaces, or all if n is negative, except for line
// breaks.
func blank(text []byte, n int) {
	if n < 0 {
		n = len(text)
	}
	for i := range text[:n] {
		// Keep the line breaks, so that later positions are right.
		if text[i] != '\n' && text[i] != '\r' {
			text[i] = ' '
		}
	}
}

// jsonReader builds the tree of a valid JSON text.
type jsonReader struct {
	source, text []byte // with and without comments; of equal length
	dec          *json.Decoder

	offset int // of the token for which next was last called
	at     Position
}

func (r *jsonReader) value(depth int) (Node, error) {
	if depth > maxDepth {
		return Node{}, errTooDeep
	}
	n := Node{At: r.next()}
	token, err := r.dec.Token()
	switch token := token.(type) {
	case string:
		n.Kind, n.Text = Text, token
	case bool:
		n.Kind, n.Text = Bool, strconv.FormatBool(token)
	case json.Number:
		n.Kind, n.Text = Integer, token.String()
		// 1e3 is a whole number, but most likely a mistake for a count.
		if strings.ContainsAny(n.Text, ".eE") {
			n.Kind = Float
		}
	case json.Delim:
		n.Kind = List
		if token == '{' {
			n.Kind = Mapping
		}
		for r.dec.More() {
			if err := r.element(&n, depth); err != nil {
				return Node{}, err
			}
		}
		_, err = r.dec.Token() // the closing bracket
	}
	return n, err
}

// element reads an element of a list or a member of a mapping.
func (r *jsonReader) element(n *Node, depth int) error {
	var m Member
	if n.Kind == Mapping {
		m.At = r.next()
		key, err := r.dec.Token()
		if err != nil {
			return err
		}
		m.Key, _ = key.(string) // the grammar permits only strings
	}
	var err error
	m.Value, err = r.value(depth + 1)
	if n.Kind == Mapping {
		n.Members = append(n.Members, m)
	} else {
		n.Items = append(n.Items, m.Value)
	}
	return err
}

// next returns the position of the next token. It must be called in the order of the text:
// it scans each byte once.
func (r *jsonReader) next() Position {
	start := int(r.dec.InputOffset())
	for start < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[start]) >= 0 {
		start++
	}
	// Counted with comments: a character of a comment may be several spaces.
	passed := r.source[r.offset:start]
	if lines := bytes.Count(passed, []byte("\n")); lines > 0 {
		r.at = Position{Line: r.at.Line + lines, Column: 1}
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	r.at.Column += utf8.RuneCount(passed)
	r.offset = start
	return r.at
}
