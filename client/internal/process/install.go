// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/runner"
)

// Installing returns how long the package manager that was started, such as npx, took until
// it began the server's own program. It is zero for another program, for one that is not
// known to have begun another, and on systems that do not report it.
func (c *Child) Installing() time.Duration {
	p, ok := runner.Find(c.cmd.Args[0], c.cmd.Args[1:])
	if !ok || p.Kind == runner.Image {
		return 0
	}
	return programBegan(c.cmd.Process.Pid)
}

// direct returns the command without npx, if that is wanted and possible.
func (l *Launcher) direct() Command {
	cmd := l.cmd
	if !cmd.Direct || l.indirect.Load() {
		return cmd
	}
	env := Environment(os.Environ(), cmd.Env)
	program, args, ok := runner.Direct(cmd.Path, cmd.Args, func(name string) string {
		value := ""
		for _, kv := range env { // the last one counts
			if text, ok := strings.CutPrefix(kv, name+"="); ok {
				value = text
			}
		}
		return value
	})
	if ok {
		cmd.Path, cmd.Args = program, args
	}
	return cmd
}

// isShell reports whether a program is a shell, with which package managers begin
// programs.
func isShell(name string) bool {
	return slices.Contains([]string{"sh", "dash", "bash", "ash", "busybox"}, name)
}
