// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that has ended counts no more, though its group has it until it was waited for.
func TestGroupOfEndedProcesses(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sh", "-c", "read -r _")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // it fails, as read does at the end of its input
	if !groupRuns(cmd.Process.Pid) {
		t.Error("a running process is not found")
	}
	in.Close()
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); err != nil {
		t.Errorf("the group is empty: %v", err)
	}
	if groupRuns(cmd.Process.Pid) {
		t.Error("a process that has ended is found")
	}
}
