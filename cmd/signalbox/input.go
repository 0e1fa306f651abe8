// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"sync"
	"time"
)

// input is the standard input of serve. It records when the input ended.
type input struct {
	io.Reader

	mu    sync.Mutex
	ended time.Time // zero until then
}

// Read reads from the Reader.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		in.end()
	}
	return n, err
}

func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended.IsZero() {
		in.ended = time.Now()
	}
}

// endedAt returns when the input ended, or false if it has not.
func (in *input) endedAt() (time.Time, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended, !in.ended.IsZero()
}

// Close closes the Reader, if it can be closed.
func (in *input) Close() error {
	if c, ok := in.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// exitAfterEOF is the time after the end of the input at which running calls are canceled.
// Clients kill a server that is still running after 2 s, or 4 s.
const exitAfterEOF = time.Second

// eofGrace returns how long the shutdown may take before running calls are canceled: if the
// only client has closed the input, until exitAfterEOF, or no time at all after a signal. A
// negative duration is no limit.
func (s *service) eofGrace() time.Duration {
	if s.http != nil || s.input == nil {
		return -1
	}
	at, ended := s.input.endedAt()
	switch {
	case !ended:
		return -1
	case s.signalled:
		return 0
	default:
		return max(0, exitAfterEOF-time.Since(at))
	}
}
