// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package configpath has the paths of values in a configuration, such as
// mcpServers.github.args[0], by which problems and errors name a value. A key with a character
// of the paths themselves is in brackets and quoted: mcpServers["github.com"].
package configpath

import (
	"strconv"
	"strings"
)

const servers = "mcpServers"

// Key returns the path of a member of the value at a path, which is empty for the whole
// configuration.
func Key(path, key string) string {
	switch {
	// The empty key is quoted, too, or it would not change the path.
	case key == "" || strings.ContainsAny(key, `.[]"`):
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// Server returns the path of the entry of a server.
func Server(name string) string { return Key(servers, name) }

// CutServer returns the name of the server that a path is in the entry of, and the rest of the
// path, which is empty for the entry. It reports false for other paths.
func CutServer(path string) (name, rest string, ok bool) {
	path, ok = strings.CutPrefix(path, servers)
	switch {
	case !ok:
		return "", "", false
	case strings.HasPrefix(path, "["):
		quoted, err := strconv.QuotedPrefix(path[1:])
		if err != nil {
			return "", "", false
		}
		name, err = strconv.Unquote(quoted)
		rest, ok = strings.CutPrefix(path[1+len(quoted):], "]")
		return name, rest, ok && err == nil
	case strings.HasPrefix(path, "."):
		end := strings.IndexAny(path[1:], ".[")
		if end < 0 {
			return path[1:], "", true
		}
		return path[1 : 1+end], path[1+end:], true
	default:
		return "", "", false
	}
}

// IsIn reports whether a path is that of a value, or of a part of that value.
func IsIn(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && (rest == "" || of == "" || rest[0] == '.' || rest[0] == '[')
}
