// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

const bom = "\ufeff"

// document is a parsed file.
type document struct {
	name  string
	text  []byte
	json  bool
	parse func(text []byte, isJSON bool) (configfile.Node, *configfile.SyntaxError)
	root  configfile.Node
	lines []int // the offset of each line
	end   int   // of the document: of the line that ends it, or of the text
}

func parse(f File) (*document, error) {
	d := &document{name: f.Name, text: f.Text, json: configfile.IsJSON(f.Name), parse: configfile.Parse}
	if f.Foreign {
		d.parse = configfile.ParseLarge
	}
	root, syntax := d.parse(f.Text, d.json)
	if syntax != nil {
		return nil, d.refuse(syntax.At, syntax.Hint, "%s", syntax.Message)
	}
	if root.Kind != configfile.Mapping && root.Kind != configfile.Null {
		if f.Foreign {
			return nil, d.refuse(root.At, "is it the right file?", "the file is %s, and no mapping", root.Kind)
		}
		return nil, d.refuse(root.At, "write the servers below \"mcpServers\"", "a config is a mapping, not %s", root.Kind)
	}
	d.root = root
	d.findLines()
	// A line break for some parsers only, so that lines have no certain numbers.
	if i := bareReturn.FindIndex(d.text); i != nil {
		return nil, d.cannotEdit(i[0], "save it with the line breaks LF or CRLF")
	}
	if !d.json {
		d.end = d.documentEnd()
	}
	return d, nil
}

// bareReturn matches a carriage return without a line feed.
var bareReturn = regexp.MustCompile(`\r([^\n]|$)`)

// findLines sets the offsets of the lines and of the end.
func (d *document) findLines() {
	start := 0
	if bytes.HasPrefix(d.text, []byte(bom)) {
		start = len(bom)
	}
	d.lines, d.end = []int{start}, len(d.text)
	for i, c := range d.text {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
}

// documentEnd returns the offset of the line that ends the document of a YAML file, or of the
// end of the text.
func (d *document) documentEnd() int {
	for _, start := range d.lines[min(d.root.At.Line, len(d.lines)):] {
		line := d.text[start:]
		for _, marker := range []string{"---", "..."} {
			if rest, ok := bytes.CutPrefix(line, []byte(marker)); ok && (len(rest) == 0 || isSpace(rest[0])) {
				return start
			}
		}
	}
	return len(d.text)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// refuse returns an *Error. Its type is error, so that nil errors stay nil.
func (d *document) refuse(at configfile.Position, hint, format string, args ...any) error {
	return &Error{File: d.name, At: at, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// tooHard returns the error for a place that cannot be edited safely.
func (d *document) tooHard(offset int) error {
	return d.cannotEdit(offset, "edit the file by hand, or write this part in a simpler form")
}

// cannotEdit is tooHard with another hint.
func (d *document) cannotEdit(offset int, hint string) error {
	line, found := slices.BinarySearch(d.lines, offset)
	if !found {
		line = max(line-1, 0)
	}
	column := 1
	if start := d.lines[line]; start < offset {
		column += utf8.RuneCount(d.text[start:offset])
	}
	return d.refuse(configfile.Position{Line: line + 1, Column: column}, hint, "this part of the file cannot be edited by a command")
}

// offset converts a position, whose column counts characters.
func (d *document) offset(at configfile.Position) int {
	i := d.lines[min(at.Line, len(d.lines))-1]
	for range at.Column - 1 {
		_, n := utf8.DecodeRune(d.text[i:])
		i += n
	}
	return i
}

// byteAt returns the byte at a position, or 0 at the end of the text.
func (d *document) byteAt(at configfile.Position) byte {
	if i := d.offset(at); i < len(d.text) {
		return d.text[i]
	}
	return 0
}

// lineStart returns the offset of the line with an offset in it.
func (d *document) lineStart(offset int) int {
	i, found := slices.BinarySearch(d.lines, offset)
	if !found {
		i = max(i-1, 0)
	}
	return d.lines[i]
}

// lineEnd returns the offset of the end of the line, without its line break.
func (d *document) lineEnd(offset int) int {
	next := d.nextLine(offset)
	return offset + len(bytes.TrimRight(d.text[offset:next], "\r\n"))
}

// blankBefore reports whether the line before an offset is blank.
func (d *document) blankBefore(offset int) bool {
	start := d.lineStart(offset)
	return start > d.lines[0] && len(bytes.TrimSpace(d.text[d.lineStart(start-1):start])) == 0
}

// nextLine returns the offset of the next line, or of the end of the text.
func (d *document) nextLine(offset int) int {
	if i := bytes.IndexByte(d.text[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(d.text)
}

// newline returns the line break of the line at an offset, or the first one of the file.
func (d *document) newline(offset int) string {
	for _, from := range []int{offset, 0} {
		if line := d.text[from:d.nextLine(from)]; bytes.HasSuffix(line, []byte("\r\n")) {
			return "\r\n"
		} else if bytes.HasSuffix(line, []byte("\n")) {
			return "\n"
		}
	}
	return "\n"
}

// edit replaces a part of the text.
type edit struct {
	start, end int
	text       string
}

// apply makes edits, which it sorts.
func (d *document) apply(edits []edit) ([]byte, error) {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var out []byte
	done := 0
	for _, e := range edits {
		if e.start < done || e.end < e.start {
			return nil, d.tooHard(e.start)
		}
		out = append(append(out, d.text[done:e.start]...), e.text...)
		done = e.end
	}
	return append(out, d.text[done:]...), nil
}

// result makes edits, and returns the new text if it means want.
func (d *document) result(edits []edit, want configfile.Node) ([]byte, error) {
	out, err := d.apply(edits)
	if err != nil {
		return nil, err
	}
	got, bad := d.parse(out, d.json)
	switch {
	case bad == nil && equal(got, want):
		return out, nil
	case !d.json && len(d.text) > 0 && !bytes.HasSuffix(d.text, []byte("\n")):
		// A block scalar at the end of the text has a line break only if the text has one.
		return nil, d.cannotEdit(edits[0].start, "end the file with a line break, or edit it by hand")
	default:
		return nil, d.tooHard(edits[0].start)
	}
}

// take is result for edits that remove something. If a block scalar comes to be at the end of
// a text without a final line break, it needs one.
func (d *document) take(edits []edit, want configfile.Node) ([]byte, error) {
	out, err := d.result(edits, want)
	if err != nil && !bytes.HasSuffix(d.text, []byte("\n")) {
		end := len(d.text)
		if again, err := d.result(append(edits, edit{end, end, d.newline(0)}), want); err == nil {
			return again, nil
		}
	}
	return out, err
}

// skip returns the offset after white space and comments.
func (d *document) skip(i int) int {
	for i < d.end {
		c := d.text[i]
		switch {
		case isSpace(c):
			i++
		case d.comment(i) > i:
			i = d.comment(i)
		default:
			return i
		}
	}
	return i
}

// comment returns the end of the comment that begins at an offset, or the offset.
func (d *document) comment(i int) int {
	rest := d.text[i:d.end]
	switch {
	case !d.json && rest[0] == '#' && (i == d.lines[0] || isSpace(d.text[i-1])), d.json && bytes.HasPrefix(rest, []byte("//")):
		return d.lineEnd(i)
	case d.json && bytes.HasPrefix(rest, []byte("/*")):
		if end := bytes.Index(rest[2:], []byte("*/")); end >= 0 {
			return i + 2 + end + 2
		}
	}
	return i
}

// contentEnd returns the end of what is not white space before an offset, and not before
// another one. Between the two are only white space and comments, and a comma perhaps.
func (d *document) contentEnd(from, before int) (end int, lineComment bool) {
	end = from
	for i := from; i < before; {
		switch next := d.comment(i); {
		case next > i:
			end, lineComment = next, d.text[i] == '#' || d.text[i+1] == '/'
			i = next
		case isSpace(d.text[i]):
			i++
		default:
			i++
			end, lineComment = i, false
		}
	}
	return end, lineComment
}

// valueEnd returns the end of a value. Nothing but comments and white space is between it and
// limit, if it is not inside of brackets.
func (d *document) valueEnd(n configfile.Node, start, limit int, flow bool) (int, error) {
	if start >= len(d.text) {
		return start, d.tooHard(start)
	}
	c := d.text[start]
	switch {
	case n.Kind == configfile.Mapping && (c == '{' || !flow):
		m, err := d.mappingAt(n, nil, start, limit)
		if err != nil {
			return 0, err
		}
		if m.flow {
			return m.close + 1, nil
		}
		return m.members[len(m.members)-1].value.end, nil
	case n.Kind == configfile.Mapping: // a pair of a list, without braces
		return 0, d.tooHard(start)
	case n.Kind == configfile.List && c == '[':
		return d.listEnd(n, start, limit)
	case n.Kind == configfile.List:
		last := n.Items[len(n.Items)-1]
		if last.Kind == configfile.Null {
			return d.lastContent(start, limit), nil
		}
		return d.valueEnd(last, d.offset(last.At), limit, false)
	case n.Kind == configfile.Text && c != '"' && c != '\'' || n.Kind != configfile.Text:
		return d.plainEnd(start, limit, flow, false), nil
	default:
		return d.quotedEnd(start), nil
	}
}

// listEnd returns the end of a list in brackets.
func (d *document) listEnd(n configfile.Node, start, limit int) (int, error) {
	i := start + 1
	for _, item := range n.Items {
		end, err := d.valueEnd(item, d.skip(i), limit, true)
		if err != nil {
			return 0, err
		}
		if i = d.skip(end); i < d.end && d.text[i] == ',' {
			i++
		}
	}
	if i = d.skip(i); i >= d.end || d.text[i] != ']' {
		return 0, d.tooHard(start)
	}
	return i + 1, nil
}

// lastContent returns the end of the last line before limit that is not blank or a comment.
func (d *document) lastContent(start, limit int) int {
	end := start
	for i := d.lineStart(start); i < limit; i = d.nextLine(i) {
		if text := bytes.TrimSpace(d.text[i:d.lineEnd(i)]); len(text) > 0 && text[0] != '#' {
			end = d.lineEnd(i)
		}
	}
	return end
}

// quotedEnd returns the end of a string in quotes.
func (d *document) quotedEnd(start int) int {
	quote := d.text[start]
	for i := start + 1; i < len(d.text); i++ {
		switch {
		case quote == '"' && d.text[i] == '\\':
			i++
		case d.text[i] == quote && quote == '\'' && i+1 < len(d.text) && d.text[i+1] == quote:
			i++
		case d.text[i] == quote:
			return i + 1
		}
	}
	return len(d.text)
}

// plainEnd returns the end of a scalar without quotes, which may be a block scalar.
func (d *document) plainEnd(start, limit int, flow, key bool) int {
	if c := d.text[start]; !d.json && !flow && !key && (c == '|' || c == '>') {
		return d.blockScalarEnd(start, limit)
	}
	i, end := start, start
	for ; i < limit; i++ {
		c := d.text[i]
		switch {
		case d.json && !isPlainJSON(c), flow && strings.IndexByte(",[]{}", c) >= 0, c == '\n' && key:
			return end
		case c == ':' && (flow || key) && (i+1 == limit || isSpace(d.text[i+1]) || flow && strings.IndexByte(",[]{}", d.text[i+1]) >= 0):
			return end
		case c == '#' && i > start && isSpace(d.text[i-1]):
			return end
		case !isSpace(c):
			end = i + 1
		}
	}
	return end
}

// isPlainJSON reports whether a byte can be in a number or a word of JSON.
func isPlainJSON(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'
}

// blockScalarEnd returns the end of the last line of a block scalar. Blank lines after it
// belong to it only if its header keeps them.
func (d *document) blockScalarEnd(start, limit int) int {
	header := d.text[start:d.lineEnd(start)]
	header, _, _ = bytes.Cut(header, []byte(" "))
	end, least := d.lineEnd(start), -1
	for i := d.nextLine(start); i < limit; i = d.nextLine(i) {
		line := d.text[i:d.lineEnd(i)]
		text := bytes.TrimLeft(line, " ")
		indent := len(line) - len(text)
		switch {
		case len(bytes.TrimSpace(text)) == 0:
			if bytes.ContainsRune(header, '+') {
				end = d.lineEnd(i)
			}
			continue
		case least < 0:
			least = indent
		// With an explicit indentation, the first line may be indented more.
		case bytes.ContainsAny(header, "123456789") && text[0] != '#':
			least = min(least, indent)
		}
		if indent < least {
			break // a comment
		}
		end = d.lineEnd(i)
	}
	return end
}
