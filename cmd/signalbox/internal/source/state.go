// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
)

// MakeStateFolder returns the folder of StateFolder, which exists then and is of the user
// only.
func MakeStateFolder(e *command.Env, file string) (string, error) {
	folder, err := StateFolder(e, file)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	// Fails if another user owns the folder.
	return folder, os.Chmod(folder, 0o700) //nolint:gosec // a folder
}

// StateFolder returns the folder for what is kept of a configuration file from one command
// to the next, and for the sockets of its gateways.
func StateFolder(e *command.Env, file string) (string, error) {
	home, err := StateHome(e)
	if err != nil {
		return "", err
	}
	return filepath.Join(home, FileID(file)), nil
}

// StateHome returns the folder for all state of the user.
func StateHome(e *command.Env) (string, error) {
	if state, ok := e.LookupEnv("XDG_STATE_HOME"); ok && filepath.IsAbs(state) {
		return filepath.Join(state, "signalbox"), nil
	}
	// Not below AppData: programs started by a packaged client see a private copy of it.
	variable, below := "HOME", filepath.Join(".local", "state", "signalbox")
	switch runtime.GOOS {
	case "windows":
		variable, below = "USERPROFILE", ".signalbox"
	case "darwin":
		below = filepath.Join("Library", "Application Support", "signalbox")
	}
	home, _ := e.LookupEnv(variable)
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("the home folder of the user is unknown (set %s)", variable)
	}
	return filepath.Join(home, below), nil
}

// StateFolder returns the folder of StateFolder for the file, or "" without a file or a user.
func (s Source) StateFolder(e *command.Env) string {
	if !s.HasFile() {
		return ""
	}
	folder, err := StateFolder(e, s.Path)
	if err != nil {
		return "" // serve reports it, for its socket
	}
	return folder
}

// ListsFolder returns the folder for the lists of backends, or "" without a file or a user.
func (s Source) ListsFolder(e *command.Env) string {
	state := s.StateFolder(e)
	if state == "" {
		return ""
	}
	return filepath.Join(state, "lists")
}

// EditLock returns the file that a command locks while it replaces a file of the user, or "" if
// there is no folder for it.
func EditLock(e *command.Env, file string) string {
	folder, err := StateFolder(e, file)
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "edit.lock")
}

// FileID identifies a file in InsideVariable. It is not the path: log messages have the
// values of a backend's environment redacted, and would lose the configuration's path.
func FileID(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}
