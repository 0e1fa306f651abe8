// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/runner"
)

// Installing returns how long the package manager that was started, such as npx, took until
// it began the server's own program. It is zero for another program, for one that is not
// known to have begun another, and on systems that do not report it.
func (c *Child) Installing() time.Duration {
	p, ok := runner.Find(c.launcher.cmd.Path, c.launcher.cmd.Args)
	if !ok || p.Kind == runner.Image {
		return 0
	}
	return programBegan(c.cmd.Process.Pid)
}

// isShell reports whether a program is a shell, with which package managers begin
// programs.
func isShell(name string) bool {
	return slices.Contains([]string{"sh", "dash", "bash", "ash", "busybox"}, name)
}
