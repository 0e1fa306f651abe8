// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Find returns the path of the config of a folder: signalbox.yaml, else
// signalbox.json, else .mcp.json, the project file of clients, else mcp.json. It reports
// false where there is none of them.
func Find(dir string) (path string, ok bool) {
	// Ours first: a folder that has both was given the gateway for a reason.
	for _, name := range []string{"signalbox.yaml", "signalbox.json", ".mcp.json", "mcp.json"} {
		path := filepath.Join(dir, name)
		// A file that cannot be opened counts: to take the next one would serve what nobody
		// meant.
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, true
		}
	}
	return "", false
}

// Load reads the file at a path; see Parse. A file that cannot be read is an
// error of package os, and one that is wrong is Problems.
func Load(path string, env Lookup) (*Config, error) {
	config, _, err := load(path, env)
	return config, err
}

// Inspect is Load with more notes: who else can read or write the file, and which
// programs are not there.
func Inspect(path string, env Lookup) (*Config, error) {
	config, r, err := load(path, env)
	if err != nil {
		return nil, err
	}
	r.noteSurroundings(config)
	config.Notes = r.notes.sorted()
	return config, nil
}

func load(path string, env Lookup) (*Config, *reader, error) {
	data, err := readAtMost(path, maxFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read config: %w%s", err, lookedIn(path, err))
	}
	return parse(path, data, env)
}

// lookedIn names the folder in which a relative path was looked for and not found: a
// program that starts others does so in a folder of its own choice.
func lookedIn(path string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) || filepath.IsAbs(path) {
		return ""
	}
	here, err := os.Getwd()
	if err != nil {
		return ""
	}
	return " in " + here
}

// Parse reads the text of a file. A name that ends in .json or .jsonc means
// JSON, in which comments may stand; every other name means YAML. Relative paths
// in the file are relative to the folder of the name. The variables of the file
// are looked up by env; nil knows none.
//
// The error, if there is one, is Problems with everything that is wrong. A
// Config that is returned has been validated. It does not hold on to data.
func Parse(name string, data []byte, env Lookup) (*Config, error) {
	config, _, err := parse(name, data, env)
	return config, err
}

// parse is Parse, and returns what knows the places.
func parse(name string, data []byte, env Lookup) (*Config, *reader, error) {
	r := &reader{file: name, lookup: env, where: make(map[string]position)}
	// YAML takes nearly all JSON, so that a pipe or a file without an extension is read.
	extension := strings.ToLower(filepath.Ext(name))
	root, syntax := parseTree(data, extension == ".json" || extension == ".jsonc")
	if syntax != nil {
		r.complain(syntax.at, place{}, syntax.hint, "%s", syntax.message)
		return nil, nil, r.problems
	}
	config := new(Config)
	r.config(root, config)
	r.judge(config)
	config.Notes = r.notes.sorted()
	if err := r.result().orNil(); err != nil {
		return nil, nil, err
	}
	return config, r, nil
}

// The key of the servers, and what one editor calls it.
const (
	serversKey = "mcpServers"
	editorsKey = "servers"
)

// config reads the root of a file.
func (r *reader) config(root node, into *Config) {
	// Everything else that could be said would follow from it.
	if root.kind != kindMapping {
		r.complain(root.at, place{}, `write the servers below "mcpServers"`, "a config is a mapping, not %s", root.kind)
		return
	}
	root.members = r.oneServersKey(root.members)
	if _, found := root.member(serversKey); !found {
		root.members = r.withoutBareServers(root.members)
	}
	object(configKeys(), foreignConfigKeys()).read(r, root, place{}, into)
	// A file without servers is most often the wrong file. Where the key is misspelt
	// that has been said.
	if _, found := root.member(serversKey); !found && !r.unread.meant(place{}.key(serversKey)) {
		r.tell(root.at, place{}, "write {} below it for none", "no %q", serversKey)
	}
}

// withoutBareServers tells of servers that are at the top of the file, with no key around
// them, and returns the rest.
func (r *reader) withoutBareServers(members []member) []member {
	var rest []member
	told := false
	for _, m := range members {
		if !looksLikeServer(m) {
			rest = append(rest, m)
			continue
		}
		if !told {
			r.unread.guess(place{}.key(serversKey))
			r.tell(m.at, place{}.key(m.key), `put the servers below "mcpServers"`, "%.80q looks like a server, and there is no %q", m.key, serversKey)
			told = true
		}
	}
	return rest
}

// looksLikeServer reports whether a member of the file could be one of a server.
func looksLikeServer(m member) bool {
	if m.value.kind != kindMapping || slices.Contains(keyNames(configKeys()), m.key) {
		return false
	}
	return slices.ContainsFunc([]string{"command", "url", "serverUrl", "httpUrl"}, func(key string) bool {
		value, found := m.value.member(key)
		return found && value.kind == kindText
	})
}

// oneServersKey gives the servers their one name.
func (r *reader) oneServersKey(members []member) []member {
	// Found first, whatever stands first: the order of two keys means nothing.
	ours := slices.IndexFunc(members, func(m member) bool { return m.key == serversKey })
	var renamed, more []member
	for _, m := range members {
		// Which of them comes first would decide about names, and nobody has said it.
		if m.key == editorsKey && ours >= 0 {
			r.tell(m.at, place{}.key(editorsKey), "write all servers below one of them", "both %q and %q", serversKey, editorsKey)
			more = append(more, m.value.members...)
			continue
		}
		if m.key == editorsKey {
			m.key = serversKey
		}
		renamed = append(renamed, m)
	}
	return withServers(renamed, more)
}

// withServers adds servers to those of a file that is refused, so that what is wrong
// with them is told, too.
func withServers(members, more []member) []member {
	for i, m := range members {
		if m.key == serversKey && len(more) > 0 {
			members[i].value.members = slices.Concat(m.value.members, more)
			break
		}
	}
	return members
}
