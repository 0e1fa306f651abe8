// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package login

import (
	"os/exec"
	"syscall"
)

// leaveGroup makes a program survive the signals of the terminal to this process.
func leaveGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
