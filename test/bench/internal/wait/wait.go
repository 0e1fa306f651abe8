// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wait makes a single-threaded program wait for its next input without notifying
// Go's runtime.
//
// The runtime of an idle process uses two more threads, which are woken for each message:
// one that polls, or that takes the processor from a blocked goroutine, and one that
// monitors the others. Between programs that answer each other within microseconds this
// costs more than the answer, and as each wakes a core, it adds to the measured time of the
// program in between. So the clients and backends of a bench, which share the machine with
// the measured program, wait here.
package wait

import (
	"io"
	"syscall"
	"time"
)

// window is how long a thread waits before the runtime is notified: longer than any
// response takes, and too short to delay anything noticeably.
const window = 5 * time.Millisecond

// NewReader returns a reader of r with a Read that waits on the calling thread for the duration
// of a window, and then as r does. If r has no descriptor, or the system does not support
// this, NewReader returns r itself. Like r, the reader is for one goroutine at a time.
func NewReader(r io.Reader) io.Reader {
	file, ok := r.(syscall.Conn)
	if !ok || !canWait {
		return r
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return r
	}
	return &reader{from: r, conn: conn}
}

type reader struct {
	from io.Reader
	conn syscall.RawConn
}

// Read reads available input. The end of the wait and all errors are left to the Read of
// the file.
func (r *reader) Read(p []byte) (int, error) {
	_ = r.conn.Read(await) // fails if the file is closed, which the next line reports
	return r.from.Read(p)
}

// await waits until there is input, or for a window. It always reports true, because Read
// finds out whether there was any.
func await(fd uintptr) bool {
	_ = awaitInput(fd, window)
	return true
}
