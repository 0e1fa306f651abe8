// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"errors"
	"syscall"
)

// receiveBuffer is how much of a response the kernel buffers while earlier data is
// processed.
const receiveBuffer = 1 << 20

// growReceiveBuffer makes a socket start with a receive buffer of that size. Linux
// starts with an eighth of it and grows it by how fast the data is read, which on a
// short path varies by chance: one connection ends up with half a MiB and the next with
// four, and a 1 MiB response costs half as much again if its backend must be woken for
// each piece.
//
// Setting SO_RCVBUF would disable the growth, which a long path needs. Setting
// SO_RCVLOWAT to half the size allocates the same buffer (since Linux 4.18) and does
// not. It is then reset, so that each byte wakes the reader.
func growReceiveBuffer(_, _ string, c syscall.RawConn) error {
	var err error
	failed := c.Control(func(fd uintptr) {
		if syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, receiveBuffer/2) != nil {
			return // then the kernel's default applies
		}
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, 1)
	})
	return errors.Join(failed, err)
}
