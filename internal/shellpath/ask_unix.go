// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package shellpath

import (
	"bytes"
	"context"
	"os/exec"
	"syscall"
	"time"
)

// ask returns the PATH that a shell has after it has read the user's files, or "".
func ask(ctx context.Context, shell string) string {
	ctx, cancel := context.WithTimeout(ctx, shellTime)
	defer cancel()
	// On a line of its own, after what the user's files print.
	cmd := exec.CommandContext(ctx, shell, "-lic", `printf '\n%s' "$PATH"`)
	// Without a terminal, so that it does not take that of the command. It leads a process
	// group, which ends as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if cmd.Process != nil {
		_ = kill() // what it has left behind
	}
	if err != nil {
		return ""
	}
	return string(out[bytes.LastIndexByte(out, '\n')+1:])
}
