// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package hangup

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

const isKnown = true

// hasHungUp reports whether nothing that is written to conn can be read any more. With
// POLLOUT, a socket that the peer has closed in one direction only is not reported
// anywhere.
func hasHungUp(conn syscall.Conn) (gone bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true // it is closed
	}
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		for {
			_, err := unix.Poll(fds, 0)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		gone = fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}
