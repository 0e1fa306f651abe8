// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"
	"testing/synctest"
	"time"
)

// A process that was late once can keep up; one that is late repeatedly cannot, until a minute
// has passed. It is logged once a minute (fault 113).
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLag()
		want := func(worst time.Duration, behind bool) {
			t.Helper()
			if w, b := l.Worst(); w != worst || b != behind {
				t.Errorf("after %v: %v, %v; want %v, %v", time.Since(l.began), w, b, worst, behind)
			}
		}
		note := func(late time.Duration, told bool) {
			t.Helper()
			if got := l.Note(late); got != told {
				t.Errorf("after %v: to be told is %v, want %v", time.Since(l.began), got, told)
			}
		}
		want(0, false)
		for range 100 { // many timers at once
			note(2*time.Second, false)
		}
		want(2*time.Second, false)
		for range 10 { // always a little late
			time.Sleep(time.Second)
			note(lagLimit-1, false)
		}
		want(2*time.Second, false)
		time.Sleep(time.Second)
		note(lagLimit, false)
		time.Sleep(time.Second)
		note(time.Second, true)
		want(2*time.Second, true)
		note(time.Second, false)
		time.Sleep(47*time.Second + 999*time.Millisecond)
		want(2*time.Second, true)
		time.Sleep(time.Millisecond) // the first one is a minute old
		want(time.Second, false)
		time.Sleep(time.Minute)
		want(0, false)
		for _, told := range []bool{false, false, true, false} {
			time.Sleep(time.Second)
			note(lagLimit, told)
		}
	})
}
