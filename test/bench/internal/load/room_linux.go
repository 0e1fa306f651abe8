// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import "syscall"

// room is how much of an answer the system takes while a client has not read it yet.
const room = 2 << 20

// makeRoom has a connection begin with that much. Linux gives more to a connection by how
// fast was read from it, so that some have ten times what others have: what is measured
// with large answers would be which client had luck.
func makeRoom(_, _ string, c syscall.RawConn) error {
	var err error
	failed := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, room/2)
		if err == nil { // that made the room; to be woken for less does not take it back
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, 1)
		}
	})
	if failed != nil {
		return failed
	}
	return err
}
