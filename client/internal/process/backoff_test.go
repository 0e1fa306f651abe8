// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A child that keeps exiting is restarted ever more slowly, and then not for a while.
//
// D5- 2026-07-28 basic/transports/stdio: "If the server process exits unexpectedly,
// the client SHOULD restart it."
func TestCrashBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	var c crashBackoff
	var waits []time.Duration
	for range maxCrashes {
		wait, err := c.admit(now)
		if err != nil {
			t.Fatalf("refused after %v", waits)
		}
		waits = append(waits, wait)
		c.died(now)
	}
	if want := []time.Duration{0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}; !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	if _, err := c.admit(now.Add(10 * time.Second)); err == nil || !strings.Contains(err.Error(), "5 times within 1m0s; the next start is in 50s") {
		t.Errorf("error %v", err)
	}
	c.explain("it said why")
	if _, err := c.admit(now.Add(10 * time.Second)); !strings.HasSuffix(err.Error(), "in 50s; it said why") {
		t.Errorf("error %v", err)
	}
	if wait, err := c.admit(now.Add(time.Minute)); wait != 0 || err != nil {
		t.Errorf("after a minute: %v, %v", wait, err)
	}
}

// A failed start counts like an exit, and is reported as what it is.
func TestCrashBackoffOfFailedStarts(t *testing.T) {
	now := time.Unix(1000, 0)
	var c crashBackoff
	for range maxCrashes {
		c.failed(now, "it is not there")
	}
	want := "it is not there; it was tried 5 times within 1m0s; the next start is in 50s"
	if _, err := c.admit(now.Add(10 * time.Second)); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	c.died(now.Add(time.Hour))
	c.explain("it said why")
	for range maxCrashes - 1 {
		c.died(now.Add(time.Hour))
	}
	want = "its process ended 5 times within 1m0s; the next start is in 1m0s; it said why"
	if _, err := c.admit(now.Add(time.Hour)); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
