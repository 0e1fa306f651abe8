// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"io"
	"os"
	"syscall"
)

// terminateGroup asks a child and all that it has started to terminate.
func terminateGroup(pid int) { signalGroup(pid, syscall.SIGTERM) }

// killGroup kills a child and all that it has started.
func killGroup(pid int) { signalGroup(pid, syscall.SIGKILL) }

// signalGroup signals the group that the child leads. An empty group is not an error.
func signalGroup(pid int, sig syscall.Signal) {
	if pid <= 1 {
		return
	}
	if err := syscall.Kill(-pid, sig); err != nil {
		return // ESRCH
	}
}

// readBuffered reads what a pipe holds, without waiting and regardless of its deadline.
func readBuffered(f *os.File, p []byte) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, io.EOF
	}
	// Control ignores the deadline, unlike Read. The runtime has made the descriptor
	// non-blocking.
	if cerr := conn.Control(func(fd uintptr) { n, err = readOnce(int(fd), p) }); cerr != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}

func readOnce(fd int, p []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, p)
		if err != syscall.EINTR {
			return n, err
		}
	}
}
