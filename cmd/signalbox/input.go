// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"sync"
	"time"
)

// input is the standard input of serve, and knows whether it has ended.
type input struct {
	io.Reader

	mu    sync.Mutex
	ended time.Time // zero before
}

// Read is the Reader's.
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

// endedAt returns when the input ended. It reports false while it has not.
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

// partingTime is when, after the end of the input, what is left is cut. Clients kill a
// server that lives on for 2 s, or 4 s.
const partingTime = time.Second

// patience returns how long the end may take before it is cut: where the only client has
// left, until partingTime, and not at all after a signal. Negative is no such limit.
func (s *service) patience() time.Duration {
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
		return max(0, partingTime-time.Since(at))
	}
}
