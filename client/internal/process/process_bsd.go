// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// ownGroup starts the child in a process group of its own. There is no parent-death
// signal here: a child ends with its input.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// groupRuns reports whether there are processes in a group.
func groupRuns(pid int) bool { return pid > 1 && syscall.Kill(-pid, 0) == nil }
