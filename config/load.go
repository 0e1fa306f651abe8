// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// Find returns the path of the configuration in a folder: the first that exists of
// signalbox.yaml, signalbox.json, .mcp.json (the project file of clients) and mcp.json. It
// returns false if none exists.
func Find(dir string) (path string, ok bool) {
	// The gateway's own names first, as they are specific.
	for _, name := range []string{"signalbox.yaml", "signalbox.json", ".mcp.json", "mcp.json"} {
		path := filepath.Join(dir, name)
		// A file that cannot be opened counts, too: using the next one would be a surprise.
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, true
		}
	}
	return "", false
}

// Load reads the file at path; see Parse. The error is that of package os if the file
// cannot be read, or Problems.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	config, _, err := load(path, env)
	return config, err
}

// Inspect is Load with additional notes: on other users and backends that can read or write
// the file, and on missing programs.
func Inspect(path string, env func(string) (string, bool)) (*Config, error) {
	config, r, err := load(path, env)
	if err != nil {
		return nil, err
	}
	r.noteEnvironment(config)
	config.Notes = r.notes.sorted()
	return config, nil
}

func load(path string, env func(string) (string, bool)) (*Config, *reader, error) {
	data, err := readAtMost(path, configfile.MaxSize)
	if err != nil {
		where := ""
		// A program that starts the gateway may have chosen an unexpected folder.
		if here, failed := os.Getwd(); failed == nil && errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(path) {
			where = " in " + here
		}
		return nil, nil, fmt.Errorf("read config: %w%s", err, where)
	}
	return parse(path, data, env)
}

// Parse parses the text of a file. A name that ends in .json or .jsonc means JSON, which may
// contain comments; every other name means YAML. Relative paths in the file are relative to
// the folder of the name. Variables are looked up in env, and nil means that none is set;
// one that is not set, or empty, is taken from the file SecretsName in that folder. The files
// and the entries of the keyring that the text refers to are read.
//
// The error, if any, is Problems with everything that is wrong. A returned Config has been
// validated. It does not retain data.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	config, _, err := parse(name, data, env)
	return config, err
}

// parse is Parse, and also returns the reader, which has the positions.
func parse(name string, data []byte, env func(string) (string, bool)) (*Config, *reader, error) {
	r := &reader{file: name, lookup: env, source: string(data), positions: make(map[string]configfile.Position), meant: make(map[string]bool)}
	root, syntax := configfile.Parse(data, configfile.IsJSON(name))
	if syntax != nil {
		r.reject(place{at: syntax.At}, syntax.Hint, "%s", syntax.Message)
		return nil, nil, r.problems
	}
	config := new(Config)
	r.config(root, config)
	config.source = &source{file: name, positions: r.positions, lock: r.readLock()}
	config.check(r)
	config.Notes = r.notes.sorted()
	config.source.files = paths(r.files)
	if r.secrets.exists {
		config.source.secrets = r.secrets.path
	}
	if err := r.result().orNil(); err != nil {
		return nil, nil, err
	}
	return config, r, nil
}

// The key of the servers, and the name that one editor has for it.
const (
	serversKey = "mcpServers"
	editorsKey = "servers"
)

func (r *reader) config(root configfile.Node, into *Config) {
	// All other problems would follow from this one.
	if root.Kind != configfile.Mapping {
		r.reject(place{at: root.At}, `write the servers below "mcpServers"`, "a config is a mapping, not %s", root.Kind)
		return
	}
	root.Members = r.renameServersKey(root.Members)
	if _, found := root.Member(serversKey); !found {
		root.Members = r.withoutBareServers(root.Members)
	}
	object(configKeys(), foreignConfigKeys()).read(r, root, place{}, reflect.ValueOf(into).Elem())
	// A file without servers is most often the wrong one. A misspelt key has been reported.
	if _, found := root.Member(serversKey); !found && !r.hasOrMeant(place{}.key(serversKey)) {
		r.report(place{at: root.At}, "write {} below it for none", "no %q", serversKey)
	}
}

// withoutBareServers reports servers at the top level of the file, without the key around
// them, and returns the other members.
func (r *reader) withoutBareServers(members []configfile.Member) []configfile.Member {
	var rest []configfile.Member
	told := false
	for _, m := range members {
		if !looksLikeServer(m) {
			rest = append(rest, m)
			continue
		}
		if !told {
			r.meant[serversKey] = true
			r.report(place{}.key(m.Key).withAt(m.At), `put the servers below "mcpServers"`, "%.80q looks like a server, and there is no %q", m.Key, serversKey)
			told = true
		}
	}
	return rest
}

// looksLikeServer reports whether a member of the root looks like a server's entry.
func looksLikeServer(m configfile.Member) bool {
	if m.Value.Kind != configfile.Mapping || slices.Contains(keyNames(configKeys()), m.Key) {
		return false
	}
	return slices.ContainsFunc([]string{"command", "url", "serverUrl", "httpUrl"}, func(key string) bool {
		value, found := m.Value.Member(key)
		return found && value.Kind == configfile.Text
	})
}

// renameServersKey replaces the editor's name of the servers' key by the usual one.
func (r *reader) renameServersKey(members []configfile.Member) []configfile.Member {
	isOurs := func(m configfile.Member) bool { return m.Key == serversKey }
	both := slices.ContainsFunc(members, isOurs)
	var renamed, more []configfile.Member
	for _, m := range members {
		switch {
		case m.Key != editorsKey:
			renamed = append(renamed, m)
		case !both:
			m.Key = serversKey
			renamed = append(renamed, m)
		default: // the order of the servers, which decides about names, is undefined
			r.report(place{}.key(editorsKey).withAt(m.At), "write all servers below one of them", "both %q and %q", serversKey, editorsKey)
			more = append(more, m.Value.Members...)
		}
	}
	if more != nil { // the file is rejected; the problems of these servers are reported, too
		ours := &renamed[slices.IndexFunc(renamed, isOurs)].Value
		ours.Members = slices.Concat(ours.Members, more)
	}
	return renamed
}
