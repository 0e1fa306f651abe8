// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/demo"
)

// configNames lists the names of configuration files for messages, in order of preference.
const configNames = "signalbox.yaml, signalbox.json, .mcp.json or mcp.json"

// source is the source of a configuration: a file, or the demo.
type source struct {
	path   string // "" means the demo
	lookup func(string) (string, bool)
}

// source returns the file named by a flag, or the file found in the working directory, or
// the demo.
func (e *env) source(flag string) source {
	if flag != "" {
		return source{path: e.path(flag), lookup: e.LookupEnv}
	}
	// An empty path means the demo.
	found, _ := config.Find(e.Dir)
	return source{path: found, lookup: e.LookupEnv}
}

// nothingFound describes that there is no file. It mentions the files of editors, which are
// not used automatically: their user has approved them in the editor only.
func (e *env) nothingFound() string {
	var found strings.Builder
	for _, name := range []string{filepath.Join(".cursor", "mcp.json"), filepath.Join(".vscode", "mcp.json")} {
		if info, err := os.Stat(e.path(name)); err == nil && !info.IsDir() {
			fmt.Fprintf(&found, "; to use %s, add --config %[1]s", name)
		}
	}
	return "no " + configNames + " here" + found.String()
}

// isDemo reports whether there is no file.
func (s source) isDemo() bool { return s.path == "" }

// load reads the configuration.
func (s source) load() (*config.Config, error) {
	if s.isDemo() {
		return &config.Config{}, nil
	}
	if err := s.refuseLoop(); err != nil {
		return nil, err
	}
	cfg, err := config.Inspect(s.path, s.lookup)
	if err != nil {
		return nil, err
	}
	s.markBackends(cfg)
	return cfg, nil
}

// options returns the Options of a Gateway for the configuration.
func (s source) options(log *slog.Logger) signalbox.Options {
	opt := signalbox.Options{Logger: log}
	if s.isDemo() {
		none := "" // no prefix: there is only one backend
		opt.InProcess = []signalbox.InProcess{{Name: "demo", Prefix: &none, Handler: demo.New()}}
	}
	return opt
}
