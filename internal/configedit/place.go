// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// Tree returns the tree of the file.
func (f File) Tree() (configfile.Node, error) {
	if f.isTOML() {
		d, err := parseTOML(f)
		if err != nil {
			return configfile.Node{}, err
		}
		return d.root, nil
	}
	d, err := parse(f)
	if err != nil {
		return configfile.Node{}, err
	}
	return d.root, nil
}

func (f File) isTOML() bool { return f.Foreign && strings.EqualFold(filepath.Ext(f.Name), ".toml") }

// InsertAt adds a member to a mapping, at its end and in its style. The last key of the path is
// that of the member, and the keys before it are those of the mapping; what is missing of them
// is added.
func (f File) InsertAt(path []string, entry Entry) ([]byte, error) {
	if f.isTOML() {
		d, err := parseTOML(f)
		if err != nil {
			return nil, err
		}
		return d.insert(path, entry)
	}
	d, err := parse(f)
	if err != nil {
		return nil, err
	}
	if n, found := get(d.root, path); found {
		return nil, d.refuse(n.At, "remove it first", "there is %q already", path[len(path)-1])
	}
	return d.insertAt(path, entry)
}

// SetAt sets a key of the mapping at a path to a scalar, and adds it at the end if it is new.
func (f File) SetAt(path []string, key string, value any) ([]byte, error) {
	path = append(slices.Clone(path), key)
	if f.isTOML() {
		d, err := parseTOML(f)
		if err != nil {
			return nil, err
		}
		return d.set(path, value)
	}
	d, m, rest, err := f.at(path)
	if err != nil {
		return nil, err
	}
	want := with(d.root, path, node(value))
	if one, found := m.member(rest[0]); found && len(rest) == 1 {
		if err := m.refuseTwice(one); err != nil {
			return nil, err
		}
		return d.result(m.replace(one, value), want)
	}
	return d.result(m.insert(rest[0], nested(rest[1:], value)), want)
}

// DeleteAt removes the member at a path, as [File.Remove] removes a server.
func (f File) DeleteAt(path []string) ([]byte, error) {
	if f.isTOML() {
		d, err := parseTOML(f)
		if err != nil {
			return nil, err
		}
		return d.remove(path)
	}
	d, m, rest, err := f.at(path)
	if err != nil {
		return nil, err
	}
	one, found := m.member(rest[0])
	if !found || len(rest) > 1 {
		return nil, d.refuse(configfile.Position{}, "", "there is no %q", path[len(path)-1])
	}
	if err := m.refuseTwice(one); err != nil {
		return nil, err
	}
	return d.take(m.remove(one), without(d.root, path))
}

// insertAt is InsertAt for a member that is absent.
func (d *document) insertAt(path []string, value any) ([]byte, error) {
	want := with(d.root, path, node(value))
	if d.root.Kind == configfile.Null {
		return d.result(d.fresh(Entry{{path[0], nested(path[1:], value)}}), want)
	}
	m, rest, err := d.mapping(path)
	if err != nil {
		return nil, err
	}
	return d.result(m.insert(rest[0], nested(rest[1:], value)), want)
}

// nested returns a value below keys.
func nested(keys []string, value any) any {
	for _, key := range slices.Backward(keys) {
		value = Entry{{key, value}}
	}
	return value
}

// at parses the file, and returns what mapping returns.
func (f File) at(path []string) (*document, *mapping, []string, error) {
	d, err := parse(f)
	if err != nil {
		return nil, nil, nil, err
	}
	if d.root.Kind == configfile.Null {
		return nil, nil, nil, d.refuse(configfile.Position{}, "", "there is no %q", path[0])
	}
	m, rest, err := d.mapping(path)
	return d, m, rest, err
}

// mapping returns the innermost mapping around a path that exists, and the rest of the path
// from there: the last key alone if all mappings exist.
func (d *document) mapping(path []string) (*mapping, []string, error) {
	m, err := d.rootMapping()
	if err != nil {
		return nil, nil, err
	}
	for len(path) > 1 {
		one, found := m.member(path[0])
		if !found {
			break
		}
		if err := m.refuseTwice(one); err != nil {
			return nil, nil, err
		}
		if m, err = m.below(one); err != nil {
			return nil, nil, err
		}
		path = path[1:]
	}
	return m, path, nil
}

// AppendTo adds a mapping at the end of the list at a path, in YAML without brackets. What is
// missing of the path is added.
func (f File) AppendTo(path []string, entry Entry) ([]byte, error) {
	d, err := parse(f)
	if err != nil {
		return nil, err
	}
	list, found := get(d.root, path)
	if !found {
		return d.insertAt(path, []Entry{entry})
	}
	if list.Kind != configfile.List && list.Kind != configfile.Null {
		return nil, d.refuse(list.At, "", "%q is not a list, but %s", path[len(path)-1], list.Kind)
	}
	longer := list
	longer.Kind, longer.Items = configfile.List, append(slices.Clone(list.Items), node(entry))
	want := with(d.root, path, longer)
	m, rest, err := d.mapping(path)
	if err != nil {
		return nil, err
	}
	one, _ := m.member(rest[0])
	if err := m.refuseTwice(one); err != nil {
		return nil, err
	}
	s := m.style()
	if len(list.Items) == 0 {
		if m.flow {
			return nil, d.tooHard(one.key.start)
		}
		lines := s.items([]Entry{entry}, m.indent(one.key.start)+s.itemSpace)
		return d.result([]edit{{one.colon, max(one.value.end, one.colon), s.newline + strings.Join(lines, s.newline)}}, want)
	}
	items, err := m.items(one)
	if err != nil {
		return nil, err
	}
	last := items[len(items)-1]
	gap := ""
	if len(items) > 1 && m.blankBefore(last.start) {
		gap = s.newline
	}
	s.listSpace = ""
	if at, found := m.sample(configfile.List, 2); found {
		s.listSpace = strings.Repeat(" ", max(0, at-m.lineStart(at)-len(m.indentOfKey(at))))
	}
	at := m.lineEnd(last.end)
	text := gap + s.newline + strings.Join(s.items([]Entry{entry}, m.indent(last.start)), s.newline)
	return d.result([]edit{{at, at, text}}, want)
}

// DeleteFrom removes an item of the list at a path, in YAML without brackets. A list without
// items becomes [].
func (f File) DeleteFrom(path []string, index int) ([]byte, error) {
	d, m, rest, err := f.at(path)
	if err != nil {
		return nil, err
	}
	list, _ := get(d.root, path)
	if index >= len(list.Items) {
		return nil, d.refuse(list.At, "", "%q has no item %d", path[len(path)-1], index)
	}
	shorter := list
	shorter.Items = slices.Delete(slices.Clone(list.Items), index, index+1)
	want := with(d.root, path, shorter)
	one, _ := m.member(rest[0])
	items, err := m.items(one)
	if err != nil {
		return nil, err
	}
	item := items[index]
	start, end := m.lineStart(item.start), m.lineEnd(item.end)
	if index == len(items)-1 {
		for m.blankBefore(start) {
			start = m.lineStart(start - 1)
		}
	}
	var edits []edit
	if len(items) == 1 {
		edits = append(edits, edit{one.colon, one.colon, " []"})
	}
	if start <= m.lines[0] {
		return nil, d.tooHard(item.start)
	}
	before := m.lineStart(start - 1)
	return d.take(append(edits, edit{m.lineEnd(before), end, ""}), want)
}

// items returns the parts of the text of the items of a list, each from its dash on. Each
// begins on its own line.
func (m *mapping) items(one member) ([]span, error) {
	limit := m.limit
	if m.flow || m.byteAt(one.Value.At) == '[' {
		return nil, m.cannotEdit(one.key.start, "write the list with a line for each item")
	}
	if one.index+1 < len(m.members) {
		limit = m.lineStart(m.members[one.index+1].key.start)
	}
	var starts []int
	for _, item := range one.Value.Items {
		line := m.lineStart(m.offset(item.At))
		at := line + len(m.indent(line))
		if !bytes.HasPrefix(m.text[at:], []byte("- ")) || item.Kind != configfile.Mapping || len(item.Members) == 0 {
			return nil, m.tooHard(at)
		}
		starts = append(starts, at)
	}
	var spans []span
	for i, item := range one.Value.Items {
		end := limit
		if i+1 < len(starts) {
			end = m.lineStart(starts[i+1])
		}
		last, err := m.itemEnd(item, end)
		if err != nil {
			return nil, err
		}
		spans = append(spans, span{starts[i], last})
	}
	return spans, nil
}

// itemEnd returns the end of an item: that of its last member.
func (m *mapping) itemEnd(item configfile.Node, limit int) (int, error) {
	last := item.Members[len(item.Members)-1]
	key := m.afterDashes(m.lineStart(m.offset(last.At)))
	if m.text[key] == '{' {
		return m.valueEnd(item, key, limit, true)
	}
	one, err := m.document.member(last, key, limit, false)
	if err != nil {
		return 0, err
	}
	return max(one.value.end, one.colon), nil
}

// listSpace returns what is before the dashes of the lists in a mapping, in addition to the
// indentation of their keys.
func (m *mapping) listSpace() string {
	for _, one := range m.members {
		if one.Value.Kind != configfile.List || len(one.Value.Items) == 0 || m.byteAt(one.Value.At) == '[' {
			continue
		}
		line := m.lineStart(m.offset(one.Value.Items[0].At))
		if more, ok := strings.CutPrefix(m.indent(line), m.indent(one.key.start)); ok {
			return more
		}
	}
	return "  "
}

// items returns the lines of a list of mappings.
func (s style) items(items []Entry, indent string) []string {
	var lines []string
	s.lists = block
	for _, item := range items {
		for i, field := range item {
			inner := s.blockAt(field.Key, field.Value, indent+"  ", 1)
			if i == 0 {
				inner[0] = indent + "- " + strings.TrimLeft(inner[0], " ")
			}
			lines = append(lines, inner...)
		}
	}
	return lines
}

// HasComments reports whether there are comments inside of the value of a key of a server's
// entry, which Set would remove.
func (f File) HasComments(name, key string) bool {
	d, entry, err := f.entry(name)
	if err != nil {
		return false
	}
	one, found := entry.member(key)
	if !found {
		return false
	}
	start := one.value.start
	if !d.json && d.text[start] == '-' && one.Value.Kind == configfile.List {
		start = one.colon // the comments before the first item
	}
	for i := start; i < one.value.end; i++ {
		switch c := d.text[i]; {
		case c == '"' || c == '\'':
			i = d.quotedEnd(i) - 1
		case d.comment(i) > i:
			return true
		}
	}
	return false
}
