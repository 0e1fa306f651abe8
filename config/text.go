// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxFile and maxDepth are far above what any configuration needs, and keep the recursive
// parsers within the stack.
const (
	maxFile  = 1 << 20
	maxDepth = 32
)

// syntaxError is an error of the syntax of a file.
type syntaxError struct {
	at      position
	message string
	hint    string
}

func (e *syntaxError) Error() string { return e.message }

// parseTree parses a file of either syntax.
func parseTree(data []byte, isJSON bool) (node, *syntaxError) {
	// Not a mistake of the author.
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors on Windows write it
	if len(data) > maxFile {
		message := fmt.Sprintf("the file is larger than %s", formatBytes(maxFile))
		return node{}, &syntaxError{at: position{1, 1}, message: message, hint: "is it the right one?"}
	}
	if err := checkText(data); err != nil {
		return node{}, err
	}
	if isJSON {
		return parseJSON(data)
	}
	// JSON without such an extension is YAML, too.
	root, err := parseYAML(data)
	if at, ok := findTOML(data); ok && (err != nil || root.kind != kindMapping) {
		return node{}, &syntaxError{at: at, message: "this looks like TOML", hint: "a config is YAML or JSON"}
	}
	return root, err
}

const maxLine = 1 << 10

// findTOML returns the position of the first line with content, if it looks like the head of
// a table or an assignment of TOML.
func findTOML(data []byte) (position, bool) {
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		text := strings.TrimSpace(line)
		if text == "" || text[0] == '#' {
			continue
		}
		at := position{line: number, column: strings.Index(line, text) + 1}
		if head, ok := strings.CutPrefix(text, "["); ok {
			head, closed := strings.CutSuffix(head, "]")
			return at, closed && isName(strings.ReplaceAll(head, `"`, ""), maxLine)
		}
		key, _, sets := strings.Cut(text, " = ")
		return at, sets && isName(key, maxLine)
	}
	return position{}, false
}

// checkText finds bytes that editors do not show: invalid UTF-8, and NULs, which are valid
// but most often one half of the characters of UTF-16.
func checkText(data []byte) *syntaxError {
	const cure = "save it as UTF-8"
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return &syntaxError{at: position{1, 1}, message: "the file is UTF-16", hint: cure}
	}
	if i := invalidUTF8(data); i >= 0 {
		return &syntaxError{at: positionAt(data, i), message: "the file is not UTF-8 here", hint: cure}
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return &syntaxError{at: positionAt(data, i), message: "the file has a NUL here: it is not text, or it is UTF-16", hint: cure}
	}
	return nil
}

// invalidUTF8 returns the offset of the first invalid byte, or -1.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		// The replacement character itself is valid, with three bytes.
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// positionAt returns the position of an offset in a text.
func positionAt(data []byte, offset int) position {
	before := data[:min(max(offset, 0), len(data))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return position{
		line:   bytes.Count(before, []byte("\n")) + 1,
		column: utf8.RuneCount(before[start:]) + 1,
	}
}

// errTooDeep is the error of both parsers for too much nesting.
var errTooDeep = errors.New("nested deeper than any setting")
