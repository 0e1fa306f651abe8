// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"bytes"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// AddTo adds servers at the end of a configuration file, which may be empty. The errors are
// those of package configedit.
func AddTo(file configedit.File, servers []Server) (configedit.File, error) {
	if len(bytes.TrimSpace(file.Text)) == 0 && !configfile.IsJSON(file.Name) {
		file.Text = []byte("# Imported by signalbox import.\n")
	}
	for i := range servers {
		text, err := file.Add(servers[i].Name, servers[i].Entry())
		if err != nil {
			return file, err
		}
		file.Text = text
	}
	return file, nil
}

// Entry returns the server as an entry of a configuration file.
func (s *Server) Entry() configedit.Entry {
	var entry configedit.Entry
	add := func(key string, value any, is bool) {
		if is {
			entry = append(entry, configedit.Field{Key: key, Value: value})
		}
	}
	add("type", s.Type, s.Type != "")
	add("command", s.Command, s.Command != "")
	add("args", s.Args, len(s.Args) > 0)
	add("env", mappingOf(s.Env), len(s.Env) > 0)
	add("envFile", s.EnvFile, s.EnvFile != "")
	add("cwd", s.Cwd, s.Cwd != "")
	add("url", s.URL, s.URL != "")
	add("headers", mappingOf(s.Headers), len(s.Headers) > 0)
	signIn := s.OAuth.entry()
	add("oauth", signIn, len(signIn) > 0)
	add("include", s.Include, len(s.Include) > 0)
	add("exclude", s.Exclude, len(s.Exclude) > 0)
	add("timeout", formatTimeout(s.Timeout), s.Timeout > 0)
	add("disabled", true, s.Disabled)
	return entry
}

func mappingOf(pairs []Pair) configedit.Entry {
	var mapping configedit.Entry
	for _, p := range pairs {
		mapping = append(mapping, configedit.Field{Key: p.Name, Value: p.Value})
	}
	return mapping
}

// formatTimeout returns a duration without parts that are zero, such as 5m for 5m0s.
func formatTimeout(d time.Duration) string {
	text := d.String()
	if trimmed, ok := strings.CutSuffix(text, "m0s"); ok {
		text = trimmed + "m"
	}
	if trimmed, ok := strings.CutSuffix(text, "h0m"); ok {
		text = trimmed + "h"
	}
	return text
}
