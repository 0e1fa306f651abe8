// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"

	"github.com/signalbox-mcp/signalbox/internal/shellpath"
)

// located returns a command, with the file of its program if that is only in the PATH of
// the login shell. Such a program gets that PATH, because most need others from it: npx
// needs node.
func (l *Launcher) located(ctx context.Context, cmd Command) Command {
	if l.LoginPath == nil {
		return cmd
	}
	if _, err := exec.LookPath(cmd.Path); !errors.Is(err, exec.ErrNotFound) {
		return cmd
	}
	path := l.LoginPath(ctx)
	found := shellpath.Find(path, cmd.Path)
	if found == "" {
		return cmd
	}
	l.told.Do(func() {
		l.Log.LogAttrs(ctx, slog.LevelInfo, "program found in the PATH of the login shell only", slog.String("program", cmd.Path), slog.String("file", found))
	})
	cmd.Path = found
	// First, so that a configured PATH replaces it.
	cmd.Env = append([]string{"PATH=" + shellpath.Join(path, os.Getenv("PATH"))}, cmd.Env...)
	return cmd
}
