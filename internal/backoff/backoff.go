// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backoff has the delays between the attempts to do something that has failed.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is a delay that doubles with each attempt. Min must be set, and Max must not be
// smaller. A Backoff must not be used concurrently.
type Backoff struct {
	Min, Max time.Duration

	attempts int
}

// Next returns the delay before the next attempt, with jitter.
func (b *Backoff) Next() time.Duration { return Jitter(b.NextExact()) }

// NextExact is Next without jitter, for attempts that load nothing that others share.
func (b *Backoff) NextExact() time.Duration {
	d := min(b.Min<<min(b.attempts, 20), b.Max)
	b.attempts++
	return d
}

// Reset starts again with Min, after an attempt that has succeeded.
func (b *Backoff) Reset() { b.attempts = 0 }

// Jitter returns a random duration between half of d and d, so that what has failed
// together is not repeated together.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // not a secret
}

// Sleep waits for d, if it is more than zero. It reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
