// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wait has a program that does one thing at a time wait for its next input
// without a word to Go's runtime.
//
// What a runtime does when nothing goes on in a process takes two more threads, each of
// which is woken for each message: one that polls, or that takes the processor from who
// waits, and one that watches the others. Between programs that answer each other within
// microseconds that is more than the answer costs, and as each wakes a core, it comes on
// top of the time of whatever stands between the two. So clients and backends of a bench,
// which share the machine with what is measured, wait here.
package wait

import (
	"io"
	"syscall"
	"time"
)

// window is how long a thread waits before the runtime is told: longer than any answer
// takes, and not so long that anybody would notice who has to wait for it.
const window = 5 * time.Millisecond

// NewReader returns a reader of r whose Read waits on the thread that it is called on for
// as long as answers take, and then as r does. Where r has no descriptor, or the system
// no such way, that is r itself. Like r it is to be used by one goroutine at a time.
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

// Read reads what there is. That nothing came is left to the Read of the file, and so are
// all errors.
func (r *reader) Read(p []byte) (int, error) {
	_ = r.conn.Read(await) // of a file that is closed: the next line says so
	return r.from.Read(p)
}

// await waits until there is something to read, or for a window. It reports true: whether
// there was is for Read to find out.
func await(fd uintptr) bool {
	_ = awaitInput(fd, window)
	return true
}
