// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A machine that never returns is told of like any other failure: by whoever looks
// from outside.
func TestAStepThatDoesNotComeBackIsAFailure(t *testing.T) {
	for name, run := range map[string]func([]*runner) *Failure{
		"one":  func(r []*runner) *Failure { _, f := runOne(r[0], 6, true); return f },
		"many": func(r []*runner) *Failure { _, f := (&crew{first: 6, n: 1, explain: true}).run(r); return f },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				comesBack := make(chan struct{})
				defer close(comesBack)
				hangs := func(w *world) {
					if w.src.Steps() == 20 {
						<-comesBack
					}
				}
				runners := []*runner{newRunner(), newRunner()}
				runners[0].sabotage, runners[1].sabotage = hangs, hangs
				f := run(runners)
				if f == nil || !f.Stuck || f.Rule != "I28" {
					t.Fatalf("failure: %v", f)
				}
				if text := f.String(); len(f.Transcript) == 0 || !strings.Contains(text, "does not come to rest") || !strings.Contains(text, "-seed 6\n") {
					t.Errorf("report:\n%s", text)
				}
			})
		})
	}
}

// Whoever is done stands still, and is not stuck; nor is who has worked for long.
func TestWhoIsDoneIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		idle, busy := newRunner(), newRunner()
		idle.idle.Store(true)
		go func() { // ends by itself, and is waited for through done
			defer close(done)
			for range 5 {
				busy.beat.Add(1)
				wait(mostLooks - 1)
			}
		}()
		if r := watch([]*runner{idle, busy}, done); r != nil {
			t.Errorf("stuck: the idle one: %v", r == idle)
		}
	})
}

// wait sleeps, in the bubble of a test, for so many looks of a watch.
func wait(looks int) { time.Sleep(time.Duration(looks) * lookEvery) }
