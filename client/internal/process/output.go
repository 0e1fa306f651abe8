// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"io"
	"os"
	"time"
)

// output is the gateway's end of a pipe that a child writes to. It has one reader.
type output struct {
	file     *os.File
	deadline time.Time // when to stop reading what was left after the child's exit
}

// leftoverTime limits how long the output of an exited child is read: another process
// that holds the pipe may write without end.
const leftoverTime = time.Second

// stopAtEnd makes the reader stop after what has been written so far, even if a process
// that the child has left behind still holds the other end. It is called after the
// child's exit. A file without deadlines is read to its end.
func (o *output) stopAtEnd() {
	if err := o.file.SetReadDeadline(time.Now()); err != nil {
		return
	}
}

// Read reads from the pipe. After the deadline of stopAtEnd even a read that need not
// wait fails, so that it fetches the buffered rest without the deadline.
func (o *output) Read(p []byte) (int, error) {
	n, err := o.file.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	now := time.Now()
	if o.deadline.IsZero() {
		o.deadline = now.Add(leftoverTime)
	}
	if now.After(o.deadline) {
		return 0, io.EOF
	}
	return readBuffered(o.file, p)
}
