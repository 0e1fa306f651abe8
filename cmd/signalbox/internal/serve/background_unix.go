// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve

import (
	"syscall"
)

// detached returns the attributes of a process in a session of its own: signals to the
// group or the terminal of this process do not reach it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
