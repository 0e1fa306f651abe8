// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package client

import "syscall"

// terminateGroup asks a child and all that it has started to end.
func terminateGroup(pid int) { signalGroup(pid, syscall.SIGTERM) }

// killGroup ends a child and all that it has started.
func killGroup(pid int) { signalGroup(pid, syscall.SIGKILL) }

// signalGroup signals the group that the child leads. That nobody is left in it
// is what is wanted.
func signalGroup(pid int, sig syscall.Signal) {
	if pid <= 1 {
		return
	}
	if err := syscall.Kill(-pid, sig); err != nil {
		return // ESRCH
	}
}
