// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package http1

import "net"

// canPeek reports whether sockets can be checked for data without reading.
const canPeek = false

// nonblockingOn returns the nonblocking operations of the connection, or nil.
func nonblockingOn(c net.Conn) nonblocking {
	own, _ := c.(nonblocking)
	return own
}

// isPeerClosed reports whether a write failed because the peer no longer reads.
func isPeerClosed(error) bool { return false }
