// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// While calls begin, the delay of a timer is reported once a second, and not after the
// last.
func TestLateTimerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := make(chan time.Duration, 10)
		b := New(Config{Name: "shelf", Handler: atOnce, Late: func(d time.Duration) { reported <- d }})
		for range 2500 {
			if _, err := b.Serve(t.Context(), &mcp.Request{}, slowCaller{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Hour)
		b.limits.lag.fire(time.Now().Add(-700 * time.Millisecond)) // as if the machine had been busy
		close(reported)
		var late []time.Duration
		for d := range reported {
			late = append(late, d)
		}
		if want := []time.Duration{0, 0, 0, 700 * time.Millisecond}; !slices.Equal(late, want) {
			t.Errorf("reported %v, want %v", late, want)
		}
	})
}
