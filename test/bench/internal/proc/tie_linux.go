// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os/exec"
	"syscall"
)

// tie makes a program end with this one, however this one ends, and shields it from signals
// of the terminal: they are for this one, which ends the program in order.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
