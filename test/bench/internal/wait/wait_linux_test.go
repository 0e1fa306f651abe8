// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"testing"
	"time"
)

// TestAwaitInput: the poll lasts until there is input, or for its time, and no longer.
func TestAwaitInput(t *testing.T) {
	_, from, to := pipe(t)
	start := time.Now()
	for range 20 { // each of which a signal may cut short
		awaitInput(from.Fd(), window)
	}
	if took := time.Since(start); took < 10*window {
		t.Errorf("waited %v for nothing; want %v", took, 20*window)
	}
	if _, err := to.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	awaitInput(from.Fd(), time.Hour)
	if took := time.Since(start); took > time.Minute {
		t.Errorf("waited %v for what was there", took)
	}
}
