// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envfile reads and changes files of variables, one NAME=value per line.
//
// The rules are those of npm's dotenv package, which are those of the editor that has the
// key envFile:
//
//	# a comment
//	NAME=value # spaces around the value do not count
//	export NAME=value
//	NAME: value
//	NAME='unchanged, also over several lines'
//	NAME="the same, with \n and \r for line breaks"
//
// Backquotes are quotes, too. The last line of a name counts. Nothing is expanded. Lines
// that dotenv ignores or that other parsers of this format treat differently are mistakes:
// a line that sets nothing, and a # inside a value without quotes.
//
// No error and no mistake has any part of the text, as all of it may be a secret.
package envfile

import (
	"strings"
	"unicode/utf8"
)

// Variable is one variable of a file.
type Variable struct {
	Name, Value string
	// Line counts from 1.
	Line int

	// start and end are the offsets of the variable's lines in the text with line breaks
	// of one byte, and valueStart and valueEnd those of the value with its quotes.
	start, valueStart, valueEnd, end int
}

// Mistake is an invalid line.
type Mistake struct {
	// Line and Column count from 1, in lines and characters.
	Line, Column  int
	Message, Hint string
}

// Parse returns the variables of a text in its order, and its mistakes.
func Parse(text string) ([]Variable, []Mistake) {
	return parse(normalized(text))
}

const mark = "\ufeff" // of the byte order

// normalized returns a text without the mark of its byte order, and with line breaks of one
// byte.
func normalized(text string) string {
	text = strings.TrimPrefix(text, mark)
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

func parse(text string) (vars []Variable, mistakes []Mistake) {
	line, offset := 1, 0
	for offset < len(text) {
		v, at, m := parseLine(text[offset:])
		switch {
		case m.Message != "":
			before := text[offset : offset+at]
			m.Line = line + strings.Count(before, "\n")
			m.Column = 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
			mistakes = append(mistakes, m)
		case v.Name != "":
			found := v
			found.Line = line
			found.start, found.end = offset, offset+v.end
			found.valueStart += offset
			found.valueEnd += offset
			vars = append(vars, found)
		}
		line += strings.Count(text[offset:offset+v.end], "\n")
		offset += v.end
	}
	return vars, mistakes
}

// parseLine parses the first line of text, and the further lines of a quoted value. The
// variable's offsets are those in text; its name is empty for a blank line and a comment. at
// is the offset of the mistake.
func parseLine(text string) (v Variable, at int, m Mistake) {
	line, _, _ := strings.Cut(text, "\n")
	v.end = min(len(line)+1, len(text))
	var rest string
	v.Name, rest, m.Message = splitLine(line)
	if m.Message != "" {
		m.Hint = "write NAME=value"
		return v, len(line) - len(strings.TrimLeft(line, " \t")), m
	}
	v.valueStart = len(line) - len(rest)
	if rest == "" || !strings.Contains("'\"`", rest[:1]) {
		v.Value, m.Message = unquoted(rest)
		v.valueStart += strings.Index(rest, v.Value)
		v.valueEnd = v.valueStart + len(v.Value)
		m.Hint = "put the value in quotes, or a space before the #"
		return v, v.valueEnd, m
	}
	value, length, message := quoted(text[v.valueStart:])
	v.Value, m.Message = value, message
	v.valueEnd = v.valueStart + length
	if message != "" {
		return v, v.valueEnd, m
	}
	after, _, _ := strings.Cut(text[v.valueEnd:], "\n")
	v.end = min(len(text), v.valueEnd+len(after)+1)
	return v, 0, m
}

// splitLine splits a line into the name of a variable and the rest.
func splitLine(line string) (name, rest, message string) {
	const blanks = " \t"
	line = strings.TrimLeft(line, blanks)
	if line == "" || line[0] == '#' {
		return "", "", ""
	}
	if after, ok := strings.CutPrefix(line, "export"); ok && strings.TrimLeft(after, blanks) != after {
		line = after
	}
	end := strings.IndexAny(line, "=:")
	// The colon must be followed by a space, as in YAML.
	if end < 0 || line[end] == ':' && strings.TrimLeft(line[end+1:], blanks) == line[end+1:] {
		return "", "", "sets no variable"
	}
	name = strings.Trim(line[:end], blanks)
	if !isName(name) {
		return "", "", "sets something that is not the name of a variable"
	}
	return name, strings.TrimLeft(line[end+1:], blanks), ""
}

// isName reports whether dotenv accepts a name.
func isName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		isLetter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !isLetter && (r < '0' || '9' < r) && !strings.ContainsRune("_-.", r)
	})
}

// unquoted returns the value without quotes at the beginning of text. If there is a mistake,
// it is behind the value.
func unquoted(text string) (value, message string) {
	before, _, comment := strings.Cut(text, "#")
	value = strings.TrimSpace(before)
	if comment && before != "" && value == before {
		return value, "has a # inside a value without quotes"
	}
	return value, ""
}

// quoted returns the quoted value at the beginning of text, and its length with the quotes.
// If there is a mistake, length is its offset.
func quoted(text string) (value string, length int, message string) {
	quote := text[0]
	end := 1
	for end < len(text) && text[end] != quote {
		if text[end] == '\\' && end+1 < len(text) && text[end+1] == quote {
			end++
		}
		end++
	}
	if end >= len(text) {
		return "", 0, "has a quote that is not closed"
	}
	value = text[1:end]
	rest, _, _ := strings.Cut(text[end+1:], "\n")
	if after := strings.TrimSpace(rest); after != "" && after[0] != '#' {
		return "", end + 1 + strings.Index(rest, after), "has text after the closing quote"
	}
	if quote == '"' {
		value = strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(value)
	}
	return value, end + 1, ""
}
