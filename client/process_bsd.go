// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package client

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the child into a process group of its own. There is no signal
// for a parent's death here: a child ends when its input does.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// spawner starts processes.
type spawner struct{}

func (spawner) start(cmd *exec.Cmd) error { return cmd.Start() }

func (spawner) stop() {}
