// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"fmt"
	"path/filepath"
	"strings"

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
	var root configfile.Node
	var bad *configfile.SyntaxError
	if s == syntaxTOML {
		root, bad = configfile.ParseTOML(data)
	} else {
		root, bad = configfile.ParseLarge(data, s == syntaxJSON)
	}
	if bad != nil {
		hint := ""
		if bad.Hint != "" {
			hint = " (" + bad.Hint + ")"
		}
		return configfile.Node{}, fmt.Errorf("%d:%d: %s%s", bad.At.Line, bad.At.Column, bad.Message, hint)
	}
	return root, nil
}
