// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"bytes"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// span is a part of the text.
type span struct{ start, end int }

// mapping is a mapping with the offsets of its parts.
type mapping struct {
	*document
	node    configfile.Node
	parent  *member // nil for the root
	outer   *mapping
	members []member

	flow        bool
	open, close int // the braces, if flow
	comma       int // after the last member, or -1
	limit       int // if not flow: what is not of the mapping begins at or before it
}

// member is one member of a mapping.
type member struct {
	configfile.Member
	index int
	key   span
	colon int  // the end of the colon, or of the key if there is none
	value span // empty, at the colon, for an omitted value
}

// rootMapping returns the mapping of the whole file.
func (d *document) rootMapping() (*mapping, error) {
	start := d.lines[0]
	if at := d.root.At.Line; at <= len(d.lines) {
		start = max(start, d.lines[at-1])
	}
	if start = d.skip(start); bytes.HasPrefix(d.text[start:], []byte("---")) {
		start = d.skip(start + len("---")) // on the line of the marker
	}
	return d.mappingAt(d.root, nil, start, d.end)
}

// mappingAt returns a mapping. parent is its member, if that is known.
func (d *document) mappingAt(n configfile.Node, parent *member, start, limit int) (*mapping, error) {
	m := &mapping{document: d, node: n, parent: parent, comma: -1, limit: limit}
	m.flow = start < len(d.text) && d.text[start] == '{'
	m.open = start
	after := start + 1
	for i, nodeMember := range n.Members {
		limit := m.limit
		if !m.flow && i+1 < len(n.Members) {
			limit = d.lineStart(d.offset(n.Members[i+1].At))
		}
		// The parser's columns are wrong for rare texts, so only its lines are used.
		key := d.skip(after)
		if !m.flow {
			key = d.afterDashes(d.lineStart(d.offset(nodeMember.At)))
		}
		one, err := d.member(nodeMember, key, limit, m.flow)
		if err != nil {
			return nil, err
		}
		one.index = i
		m.members = append(m.members, one)
		after = one.value.end
		if m.flow {
			m.comma = -1
			if next := d.skip(after); next < d.end && d.text[next] == ',' {
				m.comma, after = next, next+1
			}
		}
	}
	if m.flow {
		m.close = d.skip(after)
		if m.close >= d.end || d.text[m.close] != '}' {
			return nil, d.tooHard(start)
		}
	}
	return m, nil
}

// afterDashes returns the offset of what is on a line after the white space and the dashes of
// lists.
func (d *document) afterDashes(line int) int {
	at := line + len(d.indent(line))
	for at+1 < d.end && d.text[at] == '-' && (d.text[at+1] == ' ' || d.text[at+1] == '\t') {
		at = d.skipBlanks(at+1, d.end)
	}
	return at
}

// member finds the parts of a member.
func (d *document) member(n configfile.Member, start, limit int, flow bool) (member, error) {
	m := member{Member: n, key: span{start: start}}
	if m.key.start >= d.end {
		return m, d.tooHard(m.key.start)
	}
	if c := d.text[m.key.start]; c == '"' || c == '\'' {
		m.key.end = d.quotedEnd(m.key.start)
	} else {
		m.key.end = d.plainEnd(m.key.start, limit, flow, true)
		if string(d.text[m.key.start:m.key.end]) != n.Key {
			return m, d.tooHard(m.key.start)
		}
	}
	m.colon = d.skip(m.key.end)
	if m.colon >= d.end || d.text[m.colon] != ':' {
		if n.Value.Kind != configfile.Null {
			return m, d.tooHard(m.key.start)
		}
		m.colon = m.key.end
		m.value = span{m.colon, m.colon}
		return m, nil
	}
	m.colon++
	m.value.start = d.skip(m.colon)
	if n.Value.Kind == configfile.Null && (m.value.start >= limit || !isNullWord(d.text[m.value.start:])) {
		m.value = span{m.colon, m.colon}
		return m, nil
	}
	if m.value.start >= limit {
		return m, d.tooHard(m.key.start)
	}
	var err error
	m.value.end, err = d.valueEnd(n.Value, m.value.start, limit, flow)
	return m, err
}

func isNullWord(text []byte) bool {
	return bytes.HasPrefix(text, []byte("~")) || len(text) >= 4 && strings.EqualFold(string(text[:4]), "null")
}

// member returns the first member with a key.
func (m *mapping) member(key string) (member, bool) {
	for _, one := range m.members {
		if one.Key == key {
			return one, true
		}
	}
	return member{}, false
}

// refuseTwice returns an error if the key of a member is repeated.
func (m *mapping) refuseTwice(one member) error {
	for _, other := range m.members[one.index+1:] {
		if other.Key == one.Key {
			return m.refuse(other.At, "remove one of them", "duplicate key %q, first on line %d", one.Key, one.At.Line)
		}
	}
	return nil
}

// below returns the mapping that is the value of a member. A member without a value counts
// as an empty mapping.
func (m *mapping) below(one member) (*mapping, error) {
	limit := m.limit
	if !m.flow && one.index+1 < len(m.members) {
		limit = m.lineStart(m.members[one.index+1].key.start)
	}
	switch {
	case one.Value.Kind == configfile.Mapping:
		inner, err := m.mappingAt(one.Value, &one, one.value.start, limit)
		if err != nil {
			return nil, err
		}
		inner.outer = m
		return inner, nil
	case one.Value.Kind == configfile.Null && one.value.start == one.value.end && !m.flow:
		return &mapping{document: m.document, parent: &one, outer: m, comma: -1, limit: limit}, nil
	default:
		return nil, m.refuse(one.Value.At, "write {} for an empty one", "%q is not a mapping, but %s", one.Key, one.Value.Kind)
	}
}

// ownLine reports whether only white space is before an offset on its line.
func (d *document) ownLine(offset int) bool {
	return len(bytes.TrimSpace(d.text[d.lineStart(offset):offset])) == 0
}

// indent returns the white space at the beginning of a line.
func (d *document) indent(offset int) string {
	start := d.lineStart(offset)
	line := d.text[start:d.lineEnd(start)]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// insert adds a member at the end.
func (m *mapping) insert(key string, value any) []edit {
	var edits []edit
	// A block begins with its first member.
	if m.flow && !m.json && len(m.members) == 0 && m.outer != nil && !m.outer.flow &&
		string(m.text[m.parent.colon:m.parent.value.end]) == " {}" {
		edits = []edit{{m.parent.colon, m.parent.value.end, ""}}
		m.flow = false
	}
	s := m.style()
	switch {
	case !m.flow:
		return append(edits, m.insertBlock(s, key, value)...)
	case len(m.members) == 0:
		return m.fillFlow(s, key, value)
	default:
		return m.insertFlow(s, key, value)
	}
}

// insertBlock adds lines after the last member and the comments that are indented like it.
func (m *mapping) insertBlock(s style, key string, value any) []edit {
	last, gap := m.parent, "" // the value of the parent is empty
	if n := len(m.members); n > 0 {
		last = &m.members[n-1]
		if n > 1 && m.isApart(last.key.start) {
			gap = s.newline
		}
	}
	at := m.afterComments(m.lineEnd(max(last.value.end, last.colon)), len(s.indent), true)
	return []edit{{at, at, gap + s.newline + strings.Join(s.block(key, value, s.indent), s.newline)}}
}

// isApart reports whether a blank line is before a key and the comments above it.
func (m *mapping) isApart(key int) bool {
	for at := key; ; {
		if m.blankBefore(at) {
			return true
		}
		if at = m.lineStart(at); at <= m.lines[0] {
			return false
		}
		if at = m.lineStart(at - 1); m.text[at+len(m.indent(at))] != '#' {
			return false
		}
	}
}

// afterComments returns the end of the last of the comments after a line that are indented by
// at least least. blanks tells to pass blank lines before such a comment.
func (m *mapping) afterComments(at, least int, blanks bool) int {
	for i := m.nextLine(at); i < m.limit; i = m.nextLine(i) {
		line := m.text[i:m.lineEnd(i)]
		text := bytes.TrimLeft(line, " \t")
		switch {
		case len(bytes.TrimSpace(text)) == 0 && blanks:
			continue
		case len(text) == 0 || text[0] != '#' || len(line)-len(text) < least:
			return at
		}
		at = m.lineEnd(i)
	}
	return at
}

// fillFlow adds the first member between braces.
func (m *mapping) fillFlow(s style, key string, value any) []edit {
	inner := string(m.text[m.open+1 : m.close])
	end, _ := m.contentEnd(m.open+1, m.close)
	switch {
	case strings.TrimSpace(inner) != "": // a comment
		return []edit{{end, end, s.newline + s.indent + s.member(key, value, s.indent)}}
	case strings.Contains(inner, "\n") || inner == "" && s.multi:
		text := s.newline + s.indent + s.member(key, value, s.indent) + s.newline + m.indent(m.open)
		return []edit{{m.open + 1, m.close, text}}
	default:
		return []edit{{m.close, m.close, s.member(key, value, s.indent) + inner}}
	}
}

// insertFlow adds a member after the last one and the comments after it.
func (m *mapping) insertFlow(s style, key string, value any) []edit {
	last := m.members[len(m.members)-1]
	end, lineComment := m.contentEnd(last.value.end, m.close)
	separator := s.comma
	if m.ownLine(last.key.start) || lineComment {
		separator = s.newline + s.indent
	}
	text := separator + s.member(key, value, s.indent)
	if m.comma >= 0 {
		return []edit{{end, end, text + ","}}
	}
	return []edit{{last.value.end, last.value.end, ","}, {end, end, text}}
}

// remove takes out a member.
func (m *mapping) remove(one member) []edit {
	if m.flow {
		return m.removeFlow(one)
	}
	return m.removeBlock(one)
}

// removeBlock takes out the lines of a member.
func (m *mapping) removeBlock(one member) []edit {
	limit := m.limit
	isLast := one.index+1 == len(m.members)
	if !isLast {
		limit = m.lineStart(m.members[one.index+1].key.start)
	}
	inner := *m
	inner.limit = limit
	start := m.lineStart(one.key.start)
	end := inner.afterComments(m.lineEnd(max(one.value.end, one.colon)), one.key.start-start+1, false)
	// Not two blank lines where there was one on either side, and none at the end.
	next := m.nextLine(end)
	blankAfter := next < len(m.text) && len(bytes.TrimSpace(m.text[next:m.nextLine(next)])) == 0
	if isLast || blankAfter {
		for m.blankBefore(start) {
			start = m.lineStart(start - 1)
		}
	}
	var edits []edit
	if len(m.members) == 1 && m.parent != nil {
		edits = append(edits, edit{m.parent.colon, m.parent.colon, " {}"})
	}
	if start <= m.lines[0] {
		return append(edits, edit{start, next, ""})
	}
	// With the line break before it, so that the last line stays without one.
	before := m.lineStart(start - 1)
	return append(edits, edit{m.lineEnd(before), end, ""})
}

// removeFlow takes out a member, a comma, and a comment after it on the same line.
func (m *mapping) removeFlow(one member) []edit {
	isLast := one.index+1 == len(m.members)
	comma := m.comma // after the member
	if !isLast {
		comma = m.skip(one.value.end)
	}
	end := max(one.value.end, comma+1)
	ownLine := m.ownLine(one.key.start)
	if line := m.restOfLine(end); ownLine && line >= 0 {
		end = line
	} else {
		ownLine = false
	}
	previous := m.open + 1
	var edits []edit
	if one.index > 0 {
		before := m.members[one.index-1]
		previous = before.value.end
		// Its comma would be the last one, which not all parsers accept.
		if at := m.skip(previous); isLast && m.comma < 0 && m.text[at] == ',' {
			edits = append(edits, edit{at, at + 1, ""})
		}
	}
	content, lineComment := m.contentEnd(previous, one.key.start)
	switch {
	case len(m.members) == 1 && content == m.open+1 && ownLine && len(bytes.TrimSpace(m.text[end:m.close])) == 0:
		return []edit{{m.open + 1, m.close, ""}}
	case len(m.members) == 1 && content == m.open+1 && !ownLine:
		return []edit{{one.key.start, m.skipBlanks(end, m.close), ""}}
	case ownLine || isLast && !lineComment:
		if len(edits) > 0 && content == edits[0].end {
			content = edits[0].start
			edits = nil
		}
		return append(edits, edit{content, end, ""})
	case isLast:
		return append(edits, edit{one.key.start, end, ""})
	default:
		return append(edits, edit{one.key.start, m.skipBlanks(end, m.close), ""})
	}
}

// skipBlanks returns the offset after spaces and tabs.
func (d *document) skipBlanks(i, limit int) int {
	for i < limit && (d.text[i] == ' ' || d.text[i] == '\t') {
		i++
	}
	return i
}

// restOfLine returns the end of a line if only white space and a comment are on it from an
// offset on, or -1.
func (m *mapping) restOfLine(offset int) int {
	end := m.lineEnd(offset)
	i := m.skipBlanks(offset, end)
	if i < end && m.comment(i) > i {
		if i = m.comment(i); i > end {
			return -1
		}
		i = m.skipBlanks(i, end)
	}
	if i != end {
		return -1
	}
	return end
}

// replace sets the value of a member.
func (m *mapping) replace(one member, value any) []edit {
	s := m.style()
	text := s.inline(value, m.flow)
	if one.value.start == one.value.end {
		return []edit{{one.colon, one.colon, " " + text}}
	}
	c := m.text[one.value.start]
	isBlock := !m.flow && !m.json && (one.Value.Kind == configfile.Mapping && c != '{' || one.Value.Kind == configfile.List && c != '[' || c == '|' || c == '>')
	if isBlock {
		return []edit{{one.colon, one.value.end, " " + text}}
	}
	return []edit{{one.value.start, one.value.end, text}}
}
