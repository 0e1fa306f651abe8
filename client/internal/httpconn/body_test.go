// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"testing"
	"time"
)

func TestCursorWait(t *testing.T) {
	tests := []struct {
		retry  time.Duration
		misses int
		want   time.Duration
	}{
		{-1, 0, time.Second}, {-1, 2, 4 * time.Second}, {-1, 9, 30 * time.Second},
		{0, 0, 100 * time.Millisecond}, {time.Minute, 3, time.Minute}, {time.Hour, 0, 5 * time.Minute},
	}
	for _, tt := range tests {
		if got := (&Cursor{Retry: tt.retry}).Wait(tt.misses); got != tt.want {
			t.Errorf("retry %v after %d misses: %v, want %v", tt.retry, tt.misses, got, tt.want)
		}
	}
}
