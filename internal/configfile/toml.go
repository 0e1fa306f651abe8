// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// ParseTOML parses a file of another program in TOML. A value has the position of its key,
// and lists of tables are left out.
func ParseTOML(data []byte) (Node, *SyntaxError) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if err := checkSize(data, MaxSize); err != nil {
		return Node{}, err
	}
	// Checked as a whole first; the tree is then built from the expressions, which have
	// positions.
	var whole map[string]any
	if err := toml.Unmarshal(data, &whole); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := at.Position()
			return Node{}, &SyntaxError{At: Position{line, column}, Message: notTOML(at)}
		}
		return Node{}, &SyntaxError{At: Position{1, 1}, Message: notTOML(err)}
	}
	t := &tomlReader{root: &table{at: Position{Line: 1, Column: 1}}}
	t.parser.Reset(data)
	current := t.root
	for t.parser.NextExpression() {
		switch e := t.parser.Expression(); e.Kind {
		case unstable.Table:
			current = t.table(t.root, e.Key())
		case unstable.ArrayTable:
			// Lists of tables hold no servers in any known file.
			current = &table{}
		case unstable.KeyValue:
			t.assign(current, e)
		default: // comments
		}
	}
	if err := t.parser.Error(); err != nil {
		return Node{}, &SyntaxError{At: Position{1, 1}, Message: notTOML(err)}
	}
	if t.deep != (Position{}) {
		return Node{}, &SyntaxError{At: t.deep, Message: errTooDeep.Error()}
	}
	return t.root.node(), nil
}

func notTOML(err error) string { return "not TOML: " + strings.TrimPrefix(err.Error(), "toml: ") }

type tomlReader struct {
	parser unstable.Parser
	root   *table
	deep   Position // of a key with too many parts, which is left out
}

// table is a mapping that can still grow: its parts may be anywhere in the text.
type table struct {
	at      Position
	members []tableMember
}

type tableMember struct {
	key   string
	at    Position
	table *table // or
	value Node   // a complete value
}

func (t *table) node() Node {
	n := Node{At: t.at, Kind: Mapping}
	for _, m := range t.members {
		value := m.value
		if m.table != nil {
			value = m.table.node()
		}
		n.Members = append(n.Members, Member{Key: m.key, At: m.at, Value: value})
	}
	return n
}

// child returns the table with a key, which is added if it is absent.
func (t *table) child(key string, at Position) *table {
	for _, m := range t.members {
		if m.key == key && m.table != nil {
			return m.table
		}
	}
	added := &table{at: at}
	t.members = append(t.members, tableMember{key: key, at: at, table: added})
	return added
}

// table returns the table with a dotted key below another.
func (t *tomlReader) table(from *table, key unstable.Iterator) *table {
	for depth := 1; key.Next(); depth++ {
		if t.isTooDeep(key, depth) {
			return &table{}
		}
		from = from.child(string(key.Node().Data), t.position(key.Node()))
	}
	return from
}

func (t *tomlReader) isTooDeep(key unstable.Iterator, depth int) bool {
	if depth > maxDepth {
		t.deep = t.position(key.Node())
	}
	return depth > maxDepth
}

// assign adds a value with a dotted key.
func (t *tomlReader) assign(to *table, e *unstable.Node) {
	key := e.Key()
	for depth := 1; key.Next(); depth++ {
		if t.isTooDeep(key, depth) {
			return
		}
		name, at := string(key.Node().Data), t.position(key.Node())
		if key.IsLast() {
			to.members = append(to.members, tableMember{key: name, at: at, value: t.value(e.Value(), at)})
			return
		}
		to = to.child(name, at)
	}
}

// value returns a value; at is the position of its key.
func (t *tomlReader) value(n *unstable.Node, at Position) Node {
	out := Node{At: at, Text: string(n.Data)}
	switch n.Kind {
	case unstable.Bool:
		out.Kind = Bool
	case unstable.Integer:
		out.Kind = Integer
	case unstable.Float:
		out.Kind = Float
	case unstable.Array:
		out.Kind, out.Text = List, ""
		for items := n.Children(); items.Next(); {
			if items.Node().Kind != unstable.Comment {
				out.Items = append(out.Items, t.value(items.Node(), at))
			}
		}
	case unstable.InlineTable:
		inline := &table{at: at}
		for members := n.Children(); members.Next(); {
			t.assign(inline, members.Node())
		}
		return inline.node()
	default: // times are used in no known setting of a server
		out.Kind = Text
	}
	return out
}

func (t *tomlReader) position(n *unstable.Node) Position {
	if n.Raw.Length == 0 {
		return Position{Line: 1, Column: 1}
	}
	start := t.parser.Shape(n.Raw).Start
	return Position{Line: start.Line, Column: start.Column}
}
