// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package client

import (
	"io"
	"os"
	"syscall"
)

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

// readBuffered reads what is in a pipe, without waiting for more and whatever its
// deadline is.
func readBuffered(f *os.File, p []byte) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, io.EOF
	}
	// Control and not Read, which looks at the deadline. The runtime has made the
	// descriptor one that never waits.
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
