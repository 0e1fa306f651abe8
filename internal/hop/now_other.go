// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package hop

import "net"

// looks says that sockets cannot be looked at.
const looks = false

// nowOn returns what can be done to the connection without waiting, nil for nothing.
func nowOn(c net.Conn) nowOrNever {
	own, _ := c.(nowOrNever)
	return own
}

// isOfPeer reports whether writing has failed because the other end reads no more.
func isOfPeer(error) bool { return false }
