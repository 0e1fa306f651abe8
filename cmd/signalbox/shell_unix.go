// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// shellTime bounds the start of the user's shell, which runs the user's own files.
const shellTime = 5 * time.Second

// loginPath returns the PATH of the user's login shell, or "". Programs that a desktop or a
// service manager starts have a shorter one.
func (e *env) loginPath(ctx context.Context) string {
	shell, _ := e.LookupEnv("SHELL")
	if !filepath.IsAbs(shell) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, shellTime)
	defer cancel()
	// On a line of its own, after what the user's files print.
	cmd := exec.CommandContext(ctx, shell, "-lic", `printf '\n%s' "$PATH"`) //nolint:gosec // it is the user's own
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
