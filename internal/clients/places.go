// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Places are the folders in which the files of clients are looked for. They are given, so
// that a test needs no home folder.
type Places struct {
	System  System
	Home    string // the user's home folder
	Config  string // the system's folder for configurations; see DefaultConfig
	Project string // the folder of a project, or "" for none
	// Getenv returns an environment variable, or "".
	Getenv func(string) string
}

// DefaultConfig returns the folder that a system has for configurations.
func DefaultConfig(system System, home string, getenv func(string) string) string {
	switch system {
	case MacOS:
		return filepath.Join(home, "Library", "Application Support")
	case Windows:
		if dir := getenv("APPDATA"); dir != "" {
			return dir
		}
		return filepath.Join(home, "AppData", "Roaming")
	default:
		return xdg(home, getenv)
	}
}

func xdg(home string, getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(home, ".config")
}

// Found is a file of a client that exists.
type Found struct {
	Client Client
	File   File
	Path   string
	// Project is the folder for which the servers hold, in the scope Project.
	Project string
}

// Find returns the files of all clients that exist, in the order of the table. A path that
// several clients share is returned once, for the first of them.
func (p Places) Find() []Found {
	var all []Found
	for _, c := range All() {
		for _, found := range p.FindOf(c) {
			if !slices.ContainsFunc(all, func(other Found) bool { return other.Path == found.Path }) {
				all = append(all, found)
			}
		}
	}
	return all
}

// FindOf returns the files of one client that exist.
func (p Places) FindOf(c Client) []Found {
	var all []Found
	for _, f := range c.Files {
		for _, path := range p.existing(f) {
			found := Found{Client: c, File: f, Path: path}
			if f.Scope == Project {
				found.Project = p.Project
			}
			all = append(all, found)
		}
	}
	return all
}

// existing returns the paths of a file that exist: of a pattern there may be several.
func (p Places) existing(f File) []string {
	path := p.Path(f)
	if path == "" {
		return nil
	}
	paths := []string{path}
	if strings.Contains(filepath.Base(path), "*") {
		paths = matching(path)
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.IsDir()
	})
}

// matching returns the files in one folder with names that match the last element of a path. A
// filepath.Glob would read special characters of the folder, too.
func matching(path string) []string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil // the folder is absent, or cannot be read, as with a single file
	}
	var paths []string
	for _, entry := range entries {
		if ok, err := filepath.Match(filepath.Base(path), entry.Name()); err == nil && ok {
			paths = append(paths, filepath.Join(filepath.Dir(path), entry.Name()))
		}
	}
	return paths
}

// Path returns where a file would be, or "" if there is no such place on the system, or no
// project.
func (p Places) Path(f File) string {
	if !f.isOn(p.System) {
		return ""
	}
	if f.Scope == Project {
		if p.Project == "" {
			return ""
		}
		return filepath.Join(p.Project, filepath.FromSlash(f.Path))
	}
	if value := p.getenv(f.Env); value != "" {
		if f.EnvIsFile {
			return value
		}
		return filepath.Join(value, filepath.Base(filepath.FromSlash(f.Path)))
	}
	base, rest, _ := strings.Cut(f.Path, "/")
	folder := map[string]string{"~": p.Home, "<config>": p.Config, "<xdg>": xdg(p.Home, p.getenv)}[base]
	if folder == "" {
		return ""
	}
	return filepath.Join(folder, filepath.FromSlash(rest))
}

func (p Places) getenv(name string) string {
	if name == "" || p.Getenv == nil {
		return ""
	}
	return p.Getenv(name)
}

// ToWrite returns the file of a client in which a server is written in a scope: of the places
// of which it is known that the client reads them, the first with a file, or else the first. If
// none is known on the system, it is another place with a file. A file that only the client may
// make is returned, too. ok is false if there is none of these.
func (p Places) ToWrite(c Client, scope Scope) (f File, path string, ok bool) {
	known := false
	for _, file := range c.Files {
		at := p.Path(file)
		if file.Scope != scope || at == "" || file.Former || strings.Contains(file.Path, "*") {
			continue
		}
		exists := len(p.existing(file)) > 0
		switch {
		case exists && file.Source.IsKnown():
			return file, at, true
		case file.Source.IsKnown() && !known, exists && !ok:
			f, path, ok, known = file, at, true, file.Source.IsKnown()
		}
	}
	return f, path, ok
}
