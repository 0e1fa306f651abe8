// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A step that never returns is reported like any other failure.
func TestHangIsAFailure(t *testing.T) {
	for name, run := range map[string]func([]*runner) *Failure{
		"one":  func(r []*runner) *Failure { _, f := runOne(r[0], 6, true); return f },
		"many": func(r []*runner) *Failure { _, f := (&pool{first: 6, n: 1, explain: true}).run(r); return f },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resume := make(chan struct{})
				defer close(resume)
				hangs := func(w *world) {
					if w.src.Steps() == 20 {
						<-resume
					}
				}
				runners := []*runner{newRunner(), newRunner()}
				runners[0].sabotage, runners[1].sabotage = hangs, hangs
				f := run(runners)
				if f == nil || !f.Stuck || f.Rule != "I28" {
					t.Fatalf("failure: %v", f)
				}
				if text := f.String(); len(f.Transcript) == 0 || !strings.Contains(text, "the schedule hangs") || !strings.Contains(text, "-seed 6\n") {
					t.Errorf("report:\n%s", text)
				}
			})
		})
	}
}

// A runner without schedules is not stuck, and neither is one that has worked for long.
func TestIdleRunnerIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		idle, busy := newRunner(), newRunner()
		idle.idle.Store(true)
		go func() { // ends by itself; waited for through done
			defer close(done)
			for range 5 {
				busy.heartbeat.Add(1)
				wait(maxPolls - 1)
			}
		}()
		if r := watch([]*runner{idle, busy}, done); r != nil {
			t.Errorf("stuck: the idle one: %v", r == idle)
		}
	})
}

// wait sleeps for a number of polls.
func wait(looks int) { time.Sleep(time.Duration(looks) * pollInterval) }
