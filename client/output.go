// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"io"
	"os"
	"time"
)

// output is our end of a stream that a child writes. It has one reader.
type output struct {
	file     *os.File
	deadline time.Time // when the reading ends that began when the child had ended
}

// lastWords bounds how long a dead child's stream is read: somebody else who holds
// it may write for ever.
const leftoverTime = time.Second

// cut ends the stream behind what has been written so far, whoever still holds the
// other end: a process that the child has left behind may hold it for ever. It is
// called once the child has ended. A file that has no deadlines is read to its end.
func (o *output) stopAtEnd() {
	if err := o.file.SetReadDeadline(time.Now()); err != nil {
		return
	}
}

// Read reads the stream. A deadline that has passed ends also reads that would not
// have to wait, so that what was written before it has to be fetched another way.
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
