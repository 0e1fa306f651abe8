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
	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/internal/demo"
)

// configNames are the files that are looked for, in their order, for messages.
const configNames = "signalbox.yaml, signalbox.json, .mcp.json or mcp.json"

// source is where a configuration comes from: a file, or nothing at all, which
// is the demo.
type source struct {
	path   string // "" is the demo
	lookup func(string) (string, bool)
}

// source returns the file that a flag names, else the one that is found in the
// working directory, else the demo.
func (e *env) source(flag string) source {
	if flag != "" {
		return source{path: e.path(flag), lookup: e.LookupEnv}
	}
	// Nothing found leaves the path empty, which is the demo.
	found, _ := config.Find(e.Dir)
	return source{path: found, lookup: e.LookupEnv}
}

// nothingFound says that there is no file, and names those of editors: they are not taken
// by themselves, since somebody has allowed them in the editor only.
func (e *env) nothingFound() string {
	var found strings.Builder
	for _, name := range []string{filepath.Join(".cursor", "mcp.json"), filepath.Join(".vscode", "mcp.json")} {
		if info, err := os.Stat(e.path(name)); err == nil && !info.IsDir() {
			fmt.Fprintf(&found, "; %s is, and is taken with --config %[1]s", name)
		}
	}
	return "no " + configNames + " here" + found.String()
}

// isDemo reports whether there is no file, and so nothing to read again either.
func (s source) isDemo() bool { return s.path == "" }

// load reads the configuration anew.
func (s source) load() (*signalbox.Config, error) {
	if s.isDemo() {
		return &signalbox.Config{}, nil
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

// options are those of a Gateway for the configuration.
func (s source) options(log *slog.Logger) signalbox.Options {
	opt := signalbox.Options{Logger: log}
	if s.isDemo() {
		none := "" // alone, its names need no prefix
		opt.InProcess = []signalbox.InProcess{{Name: "demo", Prefix: &none, Handler: demo.New()}}
	}
	return opt
}
