// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package client_test

import (
	"os/exec"
	"syscall"
)

// ownSession starts a process in a session of its own, like a daemon.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
