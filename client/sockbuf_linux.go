// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"syscall"
)

// receiveRoom is how much of an answer the system takes from a backend while we are
// busy with what came before.
const receiveBuffer = 1 << 20

// makeRoom has a socket begin with that much room. Linux begins with an eighth of it and
// adds to that by how fast we have read, which on a short way is a matter of luck: one
// connection ends up with half a MiB and the next with four, and an answer of one MiB
// costs half as much again where its backend has to be woken for each piece.
//
// To set the buffer's size would end that adding, and a long way needs more. To ask to be
// woken only when half of it is there makes the same room (since Linux 4.18), and does
// not; at once we ask for each byte again.
func growReceiveBuffer(_, _ string, c syscall.RawConn) error {
	var err error
	failed := c.Control(func(fd uintptr) {
		if syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, receiveBuffer/2) != nil {
			return // then it has what others have
		}
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, 1)
	})
	return errors.Join(failed, err)
}
