// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
)

// hangup is the standard output of a gateway that serves one client there. A
// client that no longer reads has gone, whether or not it has closed its other
// pipe: what it would be answered is lost, and nothing that it began should go
// on.
type hangup struct {
	to   io.Writer
	gone context.CancelCauseFunc // ends what serves the client
}

// Write writes, and ends the service where that fails.
func (h hangup) Write(p []byte) (int, error) {
	n, err := h.to.Write(p)
	if err != nil {
		h.gone(fmt.Errorf("the client no longer reads: %w", err))
	}
	return n, err
}

// Close closes the pipe, if it is one that can be, so that a write that waits
// for its reader ends.
func (h hangup) Close() error {
	if closer, ok := h.to.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
