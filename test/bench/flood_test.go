// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// Calls are made at their times, and those that are late at once, with the times at which they
// were due.
func TestPaceAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var due, late []time.Duration
		paceAll(t.Context(), 1, 2, 4, begin, begin.Add(3*time.Second), func(at time.Time) {
			due, late = append(due, at.Sub(begin)), append(late, time.Since(at))
			if len(due) == 1 {
				time.Sleep(1100 * time.Millisecond) // a slow call
			}
		})
		wantDue := []int64{250, 750, 1250, 1750, 2250, 2750} // milliseconds, as the next ones
		wantLate := []int64{0, 600, 100, 0, 0, 0}
		if len(due) != len(wantDue) {
			t.Fatalf("calls at %v", due)
		}
		for i := range due {
			if due[i].Milliseconds() != wantDue[i] || late[i].Milliseconds() != wantLate[i] {
				t.Errorf("call %d: due at %v, made %v later", i, due[i], late[i])
			}
		}
	})
}
