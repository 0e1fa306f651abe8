// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// style is how a member is written.
type style struct {
	json    bool
	newline string
	indent  string // of the member
	unit    string // the indentation of what is inside, in addition
	colon   string // with the space around it
	comma   string // the space after a comma on one line

	quoteKeys bool // also keys that need no quotes
	quote     byte // for all strings; 0 if they are quoted only where it is needed

	multi     bool    // an empty mapping is filled with lines
	inner     [2]form // of the mapping that is the value, and of those inside of it
	lists     form
	listSpace string // before the dashes of a list, in addition to the indentation of its key
	itemSpace string // the same for a list of mappings that is a value of this mapping
}

// form is how a mapping or list is written.
type form uint8

const (
	oneLine  form = iota // in brackets, on one line
	brackets             // in brackets, on several lines
	block                // without brackets
)

// style returns the style of a new member: that of the members before it, or if there is
// none, that of the mappings around.
func (m *mapping) style() style {
	s := style{json: m.json, colon: ": ", comma: " ", unit: m.unit()}
	at := m.open
	switch n := len(m.members); {
	case n > 0:
		at = m.members[n-1].key.start
		if start := m.lineStart(at); m.ownLine(at) {
			s.indent = string(m.text[start:at])
		} else {
			s.indent = m.indent(at) + s.unit
		}
	case m.parent != nil:
		at = m.parent.key.start
		s.indent = m.indent(at) + s.unit
	default:
		s.indent = s.unit
	}
	s.newline = m.newline(m.lineStart(at))
	s.multi = m.outer == nil && m.json || m.outer != nil && m.outer.flow && m.ownLine(m.parent.key.start)
	m.spacing(&s)
	s.quote, s.itemSpace = m.quote(), m.listSpace()
	s.inner[0] = m.formOf(configfile.Mapping, 0, m.defaultForm())
	s.inner[1] = m.formOf(configfile.Mapping, 1, s.inner[0])
	s.lists = m.formOf(configfile.List, 1, oneLine)
	if at, found := m.sample(configfile.List, 1); found && s.lists == block {
		s.listSpace = strings.Repeat(" ", max(0, at-m.lineStart(at)-len(m.indentOfKey(at))))
	}
	return s
}

// defaultForm is the form of a mapping without an example.
func (m *mapping) defaultForm() form {
	switch {
	case !m.flow:
		return block
	case len(m.members) > 0 && m.ownLine(m.members[0].key.start), len(m.members) == 0 && (m.outer == nil && m.json || m.outer != nil && m.ownLine(m.parent.key.start)):
		if m.json || m.outer == nil || m.outer.flow {
			return brackets
		}
	}
	return oneLine
}

// unit returns the indentation of one level.
func (m *mapping) unit() string {
	for outer := m; outer != nil; outer = outer.outer {
		for _, one := range slices.Backward(outer.members) {
			if len(one.Value.Members) == 0 {
				continue
			}
			inner := m.offset(one.Value.Members[0].At)
			if more, ok := strings.CutPrefix(m.indent(inner), m.indent(one.key.start)); ok && more != "" && m.ownLine(inner) {
				return more
			}
		}
		if len(outer.members) > 0 && outer.flow && m.ownLine(outer.members[0].key.start) {
			if more, ok := strings.CutPrefix(m.indent(outer.members[0].key.start), m.indent(outer.open)); ok && more != "" {
				return more
			}
		}
	}
	return "  "
}

// spacing sets the quotes of keys and the space around colons and after commas.
func (m *mapping) spacing(s *style) {
	for outer := m; outer != nil; outer = outer.outer {
		n := len(outer.members)
		if n == 0 {
			continue
		}
		last := outer.members[n-1]
		c := m.text[last.key.start]
		s.quoteKeys = c == '"' || c == '\''
		if colon := m.text[last.key.end:max(last.value.start, last.key.end)]; outer.flow && s.quoteKeys && strings.Trim(string(colon), " ") == ":" {
			s.colon = string(colon)
		}
		if !strings.HasSuffix(s.colon, " ") {
			s.comma = ""
		}
		if n > 1 && outer.flow {
			between := m.text[m.skip(outer.members[n-2].value.end)+1 : last.key.start]
			if blanks := string(between); strings.Trim(blanks, " ") == "" {
				s.comma = blanks
			}
		}
		return
	}
}

// nodes returns the values of a kind at a depth below a node, the last ones first. Depth 0
// is that of the node's members.
func nodes(n configfile.Node, kind configfile.Kind, depth int) []configfile.Node {
	var found []configfile.Node
	for _, m := range slices.Backward(n.Members) {
		switch v := m.Value; {
		case depth > 0:
			found = append(found, nodes(v, kind, depth-1)...)
		case v.Kind == kind && (len(v.Members) > 0 || len(v.Items) > 0 || kind == configfile.Text):
			found = append(found, v)
		}
	}
	return found
}

// sample returns the offset of the last value of a kind at a depth below the mapping, or
// at the same depth of the file below another mapping.
func (m *mapping) sample(kind configfile.Kind, depth int) (int, bool) {
	for outer := m; outer != nil; outer, depth = outer.outer, depth+1 {
		if found := nodes(outer.node, kind, depth); len(found) > 0 {
			return m.offset(found[0].At), true
		}
	}
	return 0, false
}

// formOf returns the form of the last value of a kind.
func (m *mapping) formOf(kind configfile.Kind, depth int, otherwise form) form {
	at, found := m.sample(kind, depth)
	switch {
	case !found:
		return otherwise
	case at >= len(m.text) || m.text[at] != '{' && m.text[at] != '[':
		if m.flow {
			return oneLine
		}
		return block
	}
	if first := m.skip(at + 1); m.lineStart(first) != m.lineStart(at) {
		return brackets
	}
	return oneLine
}

// indentOfKey returns the indentation of the last line with a key before a list.
func (m *mapping) indentOfKey(list int) string {
	for start := m.lineStart(list); start > m.lines[0]; {
		start = m.lineStart(start - 1)
		if text := strings.TrimSpace(string(m.text[start:m.lineEnd(start)])); text != "" && text[0] != '#' {
			return m.indent(start)
		}
	}
	return ""
}

// quote returns the quotes of strings that need none, or 0 if they have none.
func (m *mapping) quote() byte {
	if m.json {
		return '"'
	}
	for outer := m; outer != nil; outer = outer.outer {
		for depth := range 3 {
			for _, n := range nodes(outer.node, configfile.Text, depth) {
				if !isPlain(n.Text) {
					continue
				}
				if c := m.byteAt(n.At); c == '"' || c == '\'' {
					return c
				}
				return 0
			}
		}
	}
	if n := len(m.members); n > 0 && m.flow && m.text[m.members[n-1].key.start] == '"' {
		return '"'
	}
	return 0
}

// fresh returns the edit that writes a file without any value.
func (d *document) fresh(root Entry) []edit {
	at := d.end
	s := style{json: d.json, newline: d.newline(0), unit: "  ", itemSpace: "  ", colon: ": ", comma: " ", inner: [2]form{block, block}}
	text := ""
	if d.json {
		s.quote, s.inner = '"', [2]form{brackets, brackets}
		text = s.value(root, "", 0) + s.newline
	} else {
		for _, field := range root {
			text += strings.Join(s.block(field.Key, field.Value, ""), s.newline) + s.newline
		}
	}
	if at > d.lines[0] && d.text[at-1] != '\n' {
		text = s.newline + text
	}
	return []edit{{at, at, text}}
}

// block returns the lines of a member of a mapping without brackets.
func (s style) block(key string, value any, indent string) []string {
	return s.blockAt(key, value, indent, 0)
}

func (s style) blockAt(key string, value any, indent string, depth int) []string {
	start := indent + s.key(key, false) + ":"
	lines := []string{start}
	switch v := value.(type) {
	case Entry:
		if len(v) == 0 || s.inner[min(depth, 1)] != block {
			break
		}
		for _, field := range v {
			lines = append(lines, s.blockAt(field.Key, field.Value, indent+s.unit, depth+1)...)
		}
		return lines
	case []string:
		if len(v) == 0 || s.lists != block {
			break
		}
		for _, item := range v {
			lines = append(lines, indent+s.listSpace+"- "+s.scalar(item, false))
		}
		return lines
	case []Entry:
		return append(lines, s.items(v, indent+s.itemSpace)...)
	}
	return []string{start + " " + s.inline(value, false)}
}

// member returns a member of a mapping in braces.
func (s style) member(key string, value any, indent string) string {
	return s.key(key, true) + s.colon + s.value(value, indent, 0)
}

// value returns a value inside of brackets, on one line or several.
func (s style) value(value any, indent string, depth int) string {
	var parts []string
	var form form
	marks := "{}"
	switch v := value.(type) {
	case Entry:
		form = s.inner[min(depth, 1)]
		for _, field := range v {
			parts = append(parts, s.key(field.Key, true)+s.colon+s.value(field.Value, indent+s.unit, depth+1))
		}
	case []string:
		form, marks = s.lists, "[]"
		for _, item := range v {
			parts = append(parts, s.scalar(item, true))
		}
	default:
		return s.scalar(value, true)
	}
	if form != brackets || len(parts) == 0 {
		return marks[:1] + strings.Join(parts, ","+s.comma) + marks[1:]
	}
	line := s.newline + indent + s.unit
	return marks[:1] + line + strings.Join(parts, ","+line) + s.newline + indent + marks[1:]
}

// inline returns a value on one line.
func (s style) inline(value any, flow bool) string {
	switch value.(type) {
	case Entry, []string:
		s.inner, s.lists = [2]form{}, oneLine
		return s.value(value, "", 0)
	default:
		return s.scalar(value, flow)
	}
}

func (s style) key(key string, flow bool) string {
	if !s.json && !s.quoteKeys {
		s.quote = 0
	} else if s.quote == 0 {
		s.quote = '"'
	}
	if _, err := strconv.Atoi(key); err == nil && s.quote == 0 {
		return key // a number is a string as a key
	}
	return s.scalar(key, flow)
}

func (s style) scalar(value any, flow bool) string {
	text, isText := value.(string)
	switch {
	case !isText:
		return fmt.Sprint(value)
	case s.quote == 0 && isPlain(text) && (!flow || !strings.Contains(text, ",")):
		return text
	case s.quote == '\'' && !strings.ContainsFunc(text, isEscaped):
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	default:
		return quoted(text)
	}
}

// isPlain reports whether a string needs no quotes in YAML. Only what every version of YAML
// reads as a string is accepted.
func isPlain(text string) bool {
	switch strings.ToLower(text) {
	case "", "true", "false", "yes", "no", "on", "off", "y", "n", "null":
		return false
	}
	first := true
	letter := false
	for _, c := range text {
		isLetter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		switch {
		case isLetter:
			letter = true
		case '0' <= c && c <= '9', c == '/', !first && strings.ContainsRune(".-+=@:%~?&,", c), c == '-', c == '.':
		default:
			return false
		}
		first = false
	}
	// Without letters it may be a number, a date, or a mark; and with few, 0x10 or 1e3.
	if !letter || strings.HasSuffix(text, ":") || strings.ContainsRune("0123456789.-", rune(text[0])) && isNumberLike(text) {
		return false
	}
	return true
}

// isNumberLike reports whether a text has only characters of numbers, in any base.
func isNumberLike(text string) bool {
	return strings.Trim(strings.ToLower(text), "0123456789abcdefxo_.:+-") == "" || strings.Trim(strings.ToLower(text), ".-+infa") == ""
}

// isEscaped reports whether a character is written with a backslash.
func isEscaped(c rune) bool { return c != ' ' && !unicode.IsGraphic(c) || c == unicode.ReplacementChar }

// quoted returns a string in double quotes, in the syntax that JSON and YAML share.
func quoted(text string) string {
	out := []byte{'"'}
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', byte(c))
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c <= 0xffff && isEscaped(c):
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, string(c)...)
		}
	}
	return string(append(out, '"'))
}
