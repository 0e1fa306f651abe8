// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

const canWait = true

// pollFD is struct pollfd of poll(2).
type pollFD struct {
	fd              int32
	events, revents int16
}

// pollIn is POLLIN of poll(2).
const pollIn = 1

// awaitInput waits until fd has input, or has ended, at most for d, and reports whether it
// has. A wait that is interrupted by a signal, as the runtime sends them to preempt or stop
// threads, is not continued.
func awaitInput(fd uintptr, d time.Duration) bool {
	ask := pollFD{fd: int32(fd), events: pollIn}
	limit := syscall.NsecToTimespec(d.Nanoseconds())
	// A raw call, because any other notifies the runtime.
	n, _, failed := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&ask)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0) //nolint:gosec // required by the system call
	return failed == 0 && n == 1
}

// Pipe is [os.Pipe] with ends that block in the system in Read and Write: the runtime does
// not poll them.
func Pipe() (r, w *os.File, err error) {
	var fd [2]int
	if err := syscall.Pipe2(fd[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return os.NewFile(uintptr(fd[0]), "|0"), os.NewFile(uintptr(fd[1]), "|1"), nil
}
