// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/code"
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
	if _, err := c.admit(now.Add(10 * time.Second)); err == nil || !strings.Contains(err.text, "5 times within 1m0s; the next start is in 50s") {
		t.Errorf("failure %+v", err)
	}
	c.explain(failure{code.StartNeedsValue, "it said why"})
	if _, err := c.admit(now.Add(10 * time.Second)); !strings.HasSuffix(err.text, "in 50s; it said why") || err.code != code.StartNeedsValue {
		t.Errorf("failure %+v", err)
	}
	if wait, err := c.admit(now.Add(time.Minute)); wait != 0 || err != nil {
		t.Errorf("after a minute: %v, %v", wait, err)
	}
}

// A failed start does not count as an exit: the next one is tried after a short pause.
// Meanwhile the failure is reported as what it is.
func TestCrashBackoffOfFailedStarts(t *testing.T) {
	now := time.Unix(1000, 0)
	var c crashBackoff
	missing := &failure{code.StartNotFound, "it is not there"}
	for range 10 * maxCrashes {
		if wait, err := c.admit(now); wait != 0 || err != nil {
			t.Fatalf("after the pause: %v, %+v", wait, err)
		}
		c.failed(now, missing)
		if _, err := c.admit(now.Add(startPause - 1)); err == nil || *err != *missing {
			t.Fatalf("failure %+v, want %+v", err, missing)
		}
		now = now.Add(startPause)
	}
	// A later exit is another failure.
	c.explain(failure{code.TalkExited, "it said why"})
	for range maxCrashes {
		c.died(now)
	}
	want := failure{code.TalkExited, "its process ended 5 times within 1m0s; the next start is in 1m0s; it said why"}
	if _, err := c.admit(now); err == nil || *err != want {
		t.Errorf("failure %+v, want %+v", err, want)
	}
}

// An exit without a known reason has the code of any exit.
func TestCrashBackoffWithoutReason(t *testing.T) {
	var c crashBackoff
	for range maxCrashes {
		c.died(time.Unix(1000, 0))
	}
	if _, err := c.admit(time.Unix(1000, 0)); err == nil || err.code != code.TalkExited {
		t.Errorf("failure %+v, want %s", err, code.TalkExited)
	}
}

// After a retry by the operator, neither earlier exits nor a failed start delay the next
// start.
func TestResetBackoffAdmitsAtOnce(t *testing.T) {
	now := time.Now()
	var c crashBackoff
	for range maxCrashes {
		c.died(now)
	}
	c.failed(now, &failure{"", "it failed"})
	if _, refused := c.admit(now); refused == nil {
		t.Fatal("a start was admitted after many failures")
	}
	c.reset()
	if wait, refused := c.admit(now); wait != 0 || refused != nil {
		t.Errorf("after a reset: wait %v, refused %v", wait, refused)
	}
}
