// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/imports"
)

// ServersOf returns the servers of a configuration, as import compares them.
func ServersOf(e *command.Env, path string) ([]imports.Server, error) {
	text, err := ReadUpTo(path, configedit.MaxSize)
	if err != nil {
		return nil, err
	}
	return ownServers(path, text)
}

// ownServers returns the servers of the text of a configuration.
func ownServers(path string, text []byte) ([]imports.Server, error) {
	result, err := imports.Read(imports.Source{File: path, Dialect: clients.MCPServers, Project: filepath.Dir(path)}, text)
	if err != nil {
		return nil, err
	}
	return result.Servers, nil
}

// Places returns the folders in which files of clients are looked for.
func Places(e *command.Env) clients.Places {
	getenv := func(name string) string {
		value, _ := e.LookupEnv(name)
		return value
	}
	p := clients.Places{System: clients.System(runtime.GOOS), Home: getenv("HOME"), Getenv: getenv}
	if p.System == clients.Windows {
		p.Home = getenv("USERPROFILE")
	}
	if p.Home != "" {
		p.Config = clients.DefaultConfig(p.System, p.Home, getenv)
	}
	if dir, err := filepath.Abs(e.Path(".")); err == nil {
		p.Project = dir
	}
	return p
}

// PlacesOf returns where the files of a client would be.
func PlacesOf(c clients.Client, p clients.Places) []string {
	var paths []string
	for _, f := range c.Files {
		if path := p.Path(f); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// IsFile reports whether there is a regular file at a path.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// ReadUpTo reads a regular file of at most a number of bytes.
func ReadUpTo(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > most:
		return nil, fmt.Errorf("%s is larger than %d MiB", path, most>>20)
	}
	return os.ReadFile(path)
}
