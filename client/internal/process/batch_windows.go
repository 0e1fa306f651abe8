// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// quoteForBatch makes cmd.exe read the arguments of a batch file as they are. Arguments
// without special characters need nothing.
func quoteForBatch(cmd *exec.Cmd) {
	if !isBatch(cmd.Path) || !slices.ContainsFunc(cmd.Args[1:], isSpecialInBatch) {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: batchLine(cmd.Path, cmd.Args[1:])}
	cmd.Path = filepath.Join(os.Getenv("SystemRoot"), "System32", "cmd.exe")
}
