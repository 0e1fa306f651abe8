// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// syntax is the syntax of a text.
type syntax int

const (
	syntaxJSON syntax = iota
	syntaxYAML
	syntaxTOML
)

// syntaxOf returns the syntax of a file, by its extension or else by its content.
func syntaxOf(name string, data []byte) syntax {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonc", ".json5":
		return syntaxJSON
	case ".yaml", ".yml":
		return syntaxYAML
	case ".toml":
		return syntaxTOML
	}
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		line = strings.TrimSpace(line)
		key, _, assigned := strings.Cut(line, " = ")
		switch {
		case line == "" || line[0] == '#':
			continue
		case line[0] == '{' || line[0] == '"' || strings.HasPrefix(line, "//") || strings.HasPrefix(line, "/*"):
			return syntaxJSON
		case line[0] == '[' && strings.HasSuffix(line, "]") && !strings.ContainsAny(line, `{,`), assigned && !strings.ContainsAny(key, " :"):
			return syntaxTOML
		case line[0] == '[':
			return syntaxJSON
		}
		return syntaxYAML
	}
	return syntaxYAML
}

// parse returns the tree of a text. The error begins with line:column.
func parse(data []byte, s syntax) (configfile.Node, error) {
	if s == syntaxTOML {
		return parseTOML(data)
	}
	root, bad := configfile.ParseLarge(data, s == syntaxJSON)
	if bad != nil {
		hint := ""
		if bad.Hint != "" {
			hint = " (" + bad.Hint + ")"
		}
		return configfile.Node{}, fmt.Errorf("%d:%d: %s%s", bad.At.Line, bad.At.Column, bad.Message, hint)
	}
	return root, nil
}

// parseTOML returns the tree of a text in TOML. The library checks it as a whole first; the
// tree is then built from its expressions, which have positions.
func parseTOML(data []byte) (configfile.Node, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var whole map[string]any
	if err := toml.Unmarshal(data, &whole); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := at.Position()
			return configfile.Node{}, fmt.Errorf("%d:%d: not TOML: %s", line, column, strings.TrimPrefix(at.Error(), "toml: "))
		}
		return configfile.Node{}, fmt.Errorf("1:1: not TOML: %s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	t := &tomlReader{root: &table{at: configfile.Position{Line: 1, Column: 1}}}
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
	return t.root.node(), t.parser.Error()
}

type tomlReader struct {
	parser unstable.Parser
	root   *table
}

// table is a mapping that can still grow: its parts may be anywhere in the text.
type table struct {
	at      configfile.Position
	members []tableMember
}

type tableMember struct {
	key   string
	at    configfile.Position
	table *table          // or
	value configfile.Node // a complete value
}

func (t *table) node() configfile.Node {
	n := configfile.Node{At: t.at, Kind: configfile.Mapping}
	for _, m := range t.members {
		value := m.value
		if m.table != nil {
			value = m.table.node()
		}
		n.Members = append(n.Members, configfile.Member{Key: m.key, At: m.at, Value: value})
	}
	return n
}

// child returns the table with a key, which is added if it is absent.
func (t *table) child(key string, at configfile.Position) *table {
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
	for key.Next() {
		from = from.child(string(key.Node().Data), t.position(key.Node()))
	}
	return from
}

// assign adds a value with a dotted key.
func (t *tomlReader) assign(to *table, e *unstable.Node) {
	key := e.Key()
	for key.Next() {
		name, at := string(key.Node().Data), t.position(key.Node())
		if key.IsLast() {
			to.members = append(to.members, tableMember{key: name, at: at, value: t.value(e.Value(), at)})
			return
		}
		to = to.child(name, at)
	}
}

// value returns a value; at is the position of its key.
func (t *tomlReader) value(n *unstable.Node, at configfile.Position) configfile.Node {
	out := configfile.Node{At: at, Text: string(n.Data)}
	switch n.Kind {
	case unstable.Bool:
		out.Kind = configfile.Bool
	case unstable.Integer:
		out.Kind = configfile.Integer
	case unstable.Float:
		out.Kind = configfile.Float
	case unstable.Array:
		out.Kind, out.Text = configfile.List, ""
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
		out.Kind = configfile.Text
	}
	return out
}

func (t *tomlReader) position(n *unstable.Node) configfile.Position {
	if n.Raw.Length == 0 {
		return configfile.Position{Line: 1, Column: 1}
	}
	start := t.parser.Shape(n.Raw).Start
	return configfile.Position{Line: start.Line, Column: start.Column}
}
