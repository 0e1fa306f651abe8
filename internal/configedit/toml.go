// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// tomlDocument is a parsed file in TOML. Its tables may be anywhere in the text, so that a new
// one is written at the end.
type tomlDocument struct {
	document

	whole map[string]any
	parts []tomlPart
}

// tomlPart is the head of a table, or an assignment, without a comment after it.
type tomlPart struct {
	span

	key   []string // from the root
	head  bool
	value span // of a boolean
}

func parseTOML(f File) (*tomlDocument, error) {
	d := &tomlDocument{document: document{name: f.Name, text: f.Text}}
	root, syntax := configfile.ParseTOML(f.Text)
	if syntax != nil {
		return nil, d.refuse(syntax.At, syntax.Hint, "%s", syntax.Message)
	}
	d.root = root
	d.findLines()
	var err error
	if d.whole, err = decodeTOML(d.text); err != nil {
		return nil, d.refuse(configfile.Position{}, "", "%v", err)
	}
	d.split(d.lines[0])
	return d, nil
}

func decodeTOML(text []byte) (map[string]any, error) {
	whole := make(map[string]any)
	return whole, toml.Unmarshal(bytes.TrimPrefix(text, []byte(bom)), &whole)
}

// split finds the parts of the text from an offset on.
func (d *tomlDocument) split(from int) {
	var p unstable.Parser
	p.Reset(d.text[from:])
	at := func(r unstable.Range) span { return span{from + int(r.Offset), from + int(r.Offset+r.Length)} }
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		part := tomlPart{head: e.Kind != unstable.KeyValue}
		for key := e.Key(); key.Next(); {
			part.key = append(part.key, string(key.Node().Data))
			part.span = at(key.Node().Raw)
		}
		if part.head {
			table = part.key
			part.start = d.lineStart(part.start)
		} else {
			part.key = slices.Concat(table, part.key)
			part.span = at(e.Raw)
			if e.Value().Kind == unstable.Bool {
				part.value = at(p.Range(e.Value().Data))
			}
		}
		d.parts = append(d.parts, part)
	}
}

// result makes edits, and returns the new text if it means want.
func (d *tomlDocument) result(edits []edit, want map[string]any) ([]byte, error) {
	out, err := d.apply(edits)
	if err != nil {
		return nil, err
	}
	if got, err := decodeTOML(out); err != nil || !reflect.DeepEqual(got, want) {
		return nil, d.tooHard(edits[0].start)
	}
	return out, nil
}

// insert adds a table at the end of the text.
func (d *tomlDocument) insert(path []string, entry Entry) ([]byte, error) {
	if n, found := get(d.root, path); found {
		return nil, d.refuse(n.At, "remove it first", "there is %q already", path[len(path)-1])
	}
	newline := d.newline(0)
	text := "[" + strings.Join(each(path, tomlKey), ".") + "]" + newline
	value := make(map[string]any)
	for _, field := range entry {
		written, err := tomlValue(field.Value)
		if err != nil {
			return nil, err
		}
		text += tomlKey(field.Key) + " = " + written + newline
		value[field.Key] = decoded(field.Value)
	}
	end := len(d.text)
	if end > d.lines[0] {
		text = newline + text
		if d.text[end-1] != '\n' {
			text = newline + text
		}
	}
	want, ok := withValue(d.whole, path, value)
	if !ok {
		return nil, d.tooHard(0)
	}
	out, err := d.result([]edit{{end, end, text}}, want)
	if outer, found := get(d.root, path[:1]); err != nil && found {
		return nil, d.refuse(outer.At, "write it as ["+path[0]+"], with a line for each key", "%q is not written as a table", path[0])
	}
	return out, err
}

// set sets a key of a table. A value that is there must be a boolean.
func (d *tomlDocument) set(path []string, value any) ([]byte, error) {
	text, err := tomlValue(value)
	if err != nil {
		return nil, err
	}
	want, ok := withValue(d.whole, path, value)
	if !ok {
		return nil, d.tooHard(0)
	}
	last := -1 // of the table itself
	for i, part := range d.parts {
		switch {
		case slices.Equal(part.key, path) && part.value.end > 0:
			return d.result([]edit{{part.value.start, part.value.end, text}}, want)
		case part.head && slices.Equal(part.key, path[:len(path)-1]), !part.head && last == i-1 && last >= 0:
			last = i
		}
	}
	if last < 0 {
		n, _ := get(d.root, path[:1])
		return nil, d.refuse(n.At, "edit it by hand", "the table of %q is not written as one", path[len(path)-2])
	}
	at := d.lineEnd(d.parts[last].end)
	return d.result([]edit{{at, at, d.newline(0) + d.indent(d.parts[last].start) + tomlKey(path[len(path)-1]) + " = " + text}}, want)
}

// remove takes out the tables and assignments of a path, with their comments on the same
// lines.
func (d *tomlDocument) remove(path []string) ([]byte, error) {
	want, ok := withValue(d.whole, path, nil)
	if _, found := get(d.root, path); !found || !ok {
		return nil, d.refuse(configfile.Position{}, "", "there is no %q", path[len(path)-1])
	}
	var edits []edit
	open := -1 // the edit that takes out the table around the next parts
	for _, part := range d.parts {
		inside := len(part.key) >= len(path) && slices.Equal(part.key[:len(path)], path)
		switch {
		case !inside:
			open = -1
		case open >= 0:
			edits[open].end = d.lineEnd(part.end)
		default:
			start := d.lineStart(part.start)
			for part.head && d.blankBefore(start) {
				start = d.lineStart(start - 1)
			}
			edits = append(edits, edit{start, d.lineEnd(part.end), ""})
			if open = -1; part.head {
				open = len(edits) - 1
			}
		}
	}
	for i := range edits { // with the line break after it
		edits[i].end = d.nextLine(edits[i].end)
	}
	if edits == nil {
		return nil, d.tooHard(0)
	}
	got, err := d.result(edits, want)
	if err == nil {
		return got, nil
	}
	// The last server may leave an empty table, or none.
	if outer, found := lookup(want, path[:len(path)-1]); found && len(outer) == 0 {
		if want, ok = withValue(want, path[:len(path)-1], nil); ok {
			return d.result(edits, want)
		}
	}
	return nil, err
}

// lookup returns the table at a path.
func lookup(whole map[string]any, path []string) (map[string]any, bool) {
	for _, key := range path {
		inner, ok := whole[key].(map[string]any)
		if !ok {
			return nil, false
		}
		whole = inner
	}
	return whole, true
}

// withValue returns tables in which the value at a path is another one, or with nil is
// removed. It reports false if there is something else than a table on the path.
func withValue(whole map[string]any, path []string, value any) (map[string]any, bool) {
	whole = maps.Clone(whole)
	if whole == nil {
		whole = make(map[string]any)
	}
	if len(path) == 1 {
		if whole[path[0]] = value; value == nil {
			delete(whole, path[0])
		}
		return whole, true
	}
	inner, isTable := whole[path[0]].(map[string]any)
	if _, found := whole[path[0]]; found && !isTable {
		return nil, false
	}
	changed, ok := withValue(inner, path[1:], value)
	whole[path[0]] = changed
	return whole, ok
}

// decoded returns a value as the decoder returns it.
func decoded(value any) any {
	switch v := value.(type) {
	case int:
		return int64(v)
	case []string:
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return list
	default:
		return v
	}
}

func tomlValue(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return quoted(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case []string:
		return "[" + strings.Join(each(v, quoted), ", ") + "]", nil
	default:
		return "", fmt.Errorf("no value of type %T is written in TOML", value)
	}
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlKey(key string) string {
	if bareKey.MatchString(key) {
		return key
	}
	return quoted(key)
}

func each(values []string, f func(string) string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = f(v)
	}
	return out
}
