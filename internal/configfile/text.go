// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxSize and maxDepth are far above what any configuration needs, and keep the recursive
// parsers within the stack.
const (
	MaxSize  = 1 << 20
	maxDepth = 32
)

// SyntaxError is a mistake in the syntax of a file.
type SyntaxError struct {
	At      Position
	Message string
	Hint    string
}

// Parse parses a file of either syntax. An empty file is a Null.
func Parse(data []byte, isJSON bool) (Node, *SyntaxError) {
	return parse(data, isJSON, MaxSize)
}

// MaxLarge is far above the size of files in which programs keep their state, too.
const MaxLarge = 64 << 20

// ParseLarge is Parse for files of other programs: one in JSON may be larger than a
// configuration.
func ParseLarge(data []byte, isJSON bool) (Node, *SyntaxError) {
	if !isJSON {
		return parse(data, isJSON, MaxSize)
	}
	return parse(data, isJSON, MaxLarge)
}

func parse(data []byte, isJSON bool, most int) (Node, *SyntaxError) {
	// Not a mistake of the author.
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors on Windows write it
	if err := checkSize(data, most); err != nil {
		return Node{}, err
	}
	if err := checkText(data); err != nil {
		return Node{}, err
	}
	if isJSON {
		return parseJSON(data)
	}
	// JSON without such an extension is YAML, too.
	root, err := parseYAML(data)
	if at, ok := findTOML(data); ok && (err != nil || root.Kind != Mapping) {
		return Node{}, &SyntaxError{At: at, Message: "this looks like TOML", Hint: "a config is YAML or JSON"}
	}
	return root, err
}

func checkSize(data []byte, most int) *SyntaxError {
	if len(data) <= most {
		return nil
	}
	return &SyntaxError{At: Position{1, 1}, Message: fmt.Sprintf("the file is larger than %dMiB", most>>20), Hint: "is it the right one?"}
}

// tomlLine is the head of a table of TOML, or an assignment with spaces around its sign.
var tomlLine = regexp.MustCompile(`^(\[[\w.\-"]*\]$|[\w.-]+ = )`)

// findTOML returns the position of the first line with content, if it looks like TOML.
func findTOML(data []byte) (Position, bool) {
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		text := strings.TrimSpace(line)
		if text != "" && text[0] != '#' {
			return Position{Line: number, Column: strings.Index(line, text) + 1}, tomlLine.MatchString(text)
		}
	}
	return Position{}, false
}

// checkText finds bytes that editors do not show: invalid UTF-8, and NULs, which are valid
// but most often one half of the characters of UTF-16.
func checkText(data []byte) *SyntaxError {
	const cure = "save it as UTF-8"
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return &SyntaxError{At: Position{1, 1}, Message: "the file is UTF-16", Hint: cure}
	}
	if i := invalidUTF8(data); i >= 0 {
		return &SyntaxError{At: positionAt(data, i), Message: "the file is not UTF-8 here", Hint: cure}
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return &SyntaxError{At: positionAt(data, i), Message: "the file has a NUL here: it is not text, or it is UTF-16", Hint: cure}
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
func positionAt(data []byte, offset int) Position {
	before := data[:min(max(offset, 0), len(data))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return Position{
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: utf8.RuneCount(before[start:]) + 1,
	}
}

// errTooDeep is the error of both parsers for too much nesting.
var errTooDeep = errors.New("nested deeper than any setting")

// IsJSON reports whether the name of a file means JSON, which may have comments. Every other
// name means YAML, which includes nearly all JSON, so that pipes and files without an
// extension can be read.
func IsJSON(name string) bool {
	extension := strings.ToLower(filepath.Ext(name))
	return extension == ".json" || extension == ".jsonc"
}
