// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// Places finds the values of a Config in its file. The zero value finds none.
type Places struct {
	file string
	root configfile.Node
}

// Places reads the file of the Config again. If the Config is not from a file, or the file
// cannot be read or parsed now, nothing is found.
func (c *Config) Places() Places {
	if c.source == nil {
		return Places{}
	}
	data, err := readAtMost(c.source.file, configfile.MaxSize)
	if err != nil {
		return Places{}
	}
	root, syntax := configfile.Parse(data, configfile.IsJSON(c.source.file))
	if syntax != nil {
		return Places{}
	}
	return Places{c.source.file, root}
}

// Place is the position of a value in a file. Line and column count from 1. The zero value is
// no position.
type Place struct {
	File         string
	Line, Column int
}

// String returns the position as file:line:column, or "".
func (p Place) String() string {
	if p == (Place{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Server returns the position of a setting of a server: path has keys (string) and indices
// (int). It is that of the key, or of the element of a list. If the setting is a text, the
// position is returned only if the file still has it: the Config may be older.
func (p Places) Server(name, text string, path ...any) Place {
	for _, key := range []string{serversKey, editorsKey} {
		if at := p.Setting(text, append([]any{key, name}, path...)...); at != (Place{}) {
			return at
		}
	}
	return Place{}
}

// Setting is Server for a setting of all servers.
func (p Places) Setting(text string, path ...any) Place {
	node, at := p.root, configfile.Position{}
	for _, step := range path {
		next, found := configfile.Node{}, false
		switch step := step.(type) {
		case string:
			for _, m := range node.Members {
				if m.Key == step {
					next, at, found = m.Value, m.At, true
					break
				}
			}
		case int:
			if step < len(node.Items) {
				next, at, found = node.Items[step], node.Items[step].At, true
			}
		}
		if !found {
			return Place{}
		}
		node = next
	}
	if node.Kind == configfile.Text && node.Text != text {
		return Place{}
	}
	return Place{p.file, at.Line, at.Column}
}
