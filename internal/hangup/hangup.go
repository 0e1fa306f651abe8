// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hangup distinguishes a client on pipes that has ended from one that has only
// closed what it writes to.
//
// A client on stdio shuts down by closing the input of the server, and then waits for the
// output to end (2026-07-28, basic/transports/stdio, "Shutdown"). If the client is killed,
// the input ends as well, but then the output has no reader. The system reports that
// without a write.
package hangup

import (
	"syscall"
	"time"
)

// Within waits up to d until w has no reader, and reports whether that is so. The system
// closes the files of a process that is killed one after the other. It reports false at
// once for a w that is no file or connection of the system, and on systems that do not
// report it.
func Within(w any, d time.Duration) bool {
	conn, ok := w.(syscall.Conn)
	if !ok || !isKnown {
		return false
	}
	late := time.NewTimer(d)
	defer late.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for !hasHungUp(conn) {
		select {
		case <-look.C:
		case <-late.C:
			return false
		}
	}
	return true
}

// lookInterval is the time between two looks.
const lookInterval = 2 * time.Millisecond

// Now is Within without a wait.
func Now(w any) bool {
	conn, ok := w.(syscall.Conn)
	return ok && hasHungUp(conn)
}
