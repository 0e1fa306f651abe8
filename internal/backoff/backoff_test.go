// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
)

func TestNext(t *testing.T) {
	b := backoff.Backoff{Min: time.Second, Max: 10 * time.Second}
	for range 2 {
		for i, most := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
			if d := b.Next(); d < most/2 || d > most {
				t.Errorf("delay %d is %v, want %v to %v", i, d, most/2, most)
			}
		}
		for range 1000 { // the shift must not overflow
			if d := b.Next(); d < 5*time.Second || d > 10*time.Second {
				t.Fatalf("a later delay is %v", d)
			}
		}
		b.Reset()
	}
}

func TestNextExact(t *testing.T) {
	b := backoff.Backoff{Min: time.Second, Max: 5 * time.Second}
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second} {
		if d := b.NextExact(); d != want {
			t.Errorf("delay %d is %v, want %v", i, d, want)
		}
	}
}

func TestJitterOfNothing(t *testing.T) {
	if d := backoff.Jitter(0); d != 0 {
		t.Errorf("got %v, want 0", d)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !backoff.Sleep(t.Context(), time.Second) || time.Since(began) != time.Second {
			t.Errorf("slept for %v, want 1s", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if backoff.Sleep(ctx, time.Minute) || time.Since(began) != 2*time.Second {
			t.Errorf("slept until %v, want 2s", time.Since(began))
		}
		if backoff.Sleep(ctx, 0) || !backoff.Sleep(t.Context(), 0) || time.Since(began) != 2*time.Second {
			t.Errorf("nothing to sleep: until %v, want 2s", time.Since(began))
		}
	})
}
